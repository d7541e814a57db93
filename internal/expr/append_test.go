package expr

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// The value of a column, appended, is that of the column, for every plain type; a value that has no answer adds nothing.
func TestAppend(t *testing.T) {
	cols, rows := testColumns(t)
	e := On(cols)
	for i, f := range testSchema().Fields() {
		x, err := Parse("`" + f.Name + "`")
		if err != nil {
			t.Fatal(err)
		}
		bound, err := x.Bind(testSchema())
		if err != nil {
			t.Fatal(err)
		}
		_, nested := f.Type.(*arrow.StructType)
		if bound.Gives(f.Type) == nested {
			t.Errorf("%s: gives its own type: %v", f.Name, !nested)
		}
		if nested {
			continue
		}
		b := array.NewBuilder(memory.DefaultAllocator, f.Type)
		for row := range rows {
			if err := e.Append(bound, row, b); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.NewArray(); !array.ApproxEqual(got, cols[i], array.WithNaNsEqual(true)) {
			t.Errorf("%s: %v, want %v", f.Name, got, cols[i])
		}
	}
	x, err := Parse("1 / 0")
	if err != nil {
		t.Fatal(err)
	}
	bound, err := x.Bind(testSchema())
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	if err := e.Append(bound, 0, b); err == nil || b.Len() != 0 {
		t.Errorf("1 / 0: %v, %d values", err, b.Len())
	}
}
