package maintenance

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/table"
)

// BenchmarkOptimize merges 64 files of four partitions each. It reports the rows in a second and the
// memory above what the table itself takes, sampled at every read of the store.
func BenchmarkOptimize(b *testing.B) {
	const files, parts, each = 64, 4, 5000 // rows of each partition
	var peak atomic.Int64
	for b.Loop() {
		b.StopTimer()
		r := newRig(b, table.Config{})
		for range files {
			r.commit(r.file([]int32{0, 1, 2, 3}, each, nil))
		}
		runtime.GC()
		base := heap()
		r.store.SetHook(func(context.Context, mem.Call) mem.Fault {
			if h := heap() - base; h > peak.Load() {
				peak.Store(h)
			}
			return mem.Fault{}
		})
		b.StartTimer()
		if _, err := Optimize(b.Context(), r.table, OptimizeOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(files*parts*each*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(peak.Load())/(1<<20), "peak-MB")
}

func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
