package reprocess_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

const topic = "events"

// rig is a log, its live table, and what has been sent.
type rig struct {
	t   *testing.T
	dir string // of the live table

	replaced string // the table whose shadows jobs fill
	log      *local.Log
	live     *table.Table
	sent     map[place]int // record at a place -> n
}

type place struct {
	partition int32
	offset    int64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), topic), sent: map[place]int{}}
	r.replaced = r.dir
	var err error
	if r.log, err = local.Open(t.Context(), local.Config{Dir: "/log", FS: vfs.NewMem()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.log.Close() })
	if _, err := r.log.CreateTopic(t.Context(), topic, broker.TopicConfig{Partitions: 2, Tiered: true}); err != nil {
		t.Fatal(err)
	}
	if r.live, err = table.OpenOrCreate(t.Context(), r.store(r.dir), onlyN, table.Config{Topic: topic}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) store(path string) objstore.Store {
	r.t.Helper()
	s, err := dir.Open(dir.Config{Root: path, FS: vfs.OS()})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// send adds the records n = from..to-1, in batches of some.
func (r *rig) send(from, to int) {
	r.t.Helper()
	for n := from; n < to; {
		b := record.NewBuilder(record.Snappy)
		count := min(1+n%40, to-n)
		partition := int32(n / 7 % 2)
		for i := range count {
			b.Append(int64(1_700_000_000_000+n+i), fmt.Appendf(nil, "k%d", n+i), fmt.Appendf(nil, `{"n":%d,"word":"w%d"}`, n+i, (n+i)%5), nil)
		}
		raw, err := b.Build(0)
		if err != nil {
			r.t.Fatal(err)
		}
		got, err := r.log.Append(r.t.Context(), record.TopicPartition{Topic: topic, Partition: partition}, raw)
		if err != nil {
			r.t.Fatal(err)
		}
		for i := range count {
			r.sent[place{partition, int64(got.Base) + int64(i)}] = n + i
		}
		n += count
	}
}

// tier brings all that the log has into the live table, in several commits.
func (r *rig) tier() error {
	tr, err := tiering.Open(r.t.Context(), tiering.Config{Source: r.log, Topic: topic, Table: r.live, Format: tiering.FormatJSON, UntilEnd: true, MaxRows: 150,
		RetryBase: time.Microsecond, RetryMax: time.Millisecond,
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return r.store(r.dir + "_dead_letters"), nil }})
	if err != nil {
		return err
	}
	return tr.Run(r.t.Context())
}

// cut takes from the log what is in the table, as retention does.
func (r *rig) cut() {
	r.t.Helper()
	for p := range int32(2) {
		tp := record.TopicPartition{Topic: topic, Partition: p}
		if _, err := r.log.DeleteRecords(r.t.Context(), tp, -1); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) config(spec reprocess.Spec) reprocess.Config {
	if spec.Name == "" {
		spec.Name = "better"
	}
	spec.Source, spec.Sink = "rig", reprocess.ShadowSink
	path := reprocess.ShadowPath(r.replaced, spec.Name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		r.t.Fatal(err)
	}
	return reprocess.Config{Spec: spec, Topic: topic, Table: r.live, Log: r.log, Sink: r.store(path), Workers: 2,
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return r.store(path + "_dead_letters"), nil },
		Tiering:         tiering.Config{MaxRows: 300, MaxAge: 20 * time.Millisecond, RetryBase: time.Microsecond, RetryMax: time.Millisecond, MemoryBudget: 8 << 20}}
}

func (r *rig) open(cfg reprocess.Config) *reprocess.Job {
	r.t.Helper()
	j, err := reprocess.Open(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = j.Close() })
	return j
}

// values gives a column of every row by its place; it fails on a place that comes twice.
func (r *rig) values(t *table.Table, column string) map[place]int64 {
	r.t.Helper()
	snap, err := t.Refresh(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[place]int64{}
	for rb, err := range t.Scan(r.t.Context(), snap, table.ScanOptions{Columns: []string{"_partition", "_offset", column}}) {
		if err != nil {
			r.t.Fatal(err)
		}
		for i := range int(rb.NumRows()) {
			p := place{rb.Column(0).(*array.Int32).Value(i), rb.Column(1).(*array.Int64).Value(i)}
			if _, twice := out[p]; twice {
				r.t.Fatalf("the record at %v is there twice", p)
			}
			out[p] = rb.Column(2).(*array.Int64).Value(i)
		}
		rb.Release()
	}
	return out
}

// want is what a job must make of everything that was sent.
func (r *rig) want(f func(n int) (int64, bool)) map[place]int64 {
	out := map[place]int64{}
	for p, n := range r.sent {
		if v, ok := f(n); ok {
			out[p] = v
		}
	}
	return out
}

func same(t *testing.T, who string, got, want map[place]int64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Fatalf("%s: %d rows, want %d, or other values", who, len(got), len(want))
	}
}

func random(t *testing.T) *rand.Rand {
	return rand.New(rand.NewPCG(seedtest.New(t), 5))
}
