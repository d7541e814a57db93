package avro

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/confluent"
	"github.com/ledgerlake/ledgerlake/decode/sink"
)

var (
	_ decode.FieldReader = (*registeredDecoder)(nil)
	_ decode.FieldReader = (*rawDecoder)(nil)
	_ decode.FieldReader = (*singleDecoder)(nil)
	_ decode.FieldReader = (*containerDecoder)(nil)
	_ decode.Declarer    = (*decoder)(nil)
)

// fields gives fields of messages as JSON: they are decoded into columns as those of a new table would be, of each
// writer's schema its own, and written from there.
type fields struct {
	need, also []string
	locate     func(value []byte) (root *node, data []byte, at int, err error)
	views      map[*node]*view
}

// view is the columns of one schema that are looked at.
type view struct {
	decoder
	program *program
	bad     error // the schema has a field that no column can hold
}

func newFields(need, also []string, locate func(value []byte) (*node, []byte, int, error)) *fields {
	return &fields{need: need, also: also, locate: locate, views: map[*node]*view{}}
}

// AppendJSON implements decode.Fields.
func (f *fields) AppendJSON(dst, value []byte) ([]byte, error) {
	root, data, at, err := f.locate(value)
	if err != nil {
		return dst, err
	}
	v := f.views[root]
	if v == nil {
		if len(f.views) >= maxPrograms {
			clear(f.views)
		}
		v = f.newView(root)
		f.views[root] = v
	}
	if v.bad != nil {
		return dst, &decode.Error{Reason: v.bad.Error(), Pos: at}
	}
	v.Reset()
	if err := v.Begin(len(data)); err != nil {
		return dst, err
	}
	if err := v.message(v.program, data, at); err != nil {
		return dst, err
	}
	return v.AppendJSON(dst, 0), nil
}

func (f *fields) newView(root *node) *view {
	var columns []arrow.Field
	for _, have := range root.fields {
		needed := slices.Contains(f.need, have.name)
		if f.need != nil && !needed && !slices.Contains(f.also, have.name) {
			continue
		}
		t, err := typeOf(have.typ, []*node{root}, have.name)
		if err == nil && (widths{}).of(have.typ) > maxColumns {
			err = fmt.Errorf("%w: %s has more than %d fields", ErrSchema, have.name, maxColumns)
		}
		if err != nil && needed {
			return &view{bad: fmt.Errorf("an expression looks at a field that it cannot read: %w", err)}
		}
		if err == nil && t != nil {
			columns = append(columns, arrow.Field{Name: have.name, Type: t, Nullable: true})
		}
	}
	batch, err := sink.NewBatch(arrow.NewSchema(columns, nil))
	if err != nil {
		return &view{bad: err}
	}
	return &view{decoder: decoder{Batch: batch}, program: compile(root, batch.Fields)}
}

// NewFields implements decode.FieldReader.
func (d *registeredDecoder) NewFields(need, also []string) (decode.Fields, error) {
	last, root := -1, (*node)(nil) // of the message before
	return newFields(need, also, func(value []byte) (*node, []byte, int, error) {
		id, bad := confluent.ID(value)
		if bad != nil {
			return nil, nil, 0, bad
		}
		if id != last {
			n, err := d.schemas.ByID(id)
			if err != nil {
				return nil, nil, 0, err
			}
			last, root = id, n
		}
		return root, value, confluent.HeaderSize, nil
	}), nil
}

// NewFields implements decode.FieldReader.
func (d *rawDecoder) NewFields(need, also []string) (decode.Fields, error) {
	return newFields(need, also, func(value []byte) (*node, []byte, int, error) { return d.root, value, 0, nil }), nil
}

// NewFields implements decode.FieldReader.
func (d *singleDecoder) NewFields(need, also []string) (decode.Fields, error) {
	return newFields(need, also, func(value []byte) (*node, []byte, int, error) {
		print, bad := fingerprint(value)
		if bad != nil {
			return nil, nil, 0, bad
		}
		root := d.known[print]
		if root == nil {
			return nil, nil, 0, unknownFingerprint(print)
		}
		return root, value, singleHeader, nil
	}), nil
}

// fingerprint reads the frame of a single object.
func fingerprint(value []byte) (uint64, *decode.Error) {
	if len(value) < singleHeader || value[0] != 0xc3 || value[1] != 0x01 {
		return 0, &decode.Error{Reason: "the value does not begin with the marker C3 01 and a fingerprint"}
	}
	return binary.LittleEndian.Uint64(value[2:]), nil
}

func unknownFingerprint(print uint64) *decode.Error {
	return &decode.Error{Reason: fmt.Sprintf("no schema with the fingerprint %016x is given", print), Pos: 2}
}

// NewFields implements decode.FieldReader.
func (d *containerDecoder) NewFields(need, also []string) (decode.Fields, error) {
	own := &containerDecoder{format: d.format} // its block is another one
	return newFields(need, also, func(value []byte) (*node, []byte, int, error) {
		h, bad := readHeader(value)
		if bad != nil {
			return nil, nil, 0, bad
		}
		root, bad := own.format.schema(h.schema)
		if bad != nil {
			return nil, nil, 0, bad
		}
		data, bad := own.only(&h, value)
		if bad != nil {
			return nil, nil, 0, bad
		}
		return root, data, 0, nil
	}), nil
}
