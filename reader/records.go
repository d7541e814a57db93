package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// ErrNotReplayable is returned when a table lacks a system column that a log record needs.
var ErrNotReplayable = errors.New("table does not hold whole log records")

// Record is a log record with its partition. Its bytes are valid until the iterator goes on.
type Record struct {
	Partition int32
	record.Record
}

// Batches gives the rest of the stream, table and log, batch by batch. A batch is valid until the sequence goes on;
// who keeps rows of it copies them. It ends at the end of the stream, or after an error.
func (c *Cursor) Batches(ctx context.Context) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for {
			rb, err := c.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(rb, nil) {
				return
			}
		}
	}
}

// Records gives the rest of the stream as log records, from the system columns. The table must have them
// all (raw values kept), else the sequence gives ErrNotReplayable. It ends at the end of the stream.
func (c *Cursor) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		var rows recordRows
		for rb, err := range c.Batches(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if err := rows.bind(rb, c.names()); err != nil {
				yield(nil, err)
				return
			}
			for i := range int(rb.NumRows()) {
				if !yield(rows.at(i), nil) {
					return
				}
			}
		}
	}
}

// recordRows reads log records out of the system columns of one batch. A record costs no allocation.
type recordRows struct {
	partition  *array.Int32
	offset     *array.Int64
	timestamp  *array.Timestamp
	perMilli   int64 // units of timestamp in a millisecond; 0: they are seconds
	key, value *array.Binary
	headers    *array.List
	hkey       *array.String
	hkeys      []byte // all bytes of hkey
	hvalue     *array.Binary
	rec        Record
}

// bind takes the columns of a batch; ErrNotReplayable when they are not all there.
func (r *recordRows) bind(rb arrow.RecordBatch, n table.Names) error {
	var err error
	pick := func(name string, ok func(arrow.Array) bool) {
		if err != nil {
			return
		}
		idx := rb.Schema().FieldIndices(name)
		if name == "" || len(idx) != 1 || !ok(rb.Column(idx[0])) {
			err = fmt.Errorf("%w: column %q is missing or has another type", ErrNotReplayable, name)
		}
	}
	pick(n.Partition, func(a arrow.Array) (ok bool) { r.partition, ok = a.(*array.Int32); return })
	pick(n.Offset, func(a arrow.Array) (ok bool) { r.offset, ok = a.(*array.Int64); return })
	pick(n.Timestamp, func(a arrow.Array) (ok bool) { r.timestamp, ok = a.(*array.Timestamp); return })
	pick(n.Key, func(a arrow.Array) (ok bool) { r.key, ok = a.(*array.Binary); return })
	pick(n.Value, func(a arrow.Array) (ok bool) { r.value, ok = a.(*array.Binary); return })
	pick(n.Headers, func(a arrow.Array) bool {
		l, ok := a.(*array.List)
		if !ok {
			return false
		}
		s, ok := l.ListValues().(*array.Struct)
		if !ok || s.NumField() != 2 {
			return false
		}
		var ok1, ok2 bool
		r.headers = l
		r.hkey, ok1 = s.Field(0).(*array.String)
		r.hvalue, ok2 = s.Field(1).(*array.Binary)
		return ok1 && ok2
	})
	if err != nil {
		return err
	}
	r.hkeys = r.hkey.ValueBytes()
	switch r.timestamp.DataType().(*arrow.TimestampType).Unit {
	case arrow.Second:
		r.perMilli = 0
	case arrow.Millisecond:
		r.perMilli = 1
	case arrow.Microsecond:
		r.perMilli = 1000
	case arrow.Nanosecond:
		r.perMilli = 1_000_000
	}
	return nil
}

func (r *recordRows) at(i int) *Record {
	r.rec.Partition = r.partition.Value(i)
	r.rec.Offset = record.Offset(r.offset.Value(i))
	r.rec.Timestamp = -1
	if r.timestamp.IsValid(i) {
		r.rec.Timestamp = r.milli(int64(r.timestamp.Value(i)))
	}
	r.rec.Key, r.rec.Value = bytesAt(r.key, i), bytesAt(r.value, i)
	r.rec.Headers = r.rec.Headers[:0]
	if r.headers.IsValid(i) {
		from, to := r.headers.ValueOffsets(i)
		for k := int(from); k < int(to); k++ {
			a := r.hkey.ValueOffset(k) - r.hkey.ValueOffset(0)
			b := a + r.hkey.ValueLen(k)
			r.rec.Headers = append(r.rec.Headers, record.Header{Key: r.hkeys[a:b:b], Value: bytesAt(r.hvalue, k)})
		}
	}
	return &r.rec
}

// milli gives a timestamp in milliseconds, rounded down.
func (r *recordRows) milli(v int64) int64 {
	if r.perMilli == 0 {
		return v * 1000
	}
	ms := v / r.perMilli
	if v%r.perMilli < 0 {
		ms--
	}
	return ms
}

// bytesAt keeps null and empty apart: an empty value is a slice of no bytes that is not nil.
func bytesAt(a *array.Binary, i int) []byte {
	if a.IsNull(i) {
		return nil
	}
	if v := a.Value(i); v != nil {
		return v
	}
	return []byte{}
}
