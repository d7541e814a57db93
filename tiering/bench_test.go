package tiering_test

import (
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/record"
)

// BenchmarkTiering moves a filled topic of 4 partitions into a new table in memory: the whole pipeline.
func BenchmarkTiering(b *testing.B) {
	const batches, perBatch = 250, 200
	src := newFakeLog(4)
	size := int64(0)
	for p := range int32(4) {
		for i := range batches {
			var values [][]byte
			for j := range perBatch {
				v := fmt.Appendf(nil, `{"n":%d,"s":"customer-%d","unknown":{"a":[1,2,3]},"note":"some text that no column takes"}`, i*perBatch+j, (i*31+j*7)%5000)
				size += int64(len(v))
				values = append(values, v)
			}
			src.append(b, p, record.Snappy, values...)
		}
	}
	rows := 4 * batches * perBatch
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		r := newRig(b, 0)
		r.log = src
		r.cfg.Source = src
		if s := r.mustRun(); s.Rows != int64(rows) {
			b.Fatalf("%d rows, want %d", s.Rows, rows)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
