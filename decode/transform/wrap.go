package transform

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/record"
)

// Wrap makes a decoder of the payload columns with a Spec around it. JSON is transformed while it is decoded. Of another
// format, a decoder that makes gives fills the columns that the Spec leaves alone, and expressions look at the fields of
// a value as JSON (decode.FieldReader).
//
// What kind of decoder makes gives must not depend on the columns.
func Wrap(makes func(payload *arrow.Schema) (decode.Decoder, error), payload *arrow.Schema, spec Spec, topic string) (decode.Decoder, error) {
	if spec.Empty() {
		return makes(payload)
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	dec, err := makes(arrow.NewSchema(nil, nil)) // a column that the Spec fills need not go with the values
	if err != nil {
		return nil, err
	}
	var open func([]byte) ([]byte, error)
	if o, ok := dec.(decode.Opener); ok {
		open, dec, makes = o.Open, o.Inner(), inside(makes)
	}
	if _, ok := dec.(*decode.JSON); !ok {
		b, err := newBeside(makes, payload, spec, topic)
		if err != nil {
			return nil, err
		}
		b.open = open
		return b, nil
	}
	if dec, err = makes(payload); err != nil {
		return nil, err
	}
	d, err := New(dec.(*decode.JSON), spec, topic, spec.opaque(payload))
	if err != nil {
		return nil, err
	}
	d.open, d.ev.times = open, open != nil
	return d, nil
}

// inside makes the decoders of what is in values that are wrapped.
func inside(makes func(*arrow.Schema) (decode.Decoder, error)) func(*arrow.Schema) (decode.Decoder, error) {
	return func(payload *arrow.Schema) (decode.Decoder, error) {
		d, err := makes(payload)
		if err != nil {
			return nil, err
		}
		return d.(decode.Opener).Inner(), nil
	}
}

// opaque says whether nothing at all is taken from values: they need not be JSON then.
func (s Spec) opaque(payload *arrow.Schema) bool {
	var columns []string
	for _, f := range s.fields() {
		columns = append(columns, f.Property)
	}
	return !s.LooksAtValues() && !slices.ContainsFunc(payload.Fields(), func(f arrow.Field) bool { return !slices.Contains(columns, f.Name) })
}

// programs are those of a valid Spec.
func (s Spec) programs() (out []*node) {
	for _, f := range s.fields() {
		if n, err := compile(f); err == nil {
			out = append(out, n)
		}
	}
	if s.Where != "" {
		if n, err := compileWhere(s.Where); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// LooksAtValues says whether an expression looks at a value, and not at the record around it alone.
func (s Spec) LooksAtValues() bool { return slices.ContainsFunc(s.programs(), looksAtValue) }

// beside fills the columns that a Spec names, from the fields of a value as JSON, beside a decoder of another format that
// fills the others.
type beside struct {
	decode.Decoder
	record  *Decoder // of its columns
	columns []int    // of each payload column, where it is: in record's from 0 on, in the other's from -1 down
	fields  decode.Fields
	open    func(value []byte) ([]byte, error) // of values that are wrapped as a whole; nil: they are not
	value   []byte                             // the fields, as JSON
}

func newBeside(makes func(*arrow.Schema) (decode.Decoder, error), payload *arrow.Schema, spec Spec, topic string) (*beside, error) {
	named := map[string]bool{}
	for _, f := range spec.fields() {
		column, _, _ := strings.Cut(f.Property, ".")
		if !payload.HasField(column) {
			return nil, fmt.Errorf("%w %q: the table has no such column; it has %v", ErrSpec, f.Property, names(payload))
		}
		named[column] = true
	}
	for _, name := range spec.Dropped() {
		named[name] = true
	}
	b := &beside{}
	var mine, others []arrow.Field
	for _, f := range payload.Fields() {
		if named[f.Name] {
			b.columns, mine = append(b.columns, len(mine)), append(mine, f)
		} else {
			b.columns, others = append(b.columns, -1-len(others)), append(others, f)
		}
	}
	var err error
	if b.Decoder, err = makes(arrow.NewSchema(others, nil)); err != nil {
		return nil, err
	}
	if err := b.look(spec, mine); err != nil {
		return nil, err
	}
	j, err := decode.ForTable(arrow.NewSchema(mine, nil))
	if err != nil {
		return nil, err
	}
	if b.record, err = New(j, spec, topic, b.fields == nil); err != nil {
		return nil, err
	}
	b.record.ev.times = true
	return b, nil
}

// look asks the decoder for the fields that the Spec looks at, if it does: those of its expressions, and those that its
// columns have where an expression gives null or a part of a struct.
func (b *beside) look(spec Spec, mine []arrow.Field) (err error) {
	roots, whole := map[string]bool{}, false
	for _, n := range spec.programs() {
		whole = n.roots(roots) || whole
	}
	var also []string
	for _, f := range mine {
		if !slices.Contains(spec.Dropped(), f.Name) && !spec.always(f.Name) {
			also = append(also, f.Name)
		}
	}
	if len(roots) == 0 && !whole && len(also) == 0 {
		return nil
	}
	reader, ok := b.Decoder.(decode.FieldReader)
	switch {
	case !ok && len(roots) == 0 && !whole:
		return nil // what values have no fields at all
	case !ok:
		return fmt.Errorf("%w: the values have no fields, so only kafka.* sources are known", ErrSpec)
	}
	need := slices.AppendSeq([]string{}, maps.Keys(roots))
	if whole {
		need = nil
	}
	b.fields, err = reader.NewFields(need, also)
	return err
}

// always says that a column is filled from what every record has, so that nothing of the value is left in it.
func (s Spec) always(column string) bool {
	for _, f := range s.fields() {
		if n, err := compile(f); err == nil && f.Property == column && n.op == opMeta {
			return n.meta == metaPartition || n.meta == metaOffset || n.meta == metaTopic || n.meta == metaTimestampType
		}
	}
	return false
}

// roots collects the fields of the value that a program looks at; true when it may look at all.
func (n *node) roots(into map[string]bool) (whole bool) {
	switch n.op {
	case opField:
		into[n.name] = true
	case opTree:
		for _, name := range n.tree.roots {
			into[name] = true
		}
		whole = n.tree.whole
	}
	for _, a := range n.args {
		whole = a.roots(into) || whole
	}
	return whole
}

// Inner is the decoder of the columns that the Spec leaves alone.
func (b *beside) Inner() decode.Decoder { return b.Decoder }

// Begin implements decode.RecordDecoder.
func (b *beside) Begin(partition int32, batch record.BatchHeader) { b.record.Begin(partition, batch) }

// AppendRecord implements decode.RecordDecoder.
func (b *beside) AppendRecord(rec *record.Record) error {
	if err := b.record.meet(rec); err != nil {
		return err
	}
	plain, err := opened(b.open, rec.Value)
	if err != nil {
		return err
	}
	value := plain
	framer, framed := b.Decoder.(decode.Framer)
	if framed && b.fields != nil {
		if value, err = framer.Frame(rec); err != nil {
			return err
		}
	}
	if b.fields != nil && value != nil {
		if b.value, err = b.fields.AppendJSON(b.value[:0], value); err != nil {
			return err
		}
		value = b.value
	}
	if err := b.record.append(value); err != nil {
		return err
	}
	if framed {
		err = framer.AppendRecord(rec)
	} else {
		err = b.Decoder.Append(plain)
	}
	if err != nil {
		b.record.Truncate(b.record.Rows() - 1)
	}
	return err
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
	mine, others := b.record.Arrays(), b.Decoder.Arrays()
	out := make([]arrow.Array, len(b.columns))
	for i, at := range b.columns {
		if at >= 0 {
			out[i] = mine[at]
		} else {
			out[i] = others[-1-at]
		}
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
	n := b.record.Bytes() + int64(cap(b.value))
	if s, ok := b.Decoder.(interface{ Bytes() int64 }); ok {
		n += s.Bytes()
	}
	return n
}
