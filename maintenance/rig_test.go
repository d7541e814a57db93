package maintenance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(seedtest.New(t), 1))
}

// rig is a table in memory that is filled as tiering does it: a file a commit, and the positions with it.
type rig struct {
	t     testing.TB
	store *mem.Store
	table *table.Table
	topic string // of the next rows, in a table that tells topics apart
	next  map[int32]int64
	now   time.Time
}

var payload = arrow.NewSchema([]arrow.Field{
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "day", Type: arrow.BinaryTypes.String, Nullable: true},
}, nil)

func newRig(t testing.TB, cfg table.Config) *rig {
	t.Helper()
	r := &rig{t: t, store: mem.New(), next: map[int32]int64{}, now: time.Now()}
	if cfg.Log.CheckpointInterval == 0 {
		cfg.Log.CheckpointInterval = -1
	}
	cfg.Clock = func() time.Time { return r.now }
	tb, err := table.Create(t.Context(), r.store, payload, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.table = tb
	t.Cleanup(func() { _ = tb.Close() })
	return r
}

// reopen gives the table as another process sees it.
func (r *rig) reopen() *table.Table {
	r.t.Helper()
	tb, err := table.Open(r.t.Context(), r.store, table.Config{Log: deltalog.Config{CheckpointInterval: -1}, Clock: func() time.Time { return r.now }})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = tb.Close() })
	return tb
}

// file writes a data file with n rows of each partition behind those before, with a hole now and then.
func (r *rig) file(parts []int32, n int, day *string) deltalog.Add {
	r.t.Helper()
	sys := table.NewSystemColumns(r.table.Names, r.topic)
	text := array.NewStringBuilder(memory.DefaultAllocator)
	days := array.NewStringBuilder(memory.DefaultAllocator)
	for _, p := range parts {
		for range n {
			off := r.next[p]
			r.next[p] = off + 1 + off%7/6
			sys.Append(p, &record.Record{Offset: record.Offset(off), Timestamp: 1_700_000_000_000 + off, Key: []byte{byte(off)}, Value: []byte("v")})
			text.Append(fmt.Sprintf("%d/%d", p, off))
			days.AppendNull()
		}
	}
	opts := table.WriterOptions{}
	cols := append(sys.Arrays(), text.NewArray())
	last := len(cols)
	if r.topic != "" {
		opts.PartitionValues = map[string]*string{table.TopicColumn: &r.topic}
		cols = append(cols[:last-2:last-2], cols[last-1], days.NewArray()) // without that of the topic
	} else if snap := r.snap(); len(snap.Metadata().PartitionColumns) > 0 {
		opts.PartitionValues = map[string]*string{"day": day}
	} else {
		cols = append(cols, days.NewArray())
	}
	w, err := r.table.NewFileWriter(r.t.Context(), opts)
	if err == nil {
		err = w.Write(array.NewRecordBatch(w.Schema(), cols, int64(len(parts)*n)))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	add, err := w.Close(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return add
}

func (r *rig) commit(adds ...deltalog.Add) deltalog.Version {
	r.t.Helper()
	c := deltalog.Commit{ReadVersion: r.snap().Version(), Operation: "STREAMING UPDATE", Adds: adds, BlindAppend: true}
	for p, next := range r.next {
		c.Txns = append(c.Txns, deltalog.Txn{AppID: table.AppID("app"+r.topic, p), Version: next - 1})
	}
	v, err := r.table.Log.Commit(r.t.Context(), c)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// fill makes as many commits.
func (r *rig) fill(commits int, parts ...int32) {
	r.t.Helper()
	for range commits {
		r.commit(r.file(parts, 10, nil))
	}
}

// foreign appends a file as another engine would, without tags.
func (r *rig) foreign(path string, rb arrow.RecordBatch, stats string) {
	r.t.Helper()
	var file bytes.Buffer
	w, err := pqarrow.NewFileWriter(rb.Schema(), &file, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err == nil {
		err = errors.Join(w.Write(rb), w.Close())
	}
	if err == nil {
		err = r.store.Put(r.t.Context(), path, file.Bytes())
	}
	if err == nil {
		_, err = r.table.Log.Commit(r.t.Context(), deltalog.Commit{ReadVersion: r.snap().Version(), Operation: "WRITE", BlindAppend: true,
			Adds: []deltalog.Add{{Path: path, PartitionValues: map[string]*string{}, Size: int64(file.Len()), ModificationTime: 1, DataChange: true, Stats: stats}}})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) snap() *deltalog.Snapshot {
	r.t.Helper()
	snap, err := r.table.Refresh(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return snap
}

// vector deletes rows of a file by an inline deletion vector, in a commit of its own as another engine makes it.
func (r *rig) vector(f *deltalog.Add, rows ...uint16) {
	r.t.Helper()
	snap := r.snap()
	if !slices.Contains(snap.ReaderFeatures(), "deletionVectors") {
		c, err := snap.Alter(deltalog.Change{Features: []string{"deletionVectors"}})
		if err == nil {
			_, err = r.table.Log.Commit(r.t.Context(), c)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		snap = r.snap()
	}
	le := binary.LittleEndian
	raw := le.AppendUint32(nil, 1681511377)
	raw = le.AppendUint64(raw, 1)
	raw = le.AppendUint32(raw, 0)
	raw = le.AppendUint32(le.AppendUint32(raw, 12346), 1)
	raw = le.AppendUint16(le.AppendUint16(raw, 0), uint16(len(rows)-1))
	raw = le.AppendUint32(raw, 16)
	for _, x := range rows {
		raw = le.AppendUint16(raw, x)
	}
	next := *f
	next.DeletionVector = &deltalog.DeletionVector{StorageType: "i", PathOrInlineDV: z85(raw), SizeInBytes: int32(len(raw)), Cardinality: int64(len(rows))}
	c := deltalog.Commit{ReadVersion: snap.Version(), Operation: "DELETE", Adds: []deltalog.Add{next},
		Removes: []deltalog.Remove{deltalog.RemoveOf(f, r.now.UnixMilli(), true)}}
	if _, err := r.table.Log.Commit(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
}

func z85(b []byte) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	var s strings.Builder
	for i := 0; i < len(b); i += 4 {
		v := binary.BigEndian.Uint32(b[i:])
		var group [5]byte
		for j := 4; j >= 0; j-- {
			group[j] = digits[v%85]
			v /= 85
		}
		s.Write(group[:])
	}
	return s.String()
}

// rows gives every row of a version as text, in the order of the scan.
func rows(t testing.TB, tb *table.Table, snap *deltalog.Snapshot) []string {
	t.Helper()
	out, err := tryRows(t.Context(), tb, snap)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryRows(ctx context.Context, tb *table.Table, snap *deltalog.Snapshot) ([]string, error) {
	var out []string
	for rb, err := range tb.Scan(ctx, snap, table.ScanOptions{}) {
		if err != nil {
			return nil, err
		}
		for i := range int(rb.NumRows()) {
			var s strings.Builder
			for c := range int(rb.NumCols()) {
				s.WriteString(rb.Column(c).ValueStr(i) + "|")
			}
			out = append(out, s.String())
		}
		rb.Release()
	}
	return out, nil
}

// sorted is for comparing rows whose partitions may come in another order.
func sorted(rows []string) []string { return slices.Sorted(slices.Values(rows)) }

// same compares the newest version, as a new process reads it, with rows and positions from before.
func (r *rig) same(what string, want []string, txns map[string]int64) {
	r.t.Helper()
	tb := r.reopen()
	snap, err := tb.Refresh(r.t.Context())
	if err != nil {
		r.t.Fatal(what, err)
	}
	got, err := tryRows(r.t.Context(), tb, snap)
	if err != nil {
		r.t.Fatal(what, err)
	}
	if !slices.Equal(sorted(got), sorted(want)) {
		r.t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for id, v := range txns {
		if now, ok := snap.Txn(id); !ok || now != v {
			r.t.Fatalf("%s: position %s is %d, want %d", what, id, now, v)
		}
	}
	if found, err := tb.Check(r.t.Context()); err != nil || len(found) > 0 {
		r.t.Fatalf("%s: check finds %v, error %v", what, found, err)
	}
}

var errStop = errors.New("the process ends here")

// dieAt makes the store fail from its n-th operation on, as if the process had died before it or, when after is
// set, between it and its answer. It gives a function that brings the store back.
func (r *rig) dieAt(n int64, after bool) (hit func() bool) {
	base := r.store.Calls()
	var died atomic.Bool // deletes come from several goroutines
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		switch {
		case c.N-base < n:
			return mem.Fault{}
		case c.N-base == n && after && c.Op != mem.OpGet && c.Op != mem.OpList && c.Op != mem.OpHead && c.Op != mem.OpGetRange && c.Op != mem.OpCreate:
			died.Store(true)
			return mem.Fault{After: errStop}
		}
		died.Store(true)
		return mem.Fault{Before: errStop}
	})
	return func() bool {
		r.store.SetHook(nil)
		return died.Load()
	}
}

// writeOrLink makes a file, or a link to a target.
func writeOrLink(t *testing.T, name, target string) {
	t.Helper()
	var err error
	if target == "" {
		err = os.WriteFile(name, []byte("x"), 0o600)
	} else {
		err = os.Symlink(target, name)
	}
	if err != nil {
		t.Skipf("no links here: %v", err)
	}
}
