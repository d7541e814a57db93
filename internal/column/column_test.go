package column

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

func allTypes() []arrow.DataType {
	inner := arrow.StructOf(
		arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true},
	)
	return []arrow.DataType{
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Boolean,
		arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.FixedWidthTypes.Date32,
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, &arrow.TimestampType{Unit: arrow.Microsecond},
		&arrow.Decimal128Type{Precision: 20, Scale: 3}, inner,
		arrow.ListOf(arrow.PrimitiveTypes.Int32), arrow.ListOf(inner), arrow.ListOf(arrow.ListOf(arrow.BinaryTypes.String)),
		arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64),
		arrow.MapOf(arrow.BinaryTypes.String, inner),
	}
}

// appendBoth adds the same random row to the column and to the arrow builder that is the model.
func appendBoth(rng *rand.Rand, c Column, b array.Builder, nullable bool) {
	if nullable && rng.IntN(4) == 0 {
		c.AppendNull()
		b.AppendNull()
		return
	}
	v := rng.IntN(200) - 100
	text := "0123456789abcdef"[:rng.IntN(16)]
	switch c := c.(type) {
	case *Int8:
		c.Append(int8(v))
		b.(*array.Int8Builder).Append(int8(v))
	case *Int16:
		c.Append(int16(v))
		b.(*array.Int16Builder).Append(int16(v))
	case *Int32:
		c.Append(int32(v))
		b.(*array.Int32Builder).Append(int32(v))
	case *Int64:
		c.Append(int64(v))
		b.(*array.Int64Builder).Append(int64(v))
	case *Float32:
		c.Append(float32(v) / 4)
		b.(*array.Float32Builder).Append(float32(v) / 4)
	case *Float64:
		c.Append(float64(v) / 4)
		b.(*array.Float64Builder).Append(float64(v) / 4)
	case *Bool:
		c.Append(v > 0)
		b.(*array.BooleanBuilder).Append(v > 0)
	case *Date32:
		c.Append(arrow.Date32(v))
		b.(*array.Date32Builder).Append(arrow.Date32(v))
	case *Timestamp:
		c.Append(arrow.Timestamp(v))
		b.(*array.TimestampBuilder).Append(arrow.Timestamp(v))
	case *Decimal128:
		c.Append(decimal128.FromI64(int64(v)))
		b.(*array.Decimal128Builder).Append(decimal128.FromI64(int64(v)))
	case *Binary:
		c.Append([]byte(text))
		switch b := b.(type) {
		case *array.StringBuilder:
			b.Append(text)
		case *array.BinaryBuilder:
			b.Append([]byte(text))
		}
	case *Struct:
		sb := b.(*array.StructBuilder)
		sb.Append(true)
		for i := range sb.NumField() {
			appendBoth(rng, c.Child(i), sb.FieldBuilder(i), true)
		}
		c.Append()
	case *List:
		lb := b.(*array.ListBuilder)
		lb.Append(true)
		for range rng.IntN(4) {
			appendBoth(rng, c.Elem(), lb.ValueBuilder(), true)
		}
		c.Append()
	case *Map:
		mb := b.(*array.MapBuilder)
		mb.Append(true)
		for range rng.IntN(4) {
			appendBoth(rng, c.Keys(), mb.KeyBuilder(), false)
			appendBoth(rng, c.Values(), mb.ItemBuilder(), true)
			c.AppendEntry()
		}
		c.Append()
	}
}

// halfRow leaves an unfinished row behind: elements or children without the closing Append.
func halfRow(rng *rand.Rand, c Column, scratch func(arrow.DataType) array.Builder) {
	switch c := c.(type) {
	case *Struct:
		for i := range rng.IntN(3) {
			if i < len(c.kids) {
				appendBoth(rng, c.kids[i], scratch(c.kids[i].Field().Type), true)
			}
		}
	case *List:
		for range rng.IntN(3) {
			appendBoth(rng, c.Elem(), scratch(c.Elem().Field().Type), true)
		}
		halfRow(rng, c.Elem(), scratch)
	case *Map:
		appendBoth(rng, c.Keys(), scratch(c.Keys().Field().Type), false)
		halfRow(rng, c.Values(), scratch)
	}
}

// I7: rows that were rolled back leave no trace, in any type and at any depth.
func TestColumnEqualsBuilder(t *testing.T) {
	seed := seedtest.New(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	scratch := func(dt arrow.DataType) array.Builder { return array.NewBuilder(memory.DefaultAllocator, dt) }
	for _, dt := range allTypes() {
		c, err := New(arrow.Field{Name: "x", Type: dt, Nullable: true})
		if err != nil {
			t.Fatal(err)
		}
		for round := range 30 {
			b := scratch(dt)
			nullable := round%3 != 0
			for range rng.IntN(60) {
				appendBoth(rng, c, b, nullable)
				if rng.IntN(3) == 0 {
					n := c.Len()
					for range rng.IntN(3) {
						appendBoth(rng, c, scratch(dt), true)
					}
					halfRow(rng, c, scratch)
					c.Truncate(n)
				}
			}
			want, got := b.NewArray(), c.Array()
			if !array.Equal(want, got) || got.NullN() != want.NullN() || c.Len() != want.Len() || c.NullCount() != want.NullN() {
				t.Fatalf("%s round %d (seed %d)\nwant %v\ngot  %v", dt, round, seed, want, got)
			}
			if round == 29 && c.Bytes() == 0 && c.Len() > 0 {
				t.Fatalf("%s: %d rows take no bytes", dt, c.Len())
			}
			c.Reset()
			if c.Len() != 0 || c.NullCount() != 0 || c.Array().Len() != 0 {
				t.Fatalf("%s: rows left after Reset", dt)
			}
		}
	}
}

func TestBitmapOnlyFromFirstNull(t *testing.T) {
	c, err := New(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	if err != nil {
		t.Fatal(err)
	}
	ints := c.(*Int64)
	for i := range 11 {
		ints.Append(int64(i))
	}
	if len(ints.bits) != 0 {
		t.Fatal("bitmap without a null")
	}
	ints.AppendNull()
	if ints.Array().NullN() != 1 || !ints.Array().IsNull(11) || ints.Array().IsNull(10) {
		t.Fatalf("wrong nulls: %v", ints.Array())
	}
	ints.Truncate(11)
	if ints.Array().Data().Buffers()[0] != nil {
		t.Fatal("bitmap passed on though no row is null")
	}
}

func TestWarmColumnDoesNotAllocate(t *testing.T) {
	c, err := New(arrow.Field{Name: "x", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true})
	if err != nil {
		t.Fatal(err)
	}
	list := c.(*List)
	elem := list.Elem().(*Binary)
	value := []byte("value")
	if n := testing.AllocsPerRun(100, func() {
		list.Reset()
		for range 100 {
			elem.Append(value)
			elem.AppendNull()
			list.Append()
			list.AppendNull()
		}
	}); n != 0 {
		t.Fatalf("%v allocations a run", n)
	}
}

// Short values are copied in wide pieces: what stands behind them in the caller's memory is in no row.
func TestBinaryShortValues(t *testing.T) {
	c, err := New(arrow.Field{Name: "x", Type: arrow.BinaryTypes.Binary, Nullable: true})
	if err != nil {
		t.Fatal(err)
	}
	texts := c.(*Binary)
	around := bytes.Repeat([]byte("0123456789abcdef"), 10)
	var want [][]byte
	for round := range 3 {
		texts.Reset()
		want = want[:0]
		for from := range 100 {
			for _, size := range []int{0, 1, 7, 31, 32, 33, 60} {
				v := around[from : from+size]
				if round == 1 {
					v = v[:size:size]
				}
				texts.Append(v)
				want = append(want, v)
			}
			if from%3 == 0 {
				texts.Truncate(texts.Len() - 2)
				want = want[:len(want)-2]
			}
		}
		for i, v := range want {
			if got := texts.Array().(*array.Binary).Value(i); !bytes.Equal(got, v) {
				t.Fatalf("round %d, row %d: %q, want %q", round, i, got, v)
			}
		}
	}
}

func TestNullStructOfRequiredChild(t *testing.T) {
	dt := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64})
	c, err := New(arrow.Field{Name: "x", Type: dt, Nullable: true})
	if err != nil {
		t.Fatal(err)
	}
	c.AppendNull()
	arr := c.Array().(*array.Struct)
	if !arr.IsNull(0) || arr.Field(0).Len() != 1 || arr.Field(0).NullN() != 0 {
		t.Fatalf("a required child became null: %v", arr)
	}
}

func TestUnsupported(t *testing.T) {
	for _, dt := range []arrow.DataType{
		arrow.PrimitiveTypes.Uint8, arrow.BinaryTypes.LargeString, &arrow.TimestampType{Unit: arrow.Nanosecond},
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Paris"},
		arrow.ListOf(arrow.Null), arrow.StructOf(arrow.Field{Name: "a", Type: arrow.Null}), arrow.MapOf(arrow.BinaryTypes.String, arrow.Null),
	} {
		if _, err := New(arrow.Field{Name: "x", Type: dt}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", dt, err)
		}
	}
}
