package protobuf

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	pr "google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/confluent"
	"github.com/ledgerlake/ledgerlake/decode/sink"
)

var (
	_ decode.FieldReader = (*plainDecoder)(nil)
	_ decode.FieldReader = (*registeredDecoder)(nil)
	_ decode.Declarer    = (*decoder)(nil)
)

// fields gives fields of messages as JSON: they are decoded into columns as those of a new table would be, of each
// message type its own, and written from there.
type fields struct {
	need, also []string
	locate     func(value []byte) (m pr.MessageDescriptor, at int, err error)
	views      map[pr.MessageDescriptor]*view
}

// view is the columns of one message type that are looked at.
type view struct {
	decoder
	plan *plan
	bad  error // the message has a field that no column can hold
}

func newFields(need, also []string, locate func(value []byte) (pr.MessageDescriptor, int, error)) *fields {
	return &fields{need: need, also: also, locate: locate, views: map[pr.MessageDescriptor]*view{}}
}

// AppendJSON implements decode.Fields.
func (f *fields) AppendJSON(dst, value []byte) ([]byte, error) {
	m, at, err := f.locate(value)
	if err != nil {
		return dst, err
	}
	v := f.views[m]
	if v == nil {
		if len(f.views) >= maxPlans {
			clear(f.views)
		}
		v = f.newView(m)
		f.views[m] = v
	}
	if v.bad != nil {
		return dst, &decode.Error{Reason: v.bad.Error(), Pos: at}
	}
	v.Reset()
	if err := v.Begin(len(value)); err != nil {
		return dst, err
	}
	if err := v.append(v.plan, value, at); err != nil {
		return dst, err
	}
	return v.AppendJSON(dst, 0), nil
}

func (f *fields) newView(m pr.MessageDescriptor) *view {
	var columns []arrow.Field
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		name := string(fd.Name())
		needed := slices.Contains(f.need, name)
		if f.need != nil && !needed && !slices.Contains(f.also, name) {
			continue
		}
		t, err := fieldType(fd, []pr.FullName{m.FullName()}, name)
		if err != nil && needed {
			return &view{bad: fmt.Errorf("an expression looks at a field that it cannot read: %w", err)}
		}
		if err == nil {
			columns = append(columns, arrow.Field{Name: name, Type: t, Nullable: true})
		}
	}
	batch, err := sink.NewBatch(arrow.NewSchema(columns, nil))
	if err != nil {
		return &view{bad: err}
	}
	return &view{decoder: decoder{Batch: batch}, plan: compile(m, batch.Fields)}
}

// NewFields implements decode.FieldReader.
func (d *plainDecoder) NewFields(need, also []string) (decode.Fields, error) {
	return newFields(need, also, func([]byte) (pr.MessageDescriptor, int, error) { return d.descriptor, 0, nil }), nil
}

// NewFields implements decode.FieldReader.
func (d *registeredDecoder) NewFields(need, also []string) (decode.Fields, error) {
	var last string // what stood before the message before
	var message pr.MessageDescriptor
	return newFields(need, also, func(value []byte) (pr.MessageDescriptor, int, error) {
		id, bad := confluent.ID(value)
		if bad != nil {
			return nil, 0, bad
		}
		end, bad := indexEnd(value)
		if bad != nil {
			return nil, 0, bad
		}
		if head := value[:end]; string(head) != last {
			m, err := d.descriptor(id, head)
			if err != nil {
				return nil, 0, err
			}
			last, message = string(head), m
		}
		return message, end, nil
	}), nil
}
