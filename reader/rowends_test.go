package reader

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// A row at no place of a log is refused; one without a place is somebody's own (I4, I8).
func TestEndsOfRows(t *testing.T) {
	names := table.DefaultNames()
	schema := arrow.NewSchema([]arrow.Field{{Name: names.Partition, Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: names.Offset, Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	ends := func(p int32, offsets ...int64) (map[int32]record.Offset, error) {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		defer b.Release()
		b.Field(0).AppendNull()
		b.Field(1).AppendNull()
		for _, o := range offsets {
			b.Field(0).(*array.Int32Builder).Append(p)
			b.Field(1).(*array.Int64Builder).Append(o)
		}
		rb := b.NewRecordBatch()
		defer rb.Release()
		got := map[int32]record.Offset{}
		return got, endsOfBatch(got, names, rb)
	}
	if got, err := ends(3, 9, 4, 0); err != nil || len(got) != 1 || got[3] != 10 {
		t.Errorf("%v, %v", got, err)
	}
	for _, o := range []int64{-1, math.MinInt64, math.MaxInt64, math.MaxInt64 - 1} {
		if got, err := ends(0, 1, o); err == nil {
			t.Errorf("offset %d is taken: %v", o, got)
		}
	}
	if got, err := ends(-1, 1); err == nil {
		t.Errorf("partition -1 is taken: %v", got)
	}
}
