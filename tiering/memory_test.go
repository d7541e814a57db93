package tiering_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// TestMemory proves I8 for what takes memory: whatever the records are like and however slow the store is, what lives on the
// heap stays within the budget and a few copies of the largest record. The log's batches are compressed to next to nothing, and
// the store is a folder, so that neither counts.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of megabytes of records")
	}
	// What is allocated while a collection runs counts as live. The percentage bounds that too, on any number of processors.
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	const mib = 1 << 20
	rng := rand.New(rand.NewPCG(seedtest.New(t), 1))
	pad := bytes.Repeat([]byte("some text "), 60)
	for _, c := range []struct {
		name      string
		columns   []arrow.Field
		partition []string
		evolve    bool
		slow      bool
		budget    int64
		limit     int64 // of the heap, above what there was before
		batches   int
		batch     func(i int) [][]byte
	}{
		{"100 open Delta partitions and a slow store", append(payload().Fields(), nullable("k", arrow.PrimitiveTypes.Int32)), []string{"k"}, false, true, 16 * mib, 64 * mib, 600, func(i int) (out [][]byte) {
			for range 200 {
				out = append(out, fmt.Appendf(nil, `{"n":%d,"k":%d,"s":"%s"}`, i, rng.IntN(100), pad))
			}
			return out
		}},
		{"messages of 20 MB", payload().Fields(), nil, false, false, 16 * mib, 16*mib + 9*20*mib, 12, func(i int) [][]byte {
			return [][]byte{fmt.Appendf(nil, `{"n":%d,"s":"%s"}`, i, bytes.Repeat(pad[:10], 2<<20))}
		}},
		{"ten million keys", payload().Fields(), nil, true, false, 16 * mib, 96 * mib, 1000, func(i int) [][]byte {
			b := fmt.Appendf(nil, `{"n":%d`, i)
			for k := range 10_000 {
				b = append(strconv.AppendInt(append(b, `,"k`...), int64(i*10_000+k), 10), `":1`...)
			}
			return [][]byte{append(b, '}')}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1)
			rows := 0
			for i := range c.batches {
				b := c.batch(i)
				rows += len(b)
				r.log.append(t, 0, record.Zstd, b...)
			}
			var store objstore.Store
			store, err := dir.Open(dir.Config{Root: t.TempDir(), FS: vfs.OS()})
			if err != nil {
				t.Fatal(err)
			}
			if c.slow {
				store = slowStore{store}
			}
			cfg := tableConfig()
			cfg.PartitionColumns, cfg.DropValue = c.partition, true
			tab, err := table.Create(t.Context(), store, arrow.NewSchema(c.columns, nil), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer tab.Close()
			conf := r.cfg
			conf.Table, conf.MemoryBudget, conf.Evolve = tab, c.budget, c.evolve
			tr, err := tiering.Open(t.Context(), conf)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			before, stop := live(), mostLive()
			err = tr.Run(t.Context())
			most := stop()
			if s := tr.Stats(); err != nil || s.Rows != int64(rows) || s.DeadLetters != 0 {
				t.Fatalf("%d rows of %d, %d letters: %v", s.Rows, rows, s.DeadLetters, err)
			}
			t.Logf("%d MiB live before, at most %d MiB more", before/mib, (most-before)/mib)
			if most-before > c.limit {
				t.Errorf("%d MiB more are live, want at most %d", (most-before)/mib, c.limit/mib)
			}
		})
	}
}

// slowStore takes its time for each new object.
type slowStore struct{ objstore.Store }

func (s slowStore) Create(ctx context.Context, key string) (objstore.Writer, error) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
	return s.Store.Create(ctx, key)
}

// live is what collections leave on the heap; pools keep what they have for one.
func live() int64 {
	runtime.GC()
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// mostLive collects again and again until it is stopped, and gives the most that was left.
func mostLive() (stop func() int64) {
	done, most := make(chan struct{}), make(chan int64)
	go func() {
		top := int64(0)
		for {
			select {
			case <-done:
				most <- top
				return
			default:
				top = max(top, live())
			}
		}
	}()
	return func() int64 {
		close(done)
		return <-most
	}
}
