// Package format makes the formats of message values from what a person writes: a name, as "avro-confluent", with
// "+gzip" behind it when the values are compressed, and the settings that the name needs.
package format

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/avro"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
	"github.com/ledgerlake/ledgerlake/decode/pulsarschema"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// Names of formats.
const (
	JSON              = "json"               // one JSON object
	JSONRegistry      = "json-registry"      // JSON behind a schema id of a registry
	AvroConfluent     = "avro-confluent"     // Avro behind a schema id of a registry
	AvroSOE           = "avro-soe"           // Avro single-object encoding; schemas from a file or a folder of files
	AvroRaw           = "avro-raw"           // Avro alone, of the schema in a file
	AvroContainer     = "avro-container"     // an Avro object container file of one record
	ProtobufConfluent = "protobuf-confluent" // Protobuf behind a schema id and message index
	Protobuf          = "protobuf"           // Protobuf alone, of a message in a descriptor set
	CSV               = "csv"                // one line of CSV
	Pulsar            = "pulsar"             // what the schemas of a topic of Pulsar say
	Raw               = "raw"                // bytes, which become no columns
)

// Gzip behind a name says that values are compressed with gzip.
const Gzip = "+gzip"

// Names lists the formats.
func Names() []string {
	return []string{JSON, JSONRegistry, AvroConfluent, AvroSOE, AvroRaw, AvroContainer, ProtobufConfluent, Protobuf, CSV, Pulsar, Raw}
}

// Options are the settings of a format; those that it has no use for are refused when set.
type Options struct {
	Registry registry.Config // of json-registry, avro-confluent and protobuf-confluent
	Subject  string          // whose newest schema tells the columns of a new table; none: that of the samples
	// SchemaFile holds the Avro schema (avro-soe: or a folder of such files, of which the first by name tells the
	// columns), or the FileDescriptorSet of protobuf, as protoc --include_imports --descriptor_set_out writes it.
	SchemaFile string
	Schemas    []string // what such files hold, in place of SchemaFile
	Message    string   // of protobuf: the full name; of protobuf-confluent it replaces the message index of the columns
	// Validate checks JSON values against the schema of the registry; json-registry alone.
	Validate bool
	CSV      CSVOptions
	// Pulsar gives the schemas of the topic; of pulsar. Kind is the type that the table was made by; empty: the newest's.
	Pulsar pulsarschema.Registry
	Kind   string
}

// ErrSpec says that a format or its settings make no sense.
var ErrSpec = errors.New("invalid format")

// Format is a decode.Format with what has to be closed behind it.
type Format struct {
	decode.Format
	Name    string // with +gzip
	options Options
	reg     *registry.Client
}

// Close ends the connection to the registry.
func (f *Format) Close() error {
	if f.reg == nil {
		return nil
	}
	return f.reg.Close()
}

// SetPatience says how long a decoder waits for a schema of the registry before it says that there is no answer yet. Its answer
// is there for a later try. At first it waits as long as a request may take. It is called before there are decoders.
func (f *Format) SetPatience(d time.Duration) {
	if f.reg != nil {
		f.reg.SetPatience(d)
	}
}

// uses says which settings a format has a use for.
var uses = map[string]struct{ registry, file, message bool }{
	JSON: {}, Raw: {}, CSV: {}, AvroContainer: {}, Pulsar: {},
	JSONRegistry:      {registry: true},
	AvroConfluent:     {registry: true},
	ProtobufConfluent: {registry: true, message: true},
	Protobuf:          {file: true, message: true},
	AvroSOE:           {file: true},
	AvroRaw:           {file: true},
}

// Parse makes a format from its name. It reads schema files, and does not talk to a registry yet.
func Parse(spec string, o Options) (*Format, error) {
	name, zipped := strings.CutSuffix(spec, Gzip)
	if err := check(name, o); err != nil {
		return nil, err
	}
	if o.SchemaFile != "" {
		var err error
		if o.Schemas, err = readAll(o.SchemaFile); err != nil {
			return nil, fmt.Errorf("format %s: %w", name, err)
		}
	}
	if uses[name].file && name != AvroSOE && len(o.Schemas) != 1 {
		return nil, fmt.Errorf("%w: %s needs one schema file, and %s holds %d", ErrSpec, name, o.SchemaFile, len(o.Schemas))
	}
	f := &Format{Name: spec, options: o}
	if uses[name].registry {
		var err error
		if f.reg, err = registry.Open(o.Registry); err != nil {
			return nil, fmt.Errorf("format %s: %w", name, err)
		}
	}
	var err error
	if f.Format, err = build(name, o, f.reg); err != nil {
		return nil, errors.Join(fmt.Errorf("format %s: %w", name, err), f.Close())
	}
	if zipped && name == Pulsar {
		return nil, fmt.Errorf("%w: Pulsar's schemas do not say that values are compressed: %s is no format", ErrSpec, spec)
	}
	if zipped {
		f.Format = gzipped{f.Format}
	}
	return f, nil
}

func check(name string, o Options) error {
	use, known := uses[name]
	switch {
	case !known:
		return fmt.Errorf("%w: %q is not one of %s, with or without %s", ErrSpec, name, strings.Join(Names(), ", "), Gzip)
	case use.registry != (len(o.Registry.URLs) > 0):
		return needs(use.registry, name, "a schema registry (--registry)")
	case use.file != (o.SchemaFile != "" || len(o.Schemas) > 0):
		return needs(use.file, name, "a schema file (--value-schema)")
	case name == Protobuf && o.Message == "":
		return needs(true, name, "the name of a message (--message)")
	case !use.message && o.Message != "":
		return needs(false, name, "the name of a message (--message)")
	case o.Subject != "" && !use.registry:
		return needs(false, name, "a subject (--subject)")
	case o.Validate && name != JSONRegistry:
		return needs(false, name, "validation")
	case name == Pulsar && o.Pulsar == nil && o.Kind == "":
		return needs(true, name, "a topic of Pulsar, pulsar://HOST:PORT/TENANT/NAMESPACE/TOPIC")
	case name != CSV && !o.CSV.isZero():
		return needs(false, name, "settings of CSV")
	}
	return nil
}

func needs(yes bool, name, what string) error {
	if yes {
		return fmt.Errorf("%w: %s needs %s", ErrSpec, name, what)
	}
	return fmt.Errorf("%w: %s has no use for %s", ErrSpec, name, what)
}

func build(name string, o Options, reg *registry.Client) (decode.Format, error) {
	switch name {
	case JSON:
		return plainJSON{}, nil
	case JSONRegistry:
		return newRegisteredJSON(reg, o.Subject, o.Validate), nil
	case AvroConfluent:
		return avro.Confluent(reg, o.Subject), nil
	case AvroSOE:
		return avro.SingleObject(o.Schemas)
	case AvroRaw:
		return avro.Raw(o.Schemas[0])
	case AvroContainer:
		return avro.Container(), nil
	case ProtobufConfluent:
		return protobuf.Confluent(reg, o.Subject, o.Message), nil
	case Protobuf:
		return protobuf.Message([]byte(o.Schemas[0]), o.Message)
	case CSV:
		return newCSV(o.CSV)
	case Pulsar:
		return pulsarschema.New(o.Pulsar, o.Kind)
	case Raw:
		return opaque{}, nil
	}
	return nil, fmt.Errorf("%w: %s is not built in", ErrSpec, name)
}

// readAll reads a file, or all files of a folder by name.
func readAll(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read schemas: %w", err)
	}
	files := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("read schemas: %w", err)
		}
		files = nil
		for _, e := range entries {
			if !e.IsDir() {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
		slices.Sort(files)
	}
	var out []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		out = append(out, string(text))
	}
	return out, nil
}
