package reader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// lake is a table of the records of topic t, made without a log.
type lake struct {
	store *mem.Store
	table *table.Table
	ends  map[int32]record.Offset
	lists atomic.Int64                // listings of the store
	times func(o record.Offset) int64 // nil: 1000 + offset
}

func newLake(t testing.TB) *lake {
	t.Helper()
	l := &lake{store: mem.New(), ends: map[int32]record.Offset{}}
	tab, err := table.Create(t.Context(), l.store, nil, table.Config{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tab.Close() })
	l.table = tab
	l.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpList {
			l.lists.Add(1)
		}
		return mem.Fault{}
	})
	return l
}

// add commits one file of n records of a partition, from offset from; value gives the record's value.
func (l *lake) add(t testing.TB, p int32, from record.Offset, n int, value func(o record.Offset) []byte) deltalog.Add {
	t.Helper()
	add := l.write(t, p, from, n, value)
	l.ends[p] = from + record.Offset(n)
	l.commit(t, deltalog.Commit{Adds: []deltalog.Add{add}})
	return add
}

// write makes a file that is not committed.
func (l *lake) write(t testing.TB, p int32, from record.Offset, n int, value func(o record.Offset) []byte) deltalog.Add {
	t.Helper()
	w, err := l.table.NewFileWriter(t.Context(), table.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sys := table.NewSystemColumns(l.table.Names, "")
	flush := func() {
		rb := array.NewRecordBatch(w.Schema(), sys.Arrays(), int64(sys.Rows()))
		defer rb.Release()
		if err := w.Write(rb); err != nil {
			t.Fatal(err)
		}
		sys.Reset()
	}
	for i := range n {
		o := from + record.Offset(i)
		at := 1000 + int64(o)
		if l.times != nil {
			at = l.times(o)
		}
		sys.Append(p, &record.Record{Offset: o, Timestamp: at, Key: fmt.Appendf(nil, "key-%d", o), Value: value(o),
			Headers: []record.Header{{Key: []byte("trace"), Value: fmt.Appendf(nil, "%d", o)}}})
		if sys.Rows() == 20_000 {
			flush()
		}
	}
	flush()
	add, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return add
}

// commit commits a change with the positions.
func (l *lake) commit(t testing.TB, c deltalog.Commit) {
	t.Helper()
	snap, err := l.table.Log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.ReadVersion, c.Operation = snap.Version(), "WRITE"
	for p, end := range l.ends {
		c.Txns = append(c.Txns, deltalog.Txn{AppID: table.AppID("t", p), Version: int64(end) - 1})
	}
	if _, err := l.table.Log.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func jsonValue(rng *rand.Rand) func(record.Offset) []byte {
	words := []string{"checkout", "payment", "inventory", "shipping", "basket", "refund", "session", "recommendation"}
	return func(o record.Offset) []byte {
		b := fmt.Appendf(nil, `{"id":%d,"user":"%016x","amount":%d.%02d,"tags":[`, o, rng.Uint64(), rng.IntN(1000), rng.IntN(100))
		for len(b) < 660 {
			b = fmt.Appendf(b, `"%s-%06d",`, words[rng.IntN(len(words))], rng.IntN(1_000_000))
		}
		return append(b, `"end"]}`...)
	}
}

// BenchmarkHistory replays a partition as a consumer does, a mebibyte a Fetch. MB are of keys and values.
func BenchmarkHistory(b *testing.B) {
	l := newLake(b)
	value := jsonValue(rand.New(rand.NewPCG(1, 1)))
	const files, rows = 4, 40_000
	size := int64(0)
	for f := range record.Offset(files) {
		l.add(b, 0, f*rows, rows, func(o record.Offset) []byte {
			v := value(o)
			size += int64(len(v)) + int64(len(fmt.Sprintf("key-%d", o)))
			return v
		})
	}
	tp := record.TopicPartition{Topic: "t"}
	for _, codec := range []record.Codec{record.None, record.LZ4, record.Snappy, record.Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			h := l.history(b, HistoryConfig{Codec: codec, NoCodec: codec == record.None})
			b.SetBytes(size)
			b.ReportAllocs()
			n := 0
			before := cpuSeconds(b)
			for b.Loop() {
				for from := record.Offset(0); from < files*rows; n++ {
					_, next, err := h.Fetch(b.Context(), tp, from, 1<<20)
					if err != nil || next <= from {
						b.Fatal(from, next, err)
					}
					from = next
				}
			}
			b.ReportMetric(float64(n)/float64(b.N), "fetches/op")
			b.ReportMetric(float64(size)*float64(b.N)/1e6/(cpuSeconds(b)-before), "MB/cpu-s")
		})
	}
}

// cpuSeconds is the processor time of this process, which other processes do not take away.
func cpuSeconds(t testing.TB) float64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func (l *lake) history(t testing.TB, cfg HistoryConfig) *History {
	t.Helper()
	cfg.Table = func(string) (*table.Table, bool) { return l.table, true }
	h, err := NewHistory(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}
