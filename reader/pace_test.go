package reader

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"10000": {Records: 10000}, "20MB": {Bytes: 20e6}, "8MiB": {Bytes: 8 << 20}, "100, 1kB": {Records: 100, Bytes: 1000}, "5B,3": {Records: 3, Bytes: 5},
	} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "x", "0", "-1", "10,20", "1MB,2MB", "MB", "1TB", "9999999999GB", "1,2MB,3", "1.5MB"} {
		if got, err := ParseRate(bad); err == nil {
			t.Errorf("%q is %v, want an error", bad, got)
		}
	}
}

// numbers is a batch of n longs and n strings of ten bytes.
func numbers(n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil))
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append("0123456789")
	}
	return b.NewRecordBatch()
}

// In virtual time: batches come at their rate from the first on, a rest earns no burst, and a slice counts as itself.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		at := func(want time.Duration) {
			t.Helper()
			if got := time.Since(begin).Round(time.Millisecond); got != want {
				t.Errorf("at %v, want %v", got, want)
			}
		}
		whole := numbers(100)
		p := NewPace(Rate{Records: 100, Bytes: 900}) // a row has 18 bytes
		for _, want := range []time.Duration{0, 2 * time.Second, 4 * time.Second} {
			if err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			at(want)
			p.Used(whole.NumRows(), batchSize(whole))
		}
		<-time.After(time.Minute)
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		at(64 * time.Second)
		half := whole.NewSlice(10, 60)
		p.Used(half.NumRows(), batchSize(half))
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		at(65 * time.Second)
	})
	if got := (Rate{Records: 50}).batchRows(0); got != 5 {
		t.Errorf("%d rows a batch, want 5", got)
	}
}
