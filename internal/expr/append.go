package expr

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Gives says whether the values of the expression are of a type, without a cast.
func (b *Bound) Gives(t arrow.DataType) bool {
	have := typeOf(t)
	return have.sort != other && have == b.typ
}

// Append evaluates an expression for a row and adds the value to a builder of its type (Gives); nothing is added when there
// is an error, which is one of that row.
func (e *Evaluation) Append(b *Bound, row int, to array.Builder) error {
	v, err := e.value(b, row)
	switch {
	case err != nil:
		return err
	case v.null:
		to.AppendNull()
		return nil
	}
	switch to := to.(type) {
	case *array.BooleanBuilder:
		to.Append(v.i == 1)
	case *array.Int8Builder:
		to.Append(int8(v.i))
	case *array.Int16Builder:
		to.Append(int16(v.i))
	case *array.Int32Builder:
		to.Append(int32(v.i))
	case *array.Int64Builder:
		to.Append(v.i)
	case *array.Float32Builder:
		to.Append(float32(v.f))
	case *array.Float64Builder:
		to.Append(v.f)
	case *array.Decimal128Builder:
		to.Append(decimal128.FromBigInt(v.d))
	case *array.StringBuilder:
		to.Append(v.s)
	case *array.BinaryBuilder:
		to.Append([]byte(v.s))
	case *array.Date32Builder:
		to.Append(arrow.Date32(v.i))
	case *array.TimestampBuilder:
		to.Append(arrow.Timestamp(v.i))
	default:
		return fmt.Errorf("%w: values for a %s", ErrUnsupported, to.Type())
	}
	return nil
}
