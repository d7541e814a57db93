package table_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// Columns are filled anew while files of their earlier rows are still written: a partition value stays what it was, or rows
// would be committed under another one's.
func TestPartitionValueOutlivesItsColumn(t *testing.T) {
	for _, typ := range []struct {
		delta deltalog.DataType
		arrow arrow.DataType
	}{{deltalog.String, arrow.BinaryTypes.String}, {deltalog.Binary, arrow.BinaryTypes.Binary}} {
		text := []byte("s001s002")
		offsets := arrow.Int32Traits.CastToBytes([]int32{0, 4, 8})
		data := array.NewData(typ.arrow, 2, []*memory.Buffer{nil, memory.NewBufferBytes(offsets), memory.NewBufferBytes(text)}, nil, 0, 0)
		column := array.MakeFromData(data)
		v, err := table.PartitionValue(typ.delta, column, 1)
		if err != nil || v == nil {
			t.Fatalf("%s: %v, %v", typ.arrow, v, err)
		}
		want := string([]byte(*v)) // a copy
		copy(text, "otherrow")
		if *v != want {
			t.Errorf("%s: the value is %q after the column was filled anew, it was %q", typ.arrow, *v, want)
		}
		column.Release()
		data.Release()
	}
}
