package decode

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/column"
)

// ErrOptions says that the options or the schema cannot make a decoder.
var ErrOptions = errors.New("decode: invalid options")

// EpochUnit says what a number in a timestamp column counts.
type EpochUnit int8

// The units of numbers in timestamp columns.
const (
	EpochNone    EpochUnit = iota // numbers are refused
	EpochSeconds                  // fractions are kept to the microsecond
	EpochMillis
	EpochMicros
)

// JSONOptions are the choices of a JSON decoder. The zero value is strict.
type JSONOptions struct {
	// Epoch is the unit of numbers in timestamp columns; by default they are refused.
	Epoch EpochUnit
	// Coerce takes the text of any other JSON value into string columns, and strings that hold a number or a
	// boolean into columns of that type. By default a value of the wrong JSON type is an error.
	Coerce bool
	// MaxDepth is the deepest nesting of objects and arrays, 128 by default.
	MaxDepth int
}

func (o JSONOptions) withDefaults() JSONOptions {
	if o.MaxDepth == 0 {
		o.MaxDepth = 128
	}
	return o
}

func (o JSONOptions) validate() error {
	if o.MaxDepth < 1 || o.MaxDepth > 10000 {
		return fmt.Errorf("%w: MaxDepth %d is not in 1..10000", ErrOptions, o.MaxDepth)
	}
	if o.Epoch < EpochNone || o.Epoch > EpochMicros {
		return fmt.Errorf("%w: Epoch %d is unknown", ErrOptions, o.Epoch)
	}
	return nil
}

// maxFill bounds the cells that one message may fill by leaving fields out: [{},{},{}] in a list of wide
// structs would else take memory out of proportion to its length (I8).
const maxFill = 4 << 20

// JSON decodes messages that are one JSON object each, in one pass from bytes to column buffers.
//
// It is strict about JSON (RFC 8259, UTF-8, no lone surrogates), in fields that the schema does not have
// too, which it skips. Keys match exactly. A missing field is null, like null; where the column may not be
// null both are errors. Of duplicate keys the last wins, but each value must fit.
//
//   - integers: numbers without fraction and exponent, in the range of the column.
//   - float, double: any number in range, rounded to nearest.
//   - decimal: any number that the scale holds exactly.
//   - string: strings. binary: strings of base64 (RFC 4648 section 4, padded).
//   - date: "YYYY-MM-DD".
//   - timestamp: RFC 3339, also with a space for the T and without zone, which means UTC; digits after the
//     microsecond are dropped. Numbers by JSONOptions.Epoch. A column without time zone holds the wall
//     clock and refuses offsets other than Z.
//   - struct: objects. map: objects, of which every key is an entry. list: arrays.
type JSON struct {
	schema *arrow.Schema
	opts   JSONOptions
	root   object
	cols   []column.Column
	rows   int
	used   int // bytes of the messages since Reset, which bound every offset

	depth    int
	fill     int    // cells filled by the message so far
	scratch  []byte // the last unescaped string
	decoded  []byte // the last binary
	date     dateCache
	err      *Error
	marks    []*span // of the fields to capture
	message  []byte  // the last one, for them
	unknown  []string
	deferred []*Target
	rescue   *Target // takes the fields of a message that no column takes
	rescued  []byte

	strangers []*key // that unknown tells of
}

// NewJSON makes a decoder for the columns of a schema: those of the payload only.
func NewJSON(schema *arrow.Schema, opts JSONOptions) (*JSON, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	d := &JSON{schema: schema, opts: opts, date: newDateCache()}
	for _, f := range schema.Fields() {
		c, err := column.New(f)
		if err != nil {
			return nil, fmt.Errorf("decode json: %w", err)
		}
		d.cols = append(d.cols, c)
	}
	var err error
	if d.root, err = newObject(d.cols); err != nil {
		return nil, err
	}
	return d, nil
}

// Schema is the schema of the rows.
func (d *JSON) Schema() *arrow.Schema { return d.schema }

// Append decodes one message into one row. A nil value gives a row of nulls, and an *Error when a column
// may not be null.
func (d *JSON) Append(value []byte) error {
	if len(value) > column.MaxData-d.used {
		return ErrFull
	}
	if value == nil {
		return d.tombstone()
	}
	d.depth, d.fill = 1, 0
	d.unmark(value)
	d.rescued = d.rescued[:0]
	i := skipSpace(value, 0)
	switch {
	case i == len(value):
		i = d.fail(i, "the value is empty")
	case value[i] != '{':
		i = d.fail(i, "the value is not a JSON object")
	default:
		i = d.object(&d.root, value, i+1, d.rows)
	}
	if i >= 0 {
		if i = skipSpace(value, i); i == len(value) {
			d.rows++
			d.used += len(value)
			if len(d.rescued) > 0 {
				return d.keepRescued()
			}
			return nil
		}
		d.fail(i, "data after the JSON object")
	}
	d.rollback()
	d.untell()
	err := d.err
	d.err = nil
	return err
}

// rollback drops what the message has written so far.
func (d *JSON) rollback() {
	for _, c := range d.cols {
		c.Truncate(min(d.rows, c.Len()))
	}
}

func (d *JSON) tombstone() error {
	d.unmark(nil)
	for _, f := range d.root.fields {
		if !f.nullable {
			return &Error{Reason: "no value, but the column may not be null", Path: f.name}
		}
	}
	if d.used == column.MaxData {
		return ErrFull
	}
	d.AppendNull()
	return nil
}

// AppendNull adds a row of nulls.
func (d *JSON) AppendNull() {
	for _, c := range d.cols {
		c.AppendNull()
	}
	d.rows++
	d.used++
}

// Rows is the number of rows since Reset.
func (d *JSON) Rows() int { return d.rows }

// Bytes estimates the memory that the rows take.
func (d *JSON) Bytes() int64 {
	var n int64
	for _, c := range d.cols {
		n += c.Bytes()
	}
	return n
}

// Arrays wraps the columns so far without a copy; valid until Reset.
func (d *JSON) Arrays() []arrow.Array {
	out := make([]arrow.Array, len(d.cols))
	for i, c := range d.cols {
		out[i] = c.Array()
	}
	return out
}

// Array is one of Arrays.
func (d *JSON) Array(i int) arrow.Array { return d.cols[i].Array() }

// Reset drops the rows and keeps the memory and what was learned of the keys.
func (d *JSON) Reset() {
	for _, c := range d.cols {
		c.Reset()
	}
	d.rows, d.used = 0, 0
}

// fail notes the error and gives the position that stands for failure.
func (d *JSON) fail(pos int, reason string) int {
	d.err = &Error{Reason: reason, Pos: pos}
	return -1
}

// unexpected is fail for a byte that the grammar does not allow here, or for the end.
func (d *JSON) unexpected(b []byte, i int, want string) int {
	if i >= len(b) {
		return d.fail(len(b), "the JSON ends before "+want)
	}
	return d.fail(i, fmt.Sprintf("unexpected %q, want %s", rune(b[i]), want))
}

// at puts a step in front of the path of a failure that passes by.
func (d *JSON) at(step string) int {
	d.err.Under(step)
	return -1
}
