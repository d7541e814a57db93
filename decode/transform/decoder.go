package transform

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/record"
)

// FatalError says that a record has no value for a field whose policy is to fail.
type FatalError struct {
	Property  string
	Topic     string
	Partition int32
	Offset    record.Offset
	Cause     error
}

func (e *FatalError) Error() string {
	return fmt.Sprintf("transform %q at offset %d of %s-%d: %v; the policy is %s: mend the record's producer, or choose %s or %s",
		e.Property, e.Offset, e.Topic, e.Partition, e.Cause, Fail, Null, DeadLetter)
}

func (e *FatalError) Unwrap() error { return e.Cause }

var (
	_ decode.RecordDecoder = (*Decoder)(nil)
	_ decode.Truncater     = (*Decoder)(nil)
)

// Decoder is a JSON decoder whose rows go through a Spec.
type Decoder struct {
	json   *decode.JSON
	opaque bool
	open   func(value []byte) ([]byte, error) // of values that are wrapped as a whole; nil: they are not
	fields []field
	where  *node
	early  bool // where looks at the record alone
	ev     evaluator
	text   []byte
}

type field struct {
	Field
	program *node
	target  *decode.Target
}

// New makes a decoder of dec, which must not be used otherwise from now on. With opaque the values are not JSON: they
// are not looked at, and only what is of the record fills columns.
func New(dec *decode.JSON, spec Spec, topic string, opaque bool) (*Decoder, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	d := &Decoder{json: dec, opaque: opaque}
	d.ev.topic, d.ev.fields = []byte(topic), dec.Captured
	for _, name := range spec.Dropped() {
		dec.Ignore(name)
	}
	for _, f := range spec.fields() {
		program, err := compile(f)
		if err != nil {
			return nil, err
		}
		target, err := dec.Target(f.Property)
		if err != nil {
			return nil, fmt.Errorf("%w %q: %w; the table has the columns %v", ErrSpec, f.Property, err, names(dec.Schema()))
		}
		if err := d.bind(program); err != nil {
			return nil, fmt.Errorf("%w %q: %w", ErrSpec, f.Property, err)
		}
		dec.Defer(target)
		d.fields = append(d.fields, field{f, program, target})
	}
	if spec.Where != "" {
		var err error
		if d.where, err = compileWhere(spec.Where); err != nil {
			return nil, err
		}
		d.early = !looksAtValue(d.where)
		if err := d.bind(d.where); err != nil {
			return nil, fmt.Errorf("%w: where: %w", ErrSpec, err)
		}
	}
	return d, nil
}

func names(s *arrow.Schema) []string {
	out := make([]string, s.NumFields())
	for i, f := range s.Fields() {
		out[i] = f.Name
	}
	return out
}

// bind asks the decoder for the fields that a program looks at.
func (d *Decoder) bind(n *node) error {
	if d.opaque && looksAtValue(n) {
		return errors.New("the values are not JSON, so only kafka.* sources are known")
	}
	switch n.op {
	case opField:
		n.root, n.path = d.json.Capture(append([]string{n.name}, n.path...)...)
	case opTree:
		d.ev.caller = caller()
		for _, name := range n.tree.roots {
			mark, _ := d.json.Capture(name)
			n.tree.marks = append(n.tree.marks, mark)
		}
	}
	for _, a := range n.args {
		if err := d.bind(a); err != nil {
			return err
		}
	}
	return nil
}

func looksAtValue(n *node) bool {
	if n.op == opField || n.op == opTree && (n.tree.whole || len(n.tree.roots) > 0) {
		return true
	}
	for _, a := range n.args {
		if looksAtValue(a) {
			return true
		}
	}
	return false
}

// Schema is that of the rows.
func (d *Decoder) Schema() *arrow.Schema { return d.json.Schema() }

// Begin says what batch the records come from that follow.
func (d *Decoder) Begin(partition int32, batch record.BatchHeader) {
	d.ev.partition, d.ev.batch = partition, batch
}

// AppendRecord decodes one record into one row. On error nothing is appended: decode.ErrFiltered for a record that is to
// be no row, a *decode.Error for a bad one, a *FatalError when the run is to end.
func (d *Decoder) AppendRecord(rec *record.Record) error {
	if err := d.meet(rec); err != nil {
		return err
	}
	value, err := opened(d.open, rec.Value)
	if err != nil {
		return err
	}
	return d.append(value)
}

// opened gives what is in a value.
func opened(open func([]byte) ([]byte, error), value []byte) ([]byte, error) {
	if open == nil || value == nil {
		return value, nil
	}
	return open(value)
}

// meet takes a record up, and asks a filter that looks at the record alone.
func (d *Decoder) meet(rec *record.Record) error {
	d.ev.rec, d.ev.buf = rec, d.ev.buf[:0]
	if d.where != nil && d.early {
		return d.filter()
	}
	return nil
}

// append makes the row of the record that was met, from its value as JSON.
func (d *Decoder) append(value []byte) error {
	d.ev.value = value
	if d.opaque {
		d.json.AppendOpen()
	} else if err := d.json.Append(value); err != nil {
		return err
	}
	err := error(nil)
	if d.where != nil && !d.early {
		err = d.filter()
	}
	for i := range d.fields {
		if err != nil {
			break
		}
		err = d.set(&d.fields[i])
	}
	if err != nil {
		d.json.Truncate(d.json.Rows() - 1)
		return err
	}
	d.json.Settle()
	return nil
}

func (d *Decoder) filter() error {
	v, err := d.ev.eval(d.where)
	if err != nil {
		return &decode.Error{Reason: "where: " + err.Error()}
	}
	if !v.truth() {
		return decode.ErrFiltered
	}
	return nil
}

// set fills one column of the last row.
func (d *Decoder) set(f *field) error {
	if done, err := d.plain(f); done {
		return err
	}
	v, err := d.ev.eval(f.program)
	if err != nil {
		return d.failed(f, err)
	}
	if done, err := d.direct(f.target, &v); done {
		return err
	}
	d.text = d.text[:0]
	switch {
	case v.kind == null && f.Default != "":
		d.text = append(d.text, f.Default...)
	case v.kind == null:
		if f.OnError == DeadLetter || f.OnError == Fail || d.json.Missing(f.target) {
			return d.failed(f, errors.New("there is no value"))
		}
		return nil
	case v.kind == str && v.raw == nil:
		var ok bool
		if d.text, ok = appendBytes(d.text, v.text, f.target.Binary()); !ok {
			return d.failed(f, errors.New("the bytes are not UTF-8; a binary column would take them"))
		}
	default:
		d.text = v.appendJSON(d.text)
	}
	if err := d.json.Set(f.target, d.text); err != nil {
		var bad *decode.Error
		if errors.As(err, &bad) {
			return d.failed(f, bad)
		}
		return err
	}
	if d.json.Missing(f.target) {
		return d.failed(f, errors.New("there is no value, but the column may not be null"))
	}
	return nil
}

// plain sets what all records have, without the way through a value.
func (d *Decoder) plain(f *field) (bool, error) {
	if f.program.op != opMeta || d.ev.rec == nil {
		return false, nil
	}
	switch f.program.meta {
	case metaPartition:
		return d.json.SetInt(f.target, int64(d.ev.partition))
	case metaOffset:
		return d.json.SetInt(f.target, int64(d.ev.rec.Offset))
	case metaTopic:
		if f.target.Text() {
			return true, d.json.SetText(f.target, d.ev.topic)
		}
	}
	return false, nil
}

// direct sets what needs no JSON in between; it says whether it did.
func (d *Decoder) direct(t *decode.Target, v *value) (bool, error) {
	switch {
	case v.raw != nil:
	case v.kind == number && v.exact:
		return d.json.SetInt(t, v.whole)
	case v.kind == str && t.Text() && (t.Binary() || utf8.Valid(v.text)):
		return true, d.json.SetText(t, v.text)
	}
	return false, nil
}

// failed applies the policy of a field.
func (d *Decoder) failed(f *field, cause error) error {
	switch f.OnError {
	case Null:
		if err := d.json.Set(f.target, []byte("null")); err != nil {
			return err
		}
		if !d.json.Missing(f.target) {
			return nil
		}
	case Fail:
		return &FatalError{Property: f.Property, Topic: string(d.ev.topic), Partition: d.ev.partition, Offset: d.ev.rec.Offset, Cause: cause}
	}
	var bad *decode.Error
	if errors.As(cause, &bad) {
		return bad
	}
	return &decode.Error{Path: f.Property, Reason: "transform " + f.Source + ": " + cause.Error()}
}

// Append decodes a value of which nothing else is known.
func (d *Decoder) Append(value []byte) error {
	return d.AppendRecord(&record.Record{Value: value, Timestamp: -1})
}

// AppendNull adds a row of nulls.
func (d *Decoder) AppendNull() { d.json.AppendNull() }

// Unknown is that of the JSON decoder.
func (d *Decoder) Unknown() []string { return d.json.Unknown() }

// WatchUnknown is that of the JSON decoder.
func (d *Decoder) WatchUnknown() { d.json.WatchUnknown() }

// Rows is the number of rows since Reset.
func (d *Decoder) Rows() int { return d.json.Rows() }

// Arrays wraps the columns so far; valid until Reset.
func (d *Decoder) Arrays() []arrow.Array { return d.json.Arrays() }

// Array is one of Arrays.
func (d *Decoder) Array(i int) arrow.Array { return d.json.Array(i) }

// Truncate cuts back to n rows.
func (d *Decoder) Truncate(n int) { d.json.Truncate(n) }

// Reset drops the rows and keeps the memory.
func (d *Decoder) Reset() { d.json.Reset() }

// Bytes estimates the memory that the rows take.
func (d *Decoder) Bytes() int64 { return d.json.Bytes() }
