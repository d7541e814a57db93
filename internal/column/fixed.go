package column

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Value is what a Fixed column holds.
type Value interface {
	int8 | int16 | int32 | int64 | float32 | float64 | arrow.Date32 | arrow.Timestamp | decimal128.Num
}

// Fixed is a column of values of one width.
type Fixed[T Value] struct {
	head
	vals []T
}

func newFixed[T Value](field arrow.Field) *Fixed[T] { return &Fixed[T]{head: head{field: field}} }

// Append adds a row.
func (c *Fixed[T]) Append(v T) {
	if len(c.bits) != 0 {
		c.valid(len(c.vals))
	}
	c.vals = append(c.vals, v)
}

// AppendNull adds a null row.
func (c *Fixed[T]) AppendNull() {
	var zero T
	c.null(len(c.vals))
	c.vals = append(c.vals, zero)
}

// AppendZero adds the value 0.
func (c *Fixed[T]) AppendZero() {
	var zero T
	c.Append(zero)
}

// Values are the rows so far; a null one holds 0. They alias the buffer.
func (c *Fixed[T]) Values() []T { return c.vals }

// Len is the number of rows.
func (c *Fixed[T]) Len() int { return len(c.vals) }

// Truncate cuts back to n rows.
func (c *Fixed[T]) Truncate(n int) {
	c.cut(n, len(c.vals))
	c.vals = c.vals[:n]
}

// Reset drops all rows and keeps the memory.
func (c *Fixed[T]) Reset() {
	c.reset()
	c.vals = c.vals[:0]
}

// Bytes estimates the memory that the rows take.
func (c *Fixed[T]) Bytes() int64 { return int64(len(c.bits) + len(rawBytes(c.vals))) }

// Array wraps the rows without a copy.
func (c *Fixed[T]) Array() arrow.Array { return wrap(c.data()) }

func (c *Fixed[T]) data() arrow.ArrayData {
	bufs := []*memory.Buffer{c.bitmap(), memory.NewBufferBytes(rawBytes(c.vals))}
	return array.NewData(c.field.Type, len(c.vals), bufs, nil, c.nulls, 0)
}

// rawBytes views values as the bytes arrow wants: its buffers are in the machine's byte order too.
func rawBytes[T Value](v []T) []byte {
	if len(v) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

// Bool is a column of booleans, a bit each.
type Bool struct {
	head
	vals []byte
	n    int
}

// Append adds a row.
func (c *Bool) Append(v bool) {
	if len(c.bits) != 0 {
		c.valid(c.n)
	}
	c.vals = appendBit(c.vals, c.n, v)
	c.n++
}

// AppendNull adds a null row.
func (c *Bool) AppendNull() {
	c.null(c.n)
	c.vals = appendBit(c.vals, c.n, false)
	c.n++
}

// AppendZero adds the value false.
func (c *Bool) AppendZero() { c.Append(false) }

// Value is row i; a null one is false.
func (c *Bool) Value(i int) bool { return c.vals[i/8]&(1<<(i%8)) != 0 }

// Len is the number of rows.
func (c *Bool) Len() int { return c.n }

// Truncate cuts back to n rows.
func (c *Bool) Truncate(n int) {
	c.cut(n, c.n)
	c.vals, c.n = c.vals[:(n+7)/8], n
}

// Reset drops all rows and keeps the memory.
func (c *Bool) Reset() {
	c.reset()
	c.vals, c.n = c.vals[:0], 0
}

// Bytes estimates the memory that the rows take.
func (c *Bool) Bytes() int64 { return int64(len(c.bits) + len(c.vals)) }

// Array wraps the rows without a copy.
func (c *Bool) Array() arrow.Array { return wrap(c.data()) }

func (c *Bool) data() arrow.ArrayData {
	bufs := []*memory.Buffer{c.bitmap(), memory.NewBufferBytes(c.vals)}
	return array.NewData(c.field.Type, c.n, bufs, nil, c.nulls, 0)
}
