package format

import (
	"fmt"
	"slices"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/confluent"
)

var (
	_ decode.FieldReader = (*csvDecoder)(nil)
	_ decode.FieldReader = (*registeredJSONDecoder)(nil)
)

// fieldsFunc is a decode.Fields without a state of its own.
type fieldsFunc func(dst, value []byte) ([]byte, error)

// AppendJSON implements decode.Fields.
func (f fieldsFunc) AppendJSON(dst, value []byte) ([]byte, error) { return f(dst, value) }

// NewFields implements decode.FieldReader. All fields of a line are text.
func (d *csvDecoder) NewFields(need, also []string) (decode.Fields, error) {
	own := &csvDecoder{o: d.o}
	for _, name := range d.names {
		f := csvField{name: name}
		if need == nil || slices.Contains(need, name) || slices.Contains(also, name) {
			f.key = decode.AppendString(nil, name)
		}
		own.fields = append(own.fields, f)
	}
	for _, name := range need {
		if !slices.Contains(d.names, name) {
			return nil, fmt.Errorf("%w: the lines have no field %q, only %q", ErrSpec, name, d.names)
		}
	}
	return fieldsFunc(func(dst, value []byte) ([]byte, error) {
		if err := own.write(value); err != nil {
			return dst, err
		}
		return append(dst, own.object...), nil
	}), nil
}

// NewFields implements decode.FieldReader: a value is JSON behind its schema id, and is given whole.
func (d *registeredJSONDecoder) NewFields(_, _ []string) (decode.Fields, error) {
	return fieldsFunc(func(dst, value []byte) ([]byte, error) {
		if _, bad := confluent.ID(value); bad != nil {
			return dst, bad
		}
		return append(dst, value[confluent.HeaderSize:]...), nil
	}), nil
}
