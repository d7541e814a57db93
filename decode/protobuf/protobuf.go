// Package protobuf decodes Protobuf messages into the columns of a table. The message's descriptor is compiled once
// against the columns; a message then goes from bytes to columns in one pass, without a tree, and without an
// allocation when no field comes twice.
//
// Fields go to columns of the same name, as the .proto file spells it; unknown fields and those without a column are
// passed over, a column without a field is null. A field that is not set is zero where the schema cannot tell (proto3
// without optional), else null; a repeated one is an empty list. Of a field that comes twice the last one counts,
// and messages are merged, as the specification asks.
package protobuf

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	pr "google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/confluent"
	"github.com/ledgerlake/ledgerlake/decode/sink"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// decoder is the part that both framings share.
type decoder struct {
	*sink.Batch
	err  *decode.Error
	seen *plan // of the last message
}

// append decodes value[at:] by a plan.
func (d *decoder) append(p *plan, value []byte, at int) error {
	d.seen = p
	if p.bad != nil {
		bad := *p.bad
		bad.Pos = at
		return &bad
	}
	if d.message(p, value, at, d.Rows()) >= 0 {
		d.End(len(value))
		return nil
	}
	d.Rollback()
	err := d.err
	d.err = nil
	return err
}

// Message is Protobuf without a frame: all values are of one message of a serialized FileDescriptorSet that holds
// its imports too.
func Message(descriptorSet []byte, name string) (decode.Format, error) {
	m, err := fromSet(descriptorSet, name)
	if err != nil {
		return nil, err
	}
	return &plain{m}, nil
}

type plain struct{ message pr.MessageDescriptor }

func (f *plain) Columns(context.Context, [][]byte) (*arrow.Schema, error) { return columns(f.message) }

func (f *plain) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	b, err := sink.NewBatch(payload)
	if err != nil {
		return nil, err
	}
	p := compile(f.message, b.Fields)
	if p.bad != nil {
		return nil, fmt.Errorf("%w: it does not go with the table: %w", ErrSchema, p.bad)
	}
	return &plainDecoder{decoder: decoder{Batch: b}, descriptor: f.message, plan: p}, nil
}

type plainDecoder struct {
	decoder
	descriptor pr.MessageDescriptor
	plan       *plan
}

func (d *plainDecoder) Append(value []byte) error {
	if value == nil {
		return d.Tombstone()
	}
	if err := d.Begin(len(value)); err != nil {
		return err
	}
	return d.append(d.plan, value, 0)
}

// Confluent is Protobuf with the schema's id and the index of the message in front, and the schemas in a registry.
// Columns are those of the newest schema of subject, or without one of the newest schema among the samples: of its
// message of that name, else of the one that the sample names, else of the first one.
func Confluent(reg confluent.Source, subject, message string) decode.Format {
	return &registered{
		subject: subject, name: message,
		schemas: confluent.NewSchemas(reg, registry.Protobuf, compileText),
	}
}

type registered struct {
	subject, name string
	schemas       *confluent.Schemas[pr.FileDescriptor]
}

func (f *registered) Columns(ctx context.Context, samples [][]byte) (*arrow.Schema, error) {
	file, sample, err := f.schemas.ForTable(ctx, f.subject, samples)
	if err != nil {
		return nil, err
	}
	if f.name != "" {
		m := byName(file.Messages(), f.name)
		if m == nil {
			return nil, fmt.Errorf("%w: the schema has no message %s", ErrSchema, f.name)
		}
		return columns(m)
	}
	index := []int{0}
	if sample != nil {
		if got, _, bad := readIndex(sample); bad == nil {
			index = got
		}
	}
	m, err := at(file, index)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return columns(m)
}

// maxIndex bounds the nesting of a message in its file.
const maxIndex = 64

// indexEnd finds the end of the message index: a count and so many places, all zigzag varints. A count of 0 stands for
// the one place 0.
func indexEnd(value []byte) (int, *decode.Error) {
	count, i := varint(value, confluent.HeaderSize)
	if i < 0 || count&1 != 0 || count>>1 > maxIndex {
		return 0, &decode.Error{Reason: "the message index is damaged", Pos: confluent.HeaderSize}
	}
	for range count >> 1 {
		if _, i = varint(value, i); i < 0 {
			return 0, &decode.Error{Reason: "the message index is damaged", Pos: confluent.HeaderSize}
		}
	}
	return i, nil
}

func readIndex(value []byte) (index []int, end int, bad *decode.Error) {
	if end, bad = indexEnd(value); bad != nil {
		return nil, 0, bad
	}
	for i := confluent.HeaderSize; i < end; {
		v, n := binary.Varint(value[i:end])
		i += n
		index = append(index, int(v))
	}
	if len(index) == 1 {
		return []int{0}, end, nil
	}
	return index[1:], end, nil
}

func (f *registered) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	b, err := sink.NewBatch(payload)
	if err != nil {
		return nil, err
	}
	return &registeredDecoder{decoder: decoder{Batch: b}, schemas: f.schemas, plans: map[string]*plan{}}, nil
}

// maxPlans bounds the messages that one decoder keeps the plans of (I8).
const maxPlans = 1000

type registeredDecoder struct {
	decoder
	schemas *confluent.Schemas[pr.FileDescriptor]
	plans   map[string]*plan // by id and message index, as they stand in the value
	last    string
	plan    *plan
}

func (d *registeredDecoder) Append(value []byte) error {
	if value == nil {
		return d.Tombstone()
	}
	if err := d.Begin(len(value)); err != nil {
		return err
	}
	id, bad := confluent.ID(value)
	if bad != nil {
		return bad
	}
	end, bad := indexEnd(value)
	if bad != nil {
		return bad
	}
	if string(value[:end]) != d.last {
		if err := d.change(id, value[:end]); err != nil {
			return err
		}
	}
	return d.append(d.plan, value, end)
}

func (d *registeredDecoder) change(id int, head []byte) error {
	p := d.plans[string(head)]
	if p == nil {
		m, err := d.descriptor(id, head)
		if err != nil {
			return err
		}
		if len(d.plans) >= maxPlans {
			clear(d.plans)
		}
		p = compile(m, d.Fields)
		d.plans[string(head)] = p
	}
	d.last, d.plan = string(head), p
	return nil
}

// descriptor finds the message that the head of a value names.
func (d *registeredDecoder) descriptor(id int, head []byte) (pr.MessageDescriptor, error) {
	file, err := d.schemas.ByID(id)
	if err != nil {
		return nil, err
	}
	index, _, bad := readIndex(head)
	if bad != nil {
		return nil, bad
	}
	m, err := at(file, index)
	if err != nil {
		return nil, &decode.Error{Reason: fmt.Sprintf("schema id %d: %v", id, err), Pos: confluent.HeaderSize}
	}
	return m, nil
}
