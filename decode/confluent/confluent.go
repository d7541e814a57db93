// Package confluent reads the frame that Confluent's serializers put around a value: a zero byte and the id of its
// schema in a registry, 4 bytes, big-endian (docs.confluent.io, "Wire format"). It turns what the registry says into
// what a decoder has to say: an id that does not exist, or whose schema nobody here can use, makes a bad record; a
// registry that cannot be reached makes none (I7).
package confluent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// HeaderSize is the length of the frame before the value.
const HeaderSize = 5

// ID reads the schema id of a framed value.
func ID(value []byte) (int, *decode.Error) {
	switch {
	case len(value) < HeaderSize:
		return 0, &decode.Error{Reason: fmt.Sprintf("%d bytes are too few for a schema id", len(value)), Pos: len(value)}
	case value[0] != 0:
		return 0, &decode.Error{Reason: fmt.Sprintf("the value begins with byte %#02x, and one with a schema id begins with 0", value[0])}
	}
	id := binary.BigEndian.Uint32(value[1:])
	if id > math.MaxInt32 {
		return 0, &decode.Error{Reason: fmt.Sprintf("schema id %d: a registry gives ids up to %d", id, math.MaxInt32), Pos: 1}
	}
	return int(id), nil
}

// Source is where schemas come from: a *registry.Client, or whoever gives schemas ids that stay. Its errors are told apart as
// package registry says. Safe for concurrent use.
type Source interface {
	ByID(id int) (*registry.Schema, error)
	Latest(ctx context.Context, subject string) (*registry.Schema, error)
}

// Schemas are the schemas of one registry in the form T. Safe for concurrent use.
type Schemas[T any] struct {
	reg   Source
	kind  registry.Kind
	parse func(*registry.Schema) (T, error)

	mu    sync.Mutex
	known map[int]parsed[T]
}

type parsed[T any] struct {
	schema T
	bad    *decode.Error
}

// NewSchemas makes the schemas of a kind; others are errors. parse gets each schema once, and what it refuses makes
// bad records.
func NewSchemas[T any](reg Source, kind registry.Kind, parse func(*registry.Schema) (T, error)) *Schemas[T] {
	return &Schemas[T]{reg: reg, kind: kind, parse: parse, known: map[int]parsed[T]{}}
}

// ByID gives a schema, a *decode.Error when messages of this id are bad, or a *decode.UnavailableError.
func (s *Schemas[T]) ByID(id int) (T, error) {
	s.mu.Lock()
	p, ok := s.known[id]
	s.mu.Unlock()
	if !ok {
		raw, err := s.reg.ByID(id)
		switch {
		case errors.Is(err, registry.ErrUnknown):
			return p.schema, &decode.Error{Reason: fmt.Sprintf("schema id %d: %v", id, registry.ErrUnknown), Pos: 1}
		case errors.Is(err, registry.ErrUnfit):
			return p.schema, &decode.Error{Reason: err.Error(), Pos: 1}
		case err != nil:
			return p.schema, &decode.UnavailableError{Err: err}
		}
		p = s.read(raw)
		s.mu.Lock()
		s.known[id] = p
		s.mu.Unlock()
	}
	if p.bad != nil {
		bad := *p.bad
		return p.schema, &bad
	}
	return p.schema, nil
}

func (s *Schemas[T]) read(raw *registry.Schema) (p parsed[T]) {
	if raw.Kind != s.kind {
		p.bad = &decode.Error{Reason: fmt.Sprintf("schema id %d is of type %s, not %s", raw.ID, raw.Kind, s.kind), Pos: 1}
		return p
	}
	var err error
	if p.schema, err = s.parse(raw); err != nil {
		p.bad = &decode.Error{Reason: fmt.Sprintf("schema id %d: %v", raw.ID, err), Pos: 1}
	}
	return p
}

// ForTable is the schema that a table is made by: the newest of the subject when there is one, else that of the
// sample with the highest id. The sample is nil in the first case. ErrNoSamples when none has an id of the registry.
func (s *Schemas[T]) ForTable(ctx context.Context, subject string, samples [][]byte) (schema T, sample []byte, err error) {
	if subject != "" {
		raw, err := s.reg.Latest(ctx, subject)
		if err != nil {
			return schema, nil, fmt.Errorf("look up the schema: %w", err)
		}
		p := s.read(raw)
		if p.bad != nil {
			return schema, nil, p.bad
		}
		return p.schema, nil, nil
	}
	best := -1
	why := fmt.Errorf("%w that begins with a schema id (%d samples)", decode.ErrNoSamples, len(samples))
	for _, v := range samples {
		id, bad := ID(v)
		if bad != nil || id <= best {
			continue
		}
		got, err := s.ByID(id)
		var away *decode.UnavailableError
		if errors.As(err, &away) {
			return schema, nil, fmt.Errorf("look up the schema: %w", err)
		}
		if err != nil {
			why = fmt.Errorf("%w: %w", decode.ErrNoSamples, err)
			continue
		}
		best, schema, sample = id, got, v
	}
	if best < 0 {
		return schema, nil, why
	}
	return schema, sample, nil
}
