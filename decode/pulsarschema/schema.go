package pulsarschema

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// ErrSchema says that a schema is damaged, or of a kind that has no columns.
var ErrSchema = errors.New("the schema in Pulsar's registry cannot be columns")

// Schema is one version of a topic's schema.
type Schema struct {
	Type       Type
	Data       []byte            // the definition, in the language of the type
	Properties map[string]string // of KEY_VALUE: how key and value stand together
}

// Registry gives the schemas of one topic. It is safe for concurrent use.
type Registry interface {
	// Schema gives a version, as messages name it; nil: the newest. registry.ErrUnknown when there is no such one; other
	// errors say nothing of the schema.
	Schema(ctx context.Context, version []byte) (Schema, error)
}

// Type is the type of a schema.
type Type int

// Types, with the numbers of the wire.
const (
	None           Type = 0
	String         Type = 1
	JSON           Type = 2
	Protobuf       Type = 3
	Avro           Type = 4
	Bool           Type = 5
	Int8           Type = 6
	Int16          Type = 7
	Int32          Type = 8
	Int64          Type = 9
	Float          Type = 10
	Double         Type = 11
	Date           Type = 12
	Time           Type = 13
	Timestamp      Type = 14
	KeyValue       Type = 15
	Instant        Type = 16
	LocalDate      Type = 17
	LocalTime      Type = 18
	LocalDateTime  Type = 19
	ProtobufNative Type = 20
	Bytes          Type = -1 // in properties of KEY_VALUE alone
)

var typeNames = map[Type]string{
	None: "NONE", String: "STRING", JSON: "JSON", Protobuf: "PROTOBUF", Avro: "AVRO", Bool: "BOOLEAN", Int8: "INT8", Int16: "INT16", Int32: "INT32", Int64: "INT64",
	Float: "FLOAT", Double: "DOUBLE", Date: "DATE", Time: "TIME", Timestamp: "TIMESTAMP", KeyValue: "KEY_VALUE", Instant: "INSTANT", LocalDate: "LOCAL_DATE",
	LocalTime: "LOCAL_TIME", LocalDateTime: "LOCAL_DATE_TIME", ProtobufNative: "PROTOBUF_NATIVE", Bytes: "BYTES",
}

// String gives the name that Pulsar's tools use.
func (t Type) String() string {
	if s, ok := typeNames[t]; ok {
		return s
	}
	return fmt.Sprintf("type %d", int(t))
}

// parseType finds a type by its name.
func parseType(name string) (Type, error) {
	for t, s := range typeNames {
		if s == name {
			return t, nil
		}
	}
	return None, fmt.Errorf("%w: the type %q is not known", ErrSchema, name)
}

// versions are the schemas of a topic by number, remembered: a version names one schema for ever.
type versions struct {
	reg  Registry // nil: it is out of reach
	once singleflight.Group

	mu      sync.Mutex
	known   map[int]Schema
	unknown map[int]time.Time
}

func newVersions(reg Registry) *versions {
	return &versions{reg: reg, known: map[int]Schema{}, unknown: map[int]time.Time{}}
}

const (
	askTimeout = 30 * time.Second
	forget     = 10 * time.Second // a version that is not known is not asked for again for so long
	maxUnknown = 10_000           // they come from messages
)

var errNoRegistry = errors.New("the schemas of the values are in the registry of a Pulsar, which is not reached from here: name the topic as pulsar://HOST:PORT/TENANT/NAMESPACE/TOPIC with --table")

// schema gives a version.
func (v *versions) schema(id int) (Schema, error) {
	v.mu.Lock()
	s, ok := v.known[id]
	gone, no := v.unknown[id]
	v.mu.Unlock()
	switch {
	case ok:
		return s, nil
	case no && time.Since(gone) < forget:
		return Schema{}, fmt.Errorf("schema version %d: %w", id, registry.ErrUnknown)
	case v.reg == nil:
		return Schema{}, errNoRegistry
	}
	got, err, _ := v.once.Do(fmt.Sprint(id), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		return v.reg.Schema(ctx, binary.BigEndian.AppendUint64(nil, uint64(id)))
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		if errors.Is(err, registry.ErrUnknown) {
			if len(v.unknown) >= maxUnknown {
				clear(v.unknown)
			}
			v.unknown[id] = time.Now()
		}
		return Schema{}, fmt.Errorf("schema version %d: %w", id, err)
	}
	s = got.(Schema)
	v.known[id] = s
	return s, nil
}

// newest gives the schema that the topic has now.
func (v *versions) newest(ctx context.Context) (Schema, error) {
	if v.reg == nil {
		return Schema{}, errNoRegistry
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := v.reg.Schema(ctx, nil)
	if err != nil {
		return s, fmt.Errorf("schema of the topic: %w", err)
	}
	return s, nil
}

// number reads the version that a message names.
func number(version []byte) (int, bool) {
	if len(version) != 8 {
		return 0, false
	}
	n := binary.BigEndian.Uint64(version)
	return int(n), n <= math.MaxInt32
}

// ByID implements confluent.Source.
func (v *versions) ByID(id int) (*registry.Schema, error) {
	s, err := v.schema(id)
	if err != nil {
		return nil, err
	}
	return s.registered(id)
}

// Latest implements confluent.Source. Nobody asks: columns are made here.
func (v *versions) Latest(ctx context.Context, _ string) (*registry.Schema, error) {
	s, err := v.newest(ctx)
	if err != nil {
		return nil, err
	}
	return s.registered(0)
}

// registered gives the schema in the form of another registry.
func (s Schema) registered(id int) (*registry.Schema, error) {
	switch s.Type {
	case Avro:
		return &registry.Schema{ID: id, Kind: registry.Avro, Text: string(s.Data)}, nil
	case ProtobufNative:
		n, err := parseNative(s.Data)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", registry.ErrUnfit, err)
		}
		return n.registered(id), nil
	}
	return nil, fmt.Errorf("%w: it is of type %s, and the table is filled by another one", registry.ErrUnfit, s.Type)
}
