package column

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Binary is a column of strings or of bytes; the field's type says which. It does not check UTF-8.
type Binary struct {
	head
	offsets []int32 // one more than rows, the first is 0
	bytes   []byte
}

// Append adds a row with a copy of v. Callers see to it that len(v) <= Room.
func (c *Binary) Append(v []byte) {
	if len(c.bits) != 0 {
		c.valid(len(c.offsets) - 1)
	}
	n := len(c.bytes)
	if cap(c.bytes)-n < max(len(v), wide) {
		c.grow(max(len(v), wide))
	}
	// append would store the pointer again, and pay for the collector's barrier each time that it is at work.
	c.bytes = c.bytes[:n+len(v)]
	if len(v) <= wide && cap(v) >= wide {
		*(*[wide]byte)(c.bytes[n : n+wide]) = *(*[wide]byte)(v[:wide]) // what is behind is overwritten
	} else {
		copy(c.bytes[n:], v)
	}
	c.offsets = append(c.offsets, int32(n+len(v)))
}

// wide is how many bytes are copied at a time: short values need no call then.
const wide = 32

// AppendString is Append for a string.
func (c *Binary) AppendString(v string) {
	if len(c.bits) != 0 {
		c.valid(len(c.offsets) - 1)
	}
	if cap(c.bytes)-len(c.bytes) < len(v) {
		c.grow(len(v))
	}
	c.bytes = append(c.bytes, v...)
	c.offsets = append(c.offsets, int32(len(c.bytes)))
}

// doubling is the size up to which the bytes of a cold column grow twofold.
const doubling = 8 << 20

// grow makes room for n bytes. append alone grows a large buffer by a quarter: a column of a few megabytes was
// copied four times over before it was warm. Beyond doubling, memory counts for more.
func (c *Binary) grow(n int) {
	if size := len(c.bytes); size < doubling {
		n = max(n, size)
	}
	c.bytes = slices.Grow(c.bytes, n)
}

// AppendNull adds a null row.
func (c *Binary) AppendNull() {
	c.null(len(c.offsets) - 1)
	c.offsets = append(c.offsets, int32(len(c.bytes)))
}

// AppendZero adds an empty value.
func (c *Binary) AppendZero() { c.Append(nil) }

// Room is how many more bytes the column takes.
func (c *Binary) Room() int { return MaxData - len(c.bytes) }

// Value is row i; it aliases the buffer.
func (c *Binary) Value(i int) []byte { return c.bytes[c.offsets[i]:c.offsets[i+1]] }

// Len is the number of rows.
func (c *Binary) Len() int { return len(c.offsets) - 1 }

// Truncate cuts back to n rows.
func (c *Binary) Truncate(n int) {
	c.cut(n, len(c.offsets)-1)
	c.offsets = c.offsets[:n+1]
	c.bytes = c.bytes[:c.offsets[n]]
}

// Reset drops all rows and keeps the memory.
func (c *Binary) Reset() {
	c.reset()
	c.offsets, c.bytes = c.offsets[:1], c.bytes[:0]
}

// Bytes estimates the memory that the rows take.
func (c *Binary) Bytes() int64 { return int64(len(c.bits) + 4*len(c.offsets) + len(c.bytes)) }

// Array wraps the rows without a copy.
func (c *Binary) Array() arrow.Array { return wrap(c.data()) }

func (c *Binary) data() arrow.ArrayData {
	values := c.bytes
	if values == nil {
		values = []byte{} // arrow takes a nil buffer for a missing one
	}
	bufs := []*memory.Buffer{c.bitmap(), memory.NewBufferBytes(offsetBytes(c.offsets)), memory.NewBufferBytes(values)}
	return array.NewData(c.field.Type, c.Len(), bufs, nil, c.nulls, 0)
}

func offsetBytes(o []int32) []byte { return rawBytes(o) }
