package pulsarschema

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/avro"
	"github.com/ledgerlake/ledgerlake/decode/confluent"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/record"
)

// Format decodes values of one topic. A topic has schemas of one type: it is that of the newest when the table is made,
// and values of another type are bad from then on.
type Format struct {
	v *versions

	mu   sync.Mutex
	kind Type
	has  bool // kind is known
}

// New makes the format of a topic. kind is what Kind of the format said that the table was made by; empty: the newest
// schema tells it. reg may be nil where only JSON, which needs none, is to be read.
func New(reg Registry, kind string) (*Format, error) {
	f := &Format{v: newVersions(reg)}
	if kind == "" {
		return f, nil
	}
	var err error
	f.kind, err = parseType(kind)
	f.has = err == nil
	if err == nil && reg == nil && f.kind != JSON {
		err = errNoRegistry
	}
	return f, err
}

// Kind is the type of the topic's schemas; empty while it is not known.
func (f *Format) Kind() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.has {
		return ""
	}
	return f.kind.String()
}

func (f *Format) learn(ctx context.Context) (Schema, error) {
	s, err := f.v.newest(ctx)
	if err != nil {
		return s, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has && f.kind != s.Type {
		return s, fmt.Errorf("%w: the topic has a schema of type %s, and the table is filled by %s", ErrSchema, s.Type, f.kind)
	}
	f.kind, f.has = s.Type, true
	return s, nil
}

// Columns implements decode.Format: those of the newest schema.
func (f *Format) Columns(ctx context.Context, _ [][]byte) (*arrow.Schema, error) {
	s, err := f.learn(ctx)
	if err != nil {
		return nil, err
	}
	return s.columns()
}

// NewDecoder implements decode.Format.
func (f *Format) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	if f.Kind() == "" {
		if _, err := f.learn(context.Background()); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	kind := f.kind
	f.mu.Unlock()
	var below decode.Format
	switch kind {
	case JSON:
		return decode.ForTable(payload)
	case Avro:
		below = avro.Confluent(f.v, "")
	case ProtobufNative:
		below = protobuf.Confluent(f.v, "", "")
	default:
		j, err := decode.ForTable(payload)
		if err != nil {
			return nil, err
		}
		return &decoder{inner: j, v: f.v, kind: kind, layouts: map[int]*layout{}, last: -1}, nil
	}
	d, err := below.NewDecoder(payload)
	if err != nil {
		return nil, err
	}
	return &decoder{inner: d.(inner), v: f.v, kind: kind, heads: map[int][]byte{}, last: -1}, nil
}

// inner is a decoder of values that say themselves which schema they are of.
type inner interface {
	decode.Decoder
	decode.Truncater
	Bytes() int64
}

var (
	_ decode.RecordDecoder = (*decoder)(nil)
	_ decode.Framer        = (*decoder)(nil)
	_ decode.FieldReader   = (*decoder)(nil)
)

// decoder puts in front of each value what says which schema it is of, for the decoder inside. Where key and value are put
// together, that one gets them as JSON.
type decoder struct {
	inner
	v       *versions
	kind    Type
	heads   map[int][]byte  // by version: what stands in front of values; nil: they become JSON
	layouts map[int]*layout // by version, of those
	last    int             // version of the value before; -1: none
	head    []byte          // of it
	layout  *layout
	origin  record.Origin
	framed  []byte
}

// maxVersions bounds what one decoder remembers (I8).
const maxVersions = 1000

// Inner is the decoder of framed values.
func (d *decoder) Inner() decode.Decoder { return d.inner }

// Begin implements decode.RecordDecoder.
func (d *decoder) Begin(int32, record.BatchHeader) {}

// Append implements decode.Decoder. Without a record around it a value has no schema.
func (d *decoder) Append(value []byte) error { return d.AppendRecord(&record.Record{Value: value}) }

// AppendRecord implements decode.RecordDecoder.
func (d *decoder) AppendRecord(rec *record.Record) error {
	framed, err := d.Frame(rec)
	if err != nil {
		return err
	}
	err = d.inner.Append(framed)
	if bad, ok := err.(*decode.Error); ok { //nolint:errorlint // as decoders give it
		bad.Pos = max(bad.Pos-len(d.head), 0)
		if d.heads == nil {
			bad.Pos = 0 // of the JSON that was made of it
		}
	}
	return err
}

// Frame implements decode.Framer. The bytes are good until the next call.
func (d *decoder) Frame(rec *record.Record) ([]byte, error) {
	if rec.Value == nil && d.kind != KeyValue {
		return nil, nil
	}
	if !record.OriginOf(rec, &d.origin) || d.origin.SchemaVersion == nil {
		if rec.Value == nil {
			return nil, nil
		}
		return nil, &decode.Error{Reason: fmt.Sprintf("the message names no version of the topic's schema, which is of type %s", d.kind)}
	}
	id, ok := number(d.origin.SchemaVersion)
	if !ok {
		return nil, &decode.Error{Reason: fmt.Sprintf("the message names the schema version %x, which is no number that Pulsar gives", d.origin.SchemaVersion)}
	}
	if id != d.last {
		if err := d.change(id); err != nil {
			return nil, err
		}
	}
	if d.heads != nil {
		d.framed = append(append(d.framed[:0], d.head...), rec.Value...)
		return d.framed, nil
	}
	if rec.Value == nil && !d.layout.separated {
		return nil, nil
	}
	var err error
	d.framed, err = d.layout.appendValue(d.framed[:0], rec.Key, rec.Value)
	return d.framed, err
}

// change takes up another version.
func (d *decoder) change(id int) error {
	head, known := d.heads[id]
	layout := d.layouts[id]
	if !known && layout == nil {
		s, err := d.v.schema(id)
		var none bool
		switch none = errors.Is(err, registry.ErrUnknown); {
		case none:
			return &decode.Error{Reason: err.Error()}
		case err != nil:
			return &decode.UnavailableError{Err: err}
		case s.Type != d.kind:
			return &decode.Error{Reason: fmt.Sprintf("schema version %d is of type %s, and the table is filled by %s", id, s.Type, d.kind)}
		}
		if head, layout, err = d.read(id, s); err != nil {
			return &decode.Error{Reason: fmt.Sprintf("schema version %d: %v", id, err)}
		}
	}
	d.last, d.head, d.layout = id, head, layout
	return nil
}

func (d *decoder) read(id int, s Schema) (head []byte, l *layout, err error) {
	if len(d.heads)+len(d.layouts) >= maxVersions {
		clear(d.heads)
		clear(d.layouts)
	}
	if d.heads == nil {
		if l, err = newLayout(s); err == nil {
			d.layouts[id] = l
		}
		return nil, l, err
	}
	head = binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
	if s.Type == ProtobufNative {
		n, err := parseNative(s.Data)
		if err != nil {
			return nil, nil, err
		}
		head = n.appendIndex(head)
	}
	d.heads[id] = head
	return head, nil, nil
}

// Bytes estimates the memory that the rows take.
func (d *decoder) Bytes() int64 { return d.inner.Bytes() + int64(cap(d.framed)) }

// NewFields implements decode.FieldReader, for what Frame gives.
func (d *decoder) NewFields(need, also []string) (decode.Fields, error) {
	if r, ok := d.inner.(decode.FieldReader); ok {
		return r.NewFields(need, also)
	}
	return whole{}, nil
}

// whole gives JSON as it is.
type whole struct{}

// AppendJSON implements decode.Fields.
func (whole) AppendJSON(dst, value []byte) ([]byte, error) { return append(dst, value...), nil }

var _ confluent.Source = (*versions)(nil)
