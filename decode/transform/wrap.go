package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/record"
)

// Wrap puts a Spec around a decoder of the payload columns, which must not be used otherwise from now on. JSON takes
// all of it; decoders of other formats take sources of the record, for whole columns.
func Wrap(dec decode.Decoder, payload *arrow.Schema, spec Spec, topic string) (decode.Decoder, error) {
	if spec.Empty() {
		return dec, nil
	}
	if j, ok := dec.(*decode.JSON); ok {
		return New(j, spec, topic, spec.opaque(payload))
	}
	return newBeside(dec, payload, spec, topic)
}

// opaque says whether nothing at all is taken from values: they need not be JSON then.
func (s Spec) opaque(payload *arrow.Schema) bool {
	var columns []string
	for _, f := range s.fields() {
		if !strings.HasPrefix(f.Source, "kafka.") {
			return false
		}
		columns = append(columns, f.Property)
	}
	if s.Where != "" {
		if n, err := compileWhere(s.Where); err != nil || looksAtValue(n) {
			return false
		}
	}
	return !slices.ContainsFunc(payload.Fields(), func(f arrow.Field) bool { return !slices.Contains(columns, f.Name) })
}

// beside fills some columns from the record, beside a decoder that fills the others from values which it alone can read.
type beside struct {
	decode.Decoder
	record  *Decoder // of its columns
	columns []int    // of the payload that are record's
}

func newBeside(dec decode.Decoder, payload *arrow.Schema, spec Spec, topic string) (decode.Decoder, error) {
	if len(spec.Dropped()) > 0 {
		return nil, fmt.Errorf("%w: fields can be renamed or dropped in JSON values alone", ErrSpec)
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	b := &beside{Decoder: dec}
	var mine []arrow.Field
	for _, f := range spec.Set {
		if strings.Contains(f.Property, ".") {
			return nil, fmt.Errorf("%w %q: a field of a struct can be filled in JSON values alone", ErrSpec, f.Property)
		}
		at := slices.IndexFunc(payload.Fields(), func(c arrow.Field) bool { return c.Name == f.Property })
		if at < 0 {
			return nil, fmt.Errorf("%w %q: the table has no such column; it has %v", ErrSpec, f.Property, names(payload))
		}
		b.columns = append(b.columns, at)
		mine = append(mine, payload.Field(at))
	}
	j, err := decode.ForTable(arrow.NewSchema(mine, nil))
	if err != nil {
		return nil, err
	}
	b.record, err = New(j, spec, topic, true)
	return b, err
}

// Begin implements decode.RecordDecoder.
func (b *beside) Begin(partition int32, batch record.BatchHeader) { b.record.Begin(partition, batch) }

// AppendRecord implements decode.RecordDecoder.
func (b *beside) AppendRecord(rec *record.Record) error {
	if err := b.record.AppendRecord(rec); err != nil {
		return err
	}
	if err := b.Decoder.Append(rec.Value); err != nil {
		b.record.Truncate(b.record.Rows() - 1)
		return err
	}
	return nil
}

// AppendNull implements decode.Decoder.
func (b *beside) AppendNull() {
	b.record.AppendNull()
	b.Decoder.AppendNull()
}

// Append implements decode.Decoder.
func (b *beside) Append(value []byte) error {
	return b.AppendRecord(&record.Record{Value: value, Timestamp: -1})
}

// Arrays implements decode.Decoder.
func (b *beside) Arrays() []arrow.Array {
	out := slices.Clone(b.Decoder.Arrays())
	for i, a := range b.record.Arrays() {
		out[b.columns[i]] = a
	}
	return out
}

// Truncate implements decode.Truncater, where the other decoder does.
func (b *beside) Truncate(n int) {
	b.record.Truncate(n)
	b.Decoder.(decode.Truncater).Truncate(n)
}

// CanTruncate says whether Truncate may be called.
func (b *beside) CanTruncate() bool { _, ok := b.Decoder.(decode.Truncater); return ok }

// Reset implements decode.Decoder.
func (b *beside) Reset() {
	b.record.Reset()
	b.Decoder.Reset()
}

// Bytes estimates the memory that the rows take.
func (b *beside) Bytes() int64 {
	n := b.record.Bytes()
	if s, ok := b.Decoder.(interface{ Bytes() int64 }); ok {
		n += s.Bytes()
	}
	return n
}
