package protobuf

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	pr "google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/sink"
)

// form says what becomes of the values of a field.
type form uint8

const (
	formScalar    form = iota
	formMessage        // into a struct
	formTimestamp      // google.protobuf.Timestamp into a timestamp
	formDuration       // google.protobuf.Duration into a decimal
	formWrapper        // field 1 of the message into the column
)

// wire types (protobuf.dev, "Encoding").
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireGroup   = 3
	wireEnd     = 4
	wireFixed32 = 5
)

// field is a field of a message with the column that it fills.
type field struct {
	num      uint64
	wire     uint64 // of one value
	form     form
	kind     pr.Kind
	list     bool
	entries  bool // a map
	implicit bool // unset means zero
	name     string
	sink     *sink.Sink // of the field
	value    *sink.Sink // of one value: of an element of a list
	next     *field     // the field that came behind this one last time
	enum     *enum
	sub      *plan // of a message, or of the entries of a map
	oneof    *oneof

	gen   uint64 // the message that had this field last
	whole uint64 // the message of which all occurrences were merged
	start int    // where the first occurrence of it stands
	first int    // entries of the map before the message
}

// oneof remembers which of its fields a message had last.
type oneof struct {
	gen  uint64
	last *field
}

// plan writes messages of one type into a struct or a row.
type plan struct {
	start  field // stands before the first field
	fields []*field
	dense  []*field // by number
	sparse map[uint64]*field
	absent []*sink.Sink // columns without a field
	leaves int          // cells of them
	gen    uint64
	bad    *decode.Error // the schema does not go with the table

	message  pr.MessageDescriptor // of the plan of a row
	declared *arrow.Schema        // by message, once somebody has asked
}

// maxDense is the length of the table of fields by number; higher numbers are looked up in a map.
const maxDense = 512

// compile never fails: what does not fit becomes a plan that refuses each message.
func compile(m pr.MessageDescriptor, fields []*sink.Sink) *plan {
	p, bad := newPlan(m, fields, "")
	if bad != nil {
		p = &plan{bad: bad}
	}
	p.message = m
	return p
}

func newPlan(m pr.MessageDescriptor, sinks []*sink.Sink, path string) (*plan, *decode.Error) {
	p := &plan{sparse: map[uint64]*field{}}
	oneofs := map[pr.FullName]*oneof{}
	for _, s := range sinks {
		fd := m.Fields().ByName(pr.Name(s.Name))
		if fd == nil {
			if !s.Nullable {
				return nil, &decode.Error{Path: under(path, s.Name),
					Reason: fmt.Sprintf("the column may not be null, and message %s has no such field", m.FullName())}
			}
			p.absent = append(p.absent, s)
			p.leaves += s.Leaves
			continue
		}
		f, bad := newField(fd, s, under(path, s.Name))
		if bad != nil {
			return nil, bad
		}
		if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() {
			if oneofs[o.FullName()] == nil {
				oneofs[o.FullName()] = &oneof{}
			}
			f.oneof = oneofs[o.FullName()]
		}
		p.add(f)
	}
	return p, nil
}

func (p *plan) add(f *field) {
	prev := &p.start
	if n := len(p.fields); n > 0 {
		prev = p.fields[n-1]
	}
	prev.next, f.next = f, &p.start
	p.fields = append(p.fields, f)
	if f.num >= maxDense {
		p.sparse[f.num] = f
		return
	}
	for uint64(len(p.dense)) <= f.num {
		p.dense = append(p.dense, nil)
	}
	p.dense[f.num] = f
}

func (p *plan) find(num uint64) *field {
	if num < uint64(len(p.dense)) {
		return p.dense[num]
	}
	if len(p.sparse) == 0 {
		return nil
	}
	return p.sparse[num]
}

func mismatch(fd pr.FieldDescriptor, s *sink.Sink, path string) *decode.Error {
	what := fd.Kind().String()
	if fd.Message() != nil {
		what = string(fd.Message().FullName())
	}
	switch {
	case fd.IsMap():
		what = "a map"
	case fd.IsList():
		what = "repeated " + what
	}
	return &decode.Error{Path: path, Reason: fmt.Sprintf("the schema has %s, which does not fit a column of type %s", what, s.TypeName())}
}

func newField(fd pr.FieldDescriptor, s *sink.Sink, path string) (*field, *decode.Error) {
	f := &field{num: uint64(fd.Number()), name: s.Name, sink: s, value: s, implicit: !fd.HasPresence()}
	switch {
	case fd.IsMap():
		if s.Kind != sink.Map {
			return nil, mismatch(fd, s, path)
		}
		f.entries, f.wire = true, wireBytes
		return f, f.entry(fd, path)
	case fd.IsList():
		if s.Kind != sink.List {
			return nil, mismatch(fd, s, path)
		}
		f.list, f.value = true, s.Elem
		path += "[]"
	}
	return f, f.take(fd, path)
}

// entry sets up the plan of the entries of a map: messages with the key as field 1 and the value as field 2, which are
// zero when they are not there.
func (f *field) entry(fd pr.FieldDescriptor, path string) *decode.Error {
	f.sub = &plan{}
	for i, part := range []pr.FieldDescriptor{fd.MapKey(), fd.MapValue()} {
		s := f.sink.Key
		if i == 1 {
			s = f.sink.Elem
		}
		kid := &field{num: uint64(i + 1), name: s.Name, sink: s, value: s, implicit: true}
		if bad := kid.take(part, path+"[]"); bad != nil {
			return bad
		}
		f.sub.add(kid)
	}
	return nil
}

// take sets up how one value is read.
func (f *field) take(fd pr.FieldDescriptor, path string) *decode.Error {
	f.kind, f.wire = fd.Kind(), wireOf(fd.Kind())
	if fd.Kind() == pr.GroupKind {
		return &decode.Error{Path: path, Reason: "the field is a group, which no column can be"}
	}
	if fd.Kind() == pr.MessageKind {
		return f.message(fd, path)
	}
	if fd.Kind() == pr.EnumKind && f.value.Kind == sink.String {
		f.enum = newEnum(fd.Enum())
		return nil
	}
	if !f.value.Takes(valueOf(fd.Kind())) {
		return mismatch(fd, f.value, path)
	}
	return nil
}

func (f *field) message(fd pr.FieldDescriptor, path string) *decode.Error {
	m, s := fd.Message(), f.value
	switch name := m.FullName(); {
	case s.Kind == sink.Struct:
		f.form = formMessage
		sub, bad := newPlan(m, s.Fields, path)
		f.sub = sub
		return bad
	case name == timestampName && s.Kind == sink.Timestamp && s.Zoned:
		f.form = formTimestamp
		return nil
	case name == durationName && s.Kind == sink.Decimal:
		f.form = formDuration
		return nil
	case wrappers[name]:
		f.form = formWrapper
		kid := &field{num: 1, name: s.Name, sink: s, value: s, implicit: true}
		if bad := kid.take(m.Fields().ByNumber(1), path); bad != nil {
			return bad
		}
		f.sub = &plan{}
		f.sub.add(kid)
		return nil
	}
	return mismatch(fd, s, path)
}

func wireOf(k pr.Kind) uint64 {
	switch k {
	case pr.Fixed32Kind, pr.Sfixed32Kind, pr.FloatKind:
		return wireFixed32
	case pr.Fixed64Kind, pr.Sfixed64Kind, pr.DoubleKind:
		return wireFixed64
	case pr.StringKind, pr.BytesKind, pr.MessageKind:
		return wireBytes
	}
	return wireVarint
}

func valueOf(k pr.Kind) sink.Value {
	switch k {
	case pr.FloatKind, pr.DoubleKind:
		return sink.ValueFloat
	case pr.BoolKind:
		return sink.ValueBool
	case pr.StringKind:
		return sink.ValueText
	case pr.BytesKind:
		return sink.ValueBytes
	}
	return sink.ValueInt
}

// enum gives the names of an enum's values.
type enum struct {
	closed bool
	dense  [][]byte
	sparse map[int32][]byte
}

func newEnum(d pr.EnumDescriptor) *enum {
	e := &enum{closed: d.IsClosed(), sparse: map[int32][]byte{}}
	for i := range d.Values().Len() {
		v := d.Values().Get(i)
		n, name := int32(v.Number()), []byte(v.Name())
		if n < 0 || n >= maxDense {
			if e.sparse[n] == nil { // of aliases the first
				e.sparse[n] = name
			}
			continue
		}
		for int32(len(e.dense)) <= n {
			e.dense = append(e.dense, nil)
		}
		if e.dense[n] == nil {
			e.dense[n] = name
		}
	}
	return e
}

// put appends the name of a number, or its digits, and gives its length; 0 when a closed enum does not have it, which
// means that the field is not set.
func (e *enum) put(s *sink.Sink, n int32) int {
	var name []byte
	if n >= 0 && int(n) < len(e.dense) {
		name = e.dense[n]
	} else {
		name = e.sparse[n]
	}
	if name == nil {
		if e.closed {
			return 0
		}
		var buf [12]byte
		name = strconv.AppendInt(buf[:0], int64(n), 10)
	}
	s.Bin.Append(name)
	return len(name)
}
