package tiering_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/record"
)

// TestGeneratedPartitionsAreLinear: partition columns that the table computes are computed for the rows of a batch after that
// batch, not for all that wait: what a row costs does not grow with how many there are. What is computed is allocated, so bytes
// count it on any machine.
func TestGeneratedPartitionsAreLinear(t *testing.T) {
	bytes := func(n int) float64 {
		r := newRig(t, 1)
		r.cfg.Workers = 1
		r.partitioned([]string{"day"}, nullable("n", arrow.PrimitiveTypes.Int64), nullable("at", arrow.FixedWidthTypes.Timestamp_us), nullable("day", arrow.FixedWidthTypes.Date32))
		r.generated("day", "CAST(at AS DATE)")
		for i := range n {
			r.log.append(t, 0, record.None, fmt.Appendf(nil, `{"n":%d,"at":"2020-01-01T10:00:00Z"}`, i))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if s := r.mustRun(); s.Rows != int64(n) {
			t.Fatalf("stats %+v", s)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	}
	bytes(100)
	few, many := bytes(2000), bytes(16000)
	t.Logf("bytes a row: %.0f of 2000, %.0f of 16000", few, many)
	if many > 2*few {
		t.Errorf("a row of 16000 allocates %.0f bytes, one of 2000 %.0f", many, few)
	}
}
