package sink

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/internal/column"
)

// MaxFill bounds the cells that one message may fill without bytes of its own: a list of a few bytes may stand for many
// empty elements, or for wide structs of nulls (I8).
const MaxFill = 4 << 20

// Batch is the columns of a decoder: what decode.Decoder has apart from Append.
type Batch struct {
	Fields []*Sink // of a row, in the order of the schema
	Fill   int     // cells that the message has filled by leaving out

	cols []column.Column
	rows int
	used int // bytes of the messages since Reset, which bound every offset
}

// NewBatch makes the columns of a payload schema.
func NewBatch(schema *arrow.Schema) (*Batch, error) {
	r := &Batch{}
	for _, f := range schema.Fields() {
		c, err := column.New(f)
		if err != nil {
			return nil, fmt.Errorf("make decoder: %w", err)
		}
		s, err := New(c)
		if err != nil {
			return nil, err
		}
		r.cols, r.Fields = append(r.cols, c), append(r.Fields, s)
	}
	return r, distinct(r.Fields)
}

// Begin opens a row for a message of n bytes. ErrFull when the columns may not take it.
func (r *Batch) Begin(n int) error {
	if n > column.MaxData-MaxFill-r.used {
		return decode.ErrFull
	}
	r.Fill = 0
	return nil
}

// End closes the row of a message of n bytes.
func (r *Batch) End(n int) {
	r.rows++
	r.used += n + r.Fill
}

// Rollback drops what was written of the row.
func (r *Batch) Rollback() {
	for _, c := range r.cols {
		c.Truncate(min(r.rows, c.Len()))
	}
}

// Truncate cuts back to n rows: see decode.Truncater.
func (r *Batch) Truncate(n int) {
	r.rows = n
	r.Rollback()
}

// Filled counts cells that take no bytes of the message, and says whether there are too many.
func (r *Batch) Filled(n int) (tooMany bool) {
	r.Fill += n
	return r.Fill > MaxFill
}

// Tombstone adds the row of a message without a value.
func (r *Batch) Tombstone() error {
	for _, s := range r.Fields {
		if !s.Nullable {
			return &decode.Error{Reason: "no value, but the column may not be null", Path: s.Name}
		}
	}
	if r.used >= column.MaxData-MaxFill {
		return decode.ErrFull
	}
	r.AppendNull()
	return nil
}

// AppendNull adds a row of nulls.
func (r *Batch) AppendNull() {
	for _, c := range r.cols {
		c.AppendNull()
	}
	r.rows++
	r.used++
}

// Rows is the number of rows since Reset.
func (r *Batch) Rows() int { return r.rows }

// Bytes estimates the memory that the rows take.
func (r *Batch) Bytes() int64 {
	var n int64
	for _, c := range r.cols {
		n += c.Bytes()
	}
	return n
}

// Arrays wraps the columns so far without a copy; valid until Reset.
func (r *Batch) Arrays() []arrow.Array {
	out := make([]arrow.Array, len(r.cols))
	for i, c := range r.cols {
		out[i] = c.Array()
	}
	return out
}

// Reset drops the rows and keeps the memory.
func (r *Batch) Reset() {
	for _, c := range r.cols {
		c.Reset()
	}
	r.rows, r.used = 0, 0
}
