package tiering_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// rig is a log, a table and its dead letters.
type rig struct {
	t           testing.TB
	log         *fakeLog
	store, dead *mem.Store
	through     objstore.Store // over store; nil: store itself
	cfg         tiering.Config // changed by tests before open
}

func payload() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
}

func newRig(t testing.TB, partitions int) *rig {
	t.Helper()
	r := &rig{t: t, log: newFakeLog(partitions), store: mem.New(), dead: mem.New()}
	tab, err := table.Create(t.Context(), r.store, payload(), tableConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	r.cfg = tiering.Config{
		Source: r.log, Topic: "orders", Format: tiering.FormatJSON, UntilEnd: true, Workers: 2,
		MaxAge:    time.Hour, // a test that counts commits must not take one for age, however slow the machine is
		RetryBase: time.Microsecond, RetryMax: time.Millisecond,
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return r.dead, nil },
	}
	return r
}

func tableConfig() table.Config {
	return table.Config{Topic: "orders", Log: deltalog.Config{RetryBase: time.Microsecond, RetryMax: time.Millisecond}}
}

// open makes a tierer on its own Table, as another process would.
func (r *rig) open() (*tiering.Tierer, func()) {
	r.t.Helper()
	conf := tableConfig()
	conf.Topic = r.cfg.Topic
	store := objstore.Store(r.store)
	if r.through != nil {
		store = r.through
	}
	tab, err := table.Open(r.t.Context(), store, conf)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := r.cfg
	cfg.Table = tab
	if testing.Verbose() {
		cfg.Logger = slog.New(slog.NewTextHandler(testWriter{r.t}, nil))
	}
	tr, err := tiering.Open(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return tr, func() {
		if err := tr.Close(); err != nil {
			r.t.Error(err)
		}
		if err := tab.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// run runs a tierer to its end.
func (r *rig) run(ctx context.Context) (tiering.Stats, error) {
	r.t.Helper()
	tr, done := r.open()
	defer done()
	err := tr.Run(ctx)
	return tr.Stats(), err
}

func (r *rig) mustRun() tiering.Stats {
	r.t.Helper()
	s, err := r.run(r.t.Context()) // one that hangs meets the limit of the test binary, which shows where
	if err != nil {
		r.t.Fatalf("Run = %v", err)
	}
	return s
}

// place is the coordinates of a row.
type place struct {
	partition int32
	offset    int64
}

// rows reads every row of a table, as column texts; a row that is there twice fails the test (I3).
func rows(t testing.TB, store objstore.Store) (map[place]map[string]string, *deltalog.Snapshot) {
	t.Helper()
	log, err := deltalog.Open(t.Context(), store, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[place]map[string]string{}
	for add := range snap.Files() {
		var last place
		key, err := deltalog.DecodePath(add.Path)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range fileRows(t, store, key) {
			var at place
			fmt.Sscan(row["_partition"], &at.partition)
			fmt.Sscan(row["_offset"], &at.offset)
			if out[at] != nil {
				t.Errorf("row %+v is in the table twice", at)
			}
			if i > 0 && (at.partition < last.partition || at.partition == last.partition && at.offset <= last.offset) {
				t.Errorf("file %s is not sorted: %+v after %+v", add.Path, at, last)
			}
			out[at], last = row, at
		}
	}
	return out, snap
}

func fileRows(t testing.TB, store objstore.Store, path string) []map[string]string {
	t.Helper()
	data, err := store.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	pf, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	fr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := fr.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Release()
	var out []map[string]string
	tr := array.NewTableReader(tab, 0)
	defer tr.Release()
	for tr.Next() {
		rb := tr.RecordBatch()
		for i := range int(rb.NumRows()) {
			row := map[string]string{}
			for c := range int(rb.NumCols()) {
				col := rb.Column(c)
				switch b := col.(type) {
				case *array.Binary:
					if b.IsValid(i) {
						row[rb.ColumnName(c)] = string(b.Value(i))
					}
				default:
					if col.IsValid(i) {
						row[rb.ColumnName(c)] = col.ValueStr(i)
					}
				}
			}
			out = append(out, row)
		}
	}
	return out
}

// want is the rows that the log's committed records make, by their values.
func (r *rig) want(skip ...place) map[place]string {
	out := map[place]string{}
	for p, part := range r.log.parts {
		var it record.Iterator
		var filter record.AbortFilter
		var aborted []record.AbortedTxn
		for _, a := range part.aborted {
			aborted = append(aborted, record.AbortedTxn(a))
		}
		filter.Reset(aborted)
		for _, raw := range part.batches {
			b, err := record.ReadBatch(raw)
			if err != nil {
				r.t.Fatal(err)
			}
			if !filter.Keep(b) {
				continue
			}
			if err := it.Reset(b); err != nil {
				r.t.Fatal(err)
			}
			for it.Next() {
				at := place{int32(p), int64(it.Record().Offset)}
				if it.Record().Offset >= part.bounds.Start && !slices.Contains(skip, at) {
					out[at] = string(it.Record().Value)
				}
			}
		}
	}
	return out
}

// check compares the table with the log: every record once (I3), every position at the end of its partition.
func (r *rig) check(skip ...place) {
	r.t.Helper()
	got, snap := rows(r.t, r.store)
	want := r.want(skip...)
	for at, v := range want {
		if got[at] == nil || got[at]["_value"] != v {
			r.t.Errorf("row %+v is %q, want the value %q", at, got[at], v)
		}
	}
	for at := range got {
		if _, ok := want[at]; !ok {
			r.t.Errorf("row %+v is not in the log", at)
		}
	}
	for p, part := range r.log.parts {
		if part.bounds.Stable == 0 {
			continue
		}
		if end, ok := table.LakeEnd(snap, "orders", int32(p)); !ok || end != part.bounds.Stable {
			r.t.Errorf("partition %d is at %d, %v; want %d", p, end, ok, part.bounds.Stable)
		}
	}
	r.log.mu.Lock()
	holds := maps.Clone(r.log.holds)
	r.log.mu.Unlock()
	for p, o := range holds {
		if end, ok := table.LakeEnd(snap, "orders", p); ok && o > end {
			r.t.Errorf("partition %d is held at %d, the table is at %d", p, o, end) // I6
		}
	}
}

// fill appends good records to all partitions, in batches of several codecs.
func (r *rig) fill(perPartition, perBatch int) {
	codecs := []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}
	for p := range r.log.parts {
		for done := 0; done < perPartition; {
			var values [][]byte
			for ; len(values) < perBatch && done < perPartition; done++ {
				values = append(values, fmt.Appendf(nil, `{"n":%d,"s":"p%d %d"}`, done, p, done))
			}
			r.log.append(r.t, int32(p), codecs[(done+p)%len(codecs)], values...)
		}
	}
}
