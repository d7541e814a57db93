// Package avro decodes Avro messages (specification 1.12) into the columns of a table. The schema of a writer is
// compiled once against the columns into a flat program; a message then goes from bytes to columns in one pass,
// without a tree, a map or an allocation.
//
// Fields go to columns of the same name; a field without a column is skipped, a column without a field is null. Numbers
// go into any numeric column that holds their value; see sink.Value and the list at columns for the other types. A
// union goes into one column: each branch must fit it. What does not fit as a type makes each message of that schema
// bad, what does not fit as a value makes the one message bad, with the path of the column and the byte.
package avro

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/twmb/avro"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/confluent"
	"github.com/ledgerlake/ledgerlake/decode/sink"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// Confluent is Avro with the schema's id in front, and the schemas in a registry. Columns are those of the newest
// schema of subject, or without one of the newest schema among the samples.
func Confluent(reg confluent.Source, subject string) decode.Format {
	return &registered{
		subject: subject,
		schemas: confluent.NewSchemas(reg, registry.Avro, func(s *registry.Schema) (*node, error) {
			refs := make([]string, len(s.Refs))
			for i, r := range s.Refs {
				refs[i] = r.Text
			}
			return parseSchema(s.Text, refs)
		}),
	}
}

// Raw is Avro without a frame: all messages are of the one schema, given as its JSON.
func Raw(schema string) (decode.Format, error) {
	root, err := parseSchema(schema, nil)
	if err != nil {
		return nil, err
	}
	return &raw{root: root}, nil
}

// SingleObject is Avro with the fingerprint of the schema in front (specification, "Single-object encoding"). The
// schemas are given as their JSON; the first one tells the columns.
func SingleObject(schemas []string) (decode.Format, error) {
	f := &single{known: map[uint64]*node{}}
	for _, text := range schemas {
		root, err := parseSchema(text, nil)
		if err != nil {
			return nil, err
		}
		s, err := avro.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSchema, err)
		}
		print := s.Fingerprint(avro.NewRabin())
		f.known[binary.BigEndian.Uint64(print)] = root
		if f.first == nil {
			f.first = root
		}
	}
	if f.first == nil {
		return nil, fmt.Errorf("%w: no schema is given", ErrSchema)
	}
	return f, nil
}

// decoder is the part that all framings share.
type decoder struct {
	*sink.Batch
	calls  int // of skips that are under way
	budget int // calls that the message may still make
	err    *decode.Error
	seen   *program // of the last message
}

// maxPrograms bounds the schemas that one decoder keeps the programs of (I8).
const maxPrograms = 1000

// message decodes value[at:] by a program.
func (d *decoder) message(p *program, value []byte, at int) error {
	d.seen = p
	if p.bad != nil {
		bad := *p.bad
		bad.Pos = at
		return &bad
	}
	d.calls, d.budget = 0, freeCalls+callsPerByte*len(value)
	i := d.run(p.steps, 0, len(p.steps), value, at)
	if i >= 0 {
		if i == len(value) {
			d.End(len(value))
			return nil
		}
		d.err = &decode.Error{Reason: fmt.Sprintf("%d bytes after the last field", len(value)-i), Pos: i}
	}
	d.Rollback()
	err := d.err
	d.err = nil
	return err
}

type registered struct {
	subject string
	schemas *confluent.Schemas[*node]
}

func (f *registered) Columns(ctx context.Context, samples [][]byte) (*arrow.Schema, error) {
	root, _, err := f.schemas.ForTable(ctx, f.subject, samples)
	if err != nil {
		return nil, err
	}
	return columns(root)
}

func (f *registered) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	r, err := sink.NewBatch(payload)
	if err != nil {
		return nil, err
	}
	return &registeredDecoder{decoder: decoder{Batch: r}, schemas: f.schemas, programs: map[int]*program{}, last: -1}, nil
}

type registeredDecoder struct {
	decoder
	schemas  *confluent.Schemas[*node]
	programs map[int]*program
	last     int // the id of the message before, or -1
	program  *program
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
	if id != d.last {
		if err := d.change(id); err != nil {
			return err
		}
	}
	return d.message(d.program, value, confluent.HeaderSize)
}

func (d *registeredDecoder) change(id int) error {
	p := d.programs[id]
	if p == nil {
		root, err := d.schemas.ByID(id)
		if err != nil {
			return err
		}
		p = compile(root, d.Fields)
		if len(d.programs) >= maxPrograms {
			clear(d.programs)
		}
		d.programs[id] = p
	}
	d.last, d.program = id, p
	return nil
}

type raw struct{ root *node }

func (f *raw) Columns(context.Context, [][]byte) (*arrow.Schema, error) { return columns(f.root) }

func (f *raw) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	r, err := sink.NewBatch(payload)
	if err != nil {
		return nil, err
	}
	p := compile(f.root, r.Fields)
	if p.bad != nil {
		return nil, fmt.Errorf("%w: it does not go with the table: %w", ErrSchema, p.bad)
	}
	return &rawDecoder{decoder: decoder{Batch: r}, root: f.root, program: p}, nil
}

type rawDecoder struct {
	decoder
	root    *node
	program *program
}

func (d *rawDecoder) Append(value []byte) error {
	if value == nil {
		return d.Tombstone()
	}
	if err := d.Begin(len(value)); err != nil {
		return err
	}
	return d.message(d.program, value, 0)
}

type single struct {
	known map[uint64]*node // by fingerprint, its bytes in the order that the library gives
	first *node
}

func (f *single) Columns(context.Context, [][]byte) (*arrow.Schema, error) { return columns(f.first) }

func (f *single) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	r, err := sink.NewBatch(payload)
	if err != nil {
		return nil, err
	}
	d := &singleDecoder{decoder: decoder{Batch: r}, known: f.known, programs: map[uint64]*program{}}
	for print, root := range f.known {
		d.programs[print] = compile(root, r.Fields)
	}
	return d, nil
}

type singleDecoder struct {
	decoder
	known    map[uint64]*node
	programs map[uint64]*program
}

// singleHeader is the length of marker and fingerprint.
const singleHeader = 10

func (d *singleDecoder) Append(value []byte) error {
	if value == nil {
		return d.Tombstone()
	}
	if err := d.Begin(len(value)); err != nil {
		return err
	}
	print, bad := fingerprint(value)
	if bad != nil {
		return bad
	}
	p := d.programs[print]
	if p == nil {
		return unknownFingerprint(print)
	}
	return d.message(p, value, singleHeader)
}
