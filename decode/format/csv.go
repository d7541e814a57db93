package format

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
)

// CSVOptions say how a line is to be read.
type CSVOptions struct {
	// Fields are the names of the fields in their order; those without a column are skipped. None: the columns of
	// the table, in their order.
	Fields []string `json:"fields,omitempty"`
	// Comma between fields, an ASCII character; default ','.
	Comma rune `json:"comma,omitempty"`
	// Null is what stands for null when it is not in quotes; default: nothing at all.
	Null string `json:"null,omitempty"`
}

func (o CSVOptions) isZero() bool { return len(o.Fields) == 0 && o.Comma == 0 && o.Null == "" }

// csvFormat is one line a value (RFC 4180, with or without its end of line). A field is read as the JSON string of
// the same text would be: numbers, booleans, dates and timestamps as there, decode.JSON.
type csvFormat struct{ o CSVOptions }

func newCSV(o CSVOptions) (decode.Format, error) {
	if o.Comma == 0 {
		o.Comma = ','
	}
	if o.Comma >= utf8.RuneSelf || strings.ContainsRune("\"\r\n", o.Comma) {
		return nil, fmt.Errorf("%w: %q cannot stand between fields", ErrSpec, o.Comma)
	}
	seen := map[string]bool{}
	for _, f := range o.Fields {
		if seen[f] || f == "" {
			return nil, fmt.Errorf("%w: the field %q is empty or there twice", ErrSpec, f)
		}
		seen[f] = true
	}
	return csvFormat{o}, nil
}

// Columns are strings: a line does not tell its types. A table with others is made by its schema.
func (f csvFormat) Columns(context.Context, [][]byte) (*arrow.Schema, error) {
	if len(f.o.Fields) == 0 {
		return nil, fmt.Errorf("%w: lines of csv do not tell the columns of a new table: name the fields (--csv-fields), or give the columns (--schema)", ErrSpec)
	}
	var out []arrow.Field
	for _, name := range f.o.Fields {
		out = append(out, arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true})
	}
	return arrow.NewSchema(out, nil), nil
}

func (f csvFormat) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	j, err := decode.ForTable(payload)
	if err != nil {
		return nil, err
	}
	d := &csvDecoder{JSON: j, o: f.o}
	names := f.o.Fields
	if len(names) == 0 {
		for _, field := range payload.Fields() {
			names = append(names, field.Name)
		}
	}
	d.names = names
	for _, n := range names {
		field, have := payload.FieldsByName(n)
		if !have {
			d.fields = append(d.fields, csvField{})
			continue
		}
		if arrow.IsNested(field[0].Type.ID()) {
			return nil, fmt.Errorf("%w: a field of CSV cannot fill column %q of type %s", ErrSpec, n, field[0].Type)
		}
		d.fields = append(d.fields, csvField{name: n, key: decode.AppendString(nil, n)})
	}
	return d, nil
}

type csvField struct {
	name string
	key  []byte // as JSON; nil: no column
	at   int    // where it stands in the value
}

// csvDecoder writes a line as a JSON object and decodes that.
type csvDecoder struct {
	*decode.JSON
	o      CSVOptions
	names  []string // of all fields
	fields []csvField
	object []byte
	text   []byte // the field, without its quotes
}

func (d *csvDecoder) Append(value []byte) error {
	if value == nil {
		return d.JSON.Append(nil)
	}
	if err := d.write(value); err != nil {
		return err
	}
	err := d.JSON.Append(d.object)
	var bad *decode.Error
	if errors.As(err, &bad) {
		bad.Pos = 0
		for _, f := range d.fields {
			if f.name == bad.Path {
				bad.Pos = f.at
			}
		}
	}
	return err
}

// write makes the object of a line.
func (d *csvDecoder) write(value []byte) error {
	if !utf8.Valid(value) {
		return &decode.Error{Reason: "the line is not UTF-8"}
	}
	d.object = append(d.object[:0], '{')
	if bad := d.line(value); bad != nil {
		return bad
	}
	d.object = append(d.object, '}')
	return nil
}

// line reads all fields.
func (d *csvDecoder) line(b []byte) *decode.Error {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
		if n > 1 && b[n-2] == '\r' {
			b = b[:n-2]
		}
	}
	for i, n := 0, 0; ; n++ {
		if n == len(d.fields) {
			return &decode.Error{Reason: fmt.Sprintf("the line has more than %d fields", len(d.fields)), Pos: i}
		}
		f := &d.fields[n]
		f.at = i
		quoted, next, bad := d.field(b, i)
		if bad != nil {
			bad.Path = f.name
			return bad
		}
		if f.key != nil && (quoted || string(d.text) != d.o.Null) {
			if len(d.object) > 1 {
				d.object = append(d.object, ',')
			}
			d.object = append(append(d.object, f.key...), ':')
			d.object = decode.AppendString(d.object, d.text)
		}
		if next == len(b) {
			if n+1 < len(d.fields) {
				return &decode.Error{Reason: fmt.Sprintf("the line has %d fields, want %d", n+1, len(d.fields)), Pos: next}
			}
			return nil
		}
		i = next + 1
	}
}

// field reads the field at i into text; next is at the comma behind it, or the end.
func (d *csvDecoder) field(b []byte, i int) (quoted bool, next int, bad *decode.Error) {
	d.text = d.text[:0]
	if i == len(b) || b[i] != '"' {
		for next = i; next < len(b) && b[next] != byte(d.o.Comma); next++ {
			if c := b[next]; c == '"' || c == '\n' || c == '\r' {
				return false, 0, &decode.Error{Reason: fmt.Sprintf("%q in a field without quotes", c), Pos: next}
			}
		}
		d.text = append(d.text, b[i:next]...)
		return false, next, nil
	}
	for next = i + 1; next < len(b); next++ {
		if b[next] != '"' {
			d.text = append(d.text, b[next])
			continue
		}
		if next+1 < len(b) && b[next+1] == '"' {
			d.text = append(d.text, '"')
			next++
			continue
		}
		if next++; next < len(b) && b[next] != byte(d.o.Comma) {
			return true, 0, &decode.Error{Reason: "a quoted field goes on behind its quote", Pos: next}
		}
		return true, next, nil
	}
	return true, 0, &decode.Error{Reason: "a quoted field has no end", Pos: i}
}
