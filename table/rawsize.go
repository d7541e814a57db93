package table

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// rawSize estimates the bytes that the rows take before they are encoded.
func rawSize(cols []arrow.Array) int64 {
	n := int64(0)
	for _, c := range cols {
		n += rawSizeOf(c)
	}
	return n
}

func rawSizeOf(a arrow.Array) int64 {
	switch a := a.(type) {
	case *array.String:
		return int64(len(a.ValueBytes())) + 4*int64(a.Len())
	case *array.Binary:
		return int64(len(a.ValueBytes())) + 4*int64(a.Len())
	case *array.Struct:
		n := int64(0)
		for i := range a.NumField() {
			n += rawSizeOf(a.Field(i))
		}
		return n
	case *array.List:
		from, to := listBounds(a.Offsets(), a.Data().Offset(), a.Len())
		s := array.NewSlice(a.ListValues(), from, to)
		defer s.Release()
		return rawSizeOf(s) + 4*int64(a.Len())
	case *array.Map:
		from, to := listBounds(a.Offsets(), a.Data().Offset(), a.Len())
		k, v := array.NewSlice(a.Keys(), from, to), array.NewSlice(a.Items(), from, to)
		defer k.Release()
		defer v.Release()
		return rawSizeOf(k) + rawSizeOf(v) + 4*int64(a.Len())
	}
	if t, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		return int64(a.Len()) * int64(t.BitWidth()) / 8
	}
	return int64(a.Len())
}

func listBounds(offsets []int32, at, n int) (from, to int64) {
	if n == 0 {
		return 0, 0
	}
	return int64(offsets[at]), int64(offsets[at+n])
}
