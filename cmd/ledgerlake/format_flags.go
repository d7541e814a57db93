package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/pulsarschema"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// formatFlags say what values are, beyond the name of the format.
type formatFlags struct {
	registry  []string
	subject   string
	schema    string
	message   string
	validate  bool
	csvFields []string
	csvComma  string
	csvNull   string

	topic pulsarschema.Registry // schemas of the topic, when it is one of Pulsar
}

// formatHelp is what --format says.
const formatHelp = "values: auto (what the table records; for a new one the first records tell json or raw), or one of json, json-registry, avro-confluent, avro-soe, avro-raw, " +
	"avro-container, protobuf-confluent, protobuf, csv, pulsar (as the topic's schemas in Pulsar say), raw; +gzip behind it when values are compressed (docs/formats.md)"

func (f *formatFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.registry, "registry", nil, "address of the schema registry; SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD log in")
	fs.StringVar(&f.subject, "subject", "", "subject of the registry whose newest schema gives a new table its columns (default: the newest schema of the first records)")
	fs.StringVar(&f.schema, "value-schema", "", "file with the Avro schema of values, a folder of such files (avro-soe), or a Protobuf descriptor set")
	fs.StringVar(&f.message, "message", "", "full name of the Protobuf message")
	fs.BoolVar(&f.validate, "validate", false, "json-registry: a value that its schema does not allow is a dead letter")
	fs.StringSliceVar(&f.csvFields, "csv-fields", nil, "csv: names of the fields, in order (default: the columns of the table)")
	fs.StringVar(&f.csvComma, "csv-comma", "", `csv: what stands between fields (default ",")`)
	fs.StringVar(&f.csvNull, "csv-null", "", "csv: what stands for null when it is not in quotes (default: nothing)")
}

// set says whether a flag is set.
func (f *formatFlags) set() bool { return len(f.registry) > 0 || f.more() }

// more says whether one is set beyond the registry, which may be another one than the table records.
func (f *formatFlags) more() bool {
	return f.schema != "" || f.subject != "" || f.message != "" || f.validate || len(f.csvFields) > 0 || f.csvComma != "" || f.csvNull != ""
}

// recorded opens the format that a table records for an application; nil for json and raw.
func (f *formatFlags) recorded(properties map[string]string, app string) (*format.Format, error) {
	if f.more() {
		return nil, errors.New("the flags about values need --format, that says how they are encoded")
	}
	made, err := format.Of(properties, app, format.Access{Registry: f.access(), Pulsar: f.topic})
	if err == nil && made == nil && f.set() {
		err = errors.New("the table does not record how its values are encoded: say --format beside --registry")
	}
	return made, err
}

// access is the registry that the flags name, with the log-in of the environment.
func (f *formatFlags) access() registry.Config {
	if len(f.registry) == 0 {
		return registry.Config{}
	}
	return registry.Config{URLs: f.registry, User: os.Getenv("SCHEMA_REGISTRY_USERNAME"), Password: os.Getenv("SCHEMA_REGISTRY_PASSWORD")}
}

// open makes the format of a name; nil for auto, which a table tells, and for json and raw, which need nothing of this.
func (f *formatFlags) open(name string) (*format.Format, error) {
	if name == "" || name == "auto" {
		return nil, nil
	}
	o := format.Options{Registry: f.access(), Subject: f.subject, SchemaFile: f.schema, Message: f.message, Validate: f.validate,
		CSV: format.CSVOptions{Fields: f.csvFields, Null: f.csvNull}, Pulsar: f.topic}
	if f.csvComma != "" {
		r, n := utf8.DecodeRuneInString(f.csvComma)
		if n != len(f.csvComma) {
			return nil, fmt.Errorf("--csv-comma %q is not one character", f.csvComma)
		}
		o.CSV.Comma = r
	}
	made, err := format.Parse(name, o)
	if err != nil || name == format.JSON || name == format.Raw {
		return nil, err
	}
	return made, nil
}

// oldFormat gives the format that kafka-delta-ingest's flags ask for, and the address or file that it needs.
func (o *oldIngestFlags) oldFormat(fs *pflag.FlagSet, f *formatFlags) (string, error) {
	var names []string
	http := func(s string) bool { return strings.HasPrefix(s, "http") }
	if fs.Changed("json") && http(o.json) {
		names, f.registry = append(names, format.JSONRegistry), []string{o.json}
	} else if fs.Changed("json") {
		names = append(names, format.JSON)
	}
	if fs.Changed("avro") && http(o.avro) {
		names, f.registry = append(names, format.AvroConfluent), []string{o.avro}
	} else if fs.Changed("avro") {
		names = append(names, format.AvroContainer) // a schema file would only name the columns, which the table does
	}
	if fs.Changed("soe-avro") {
		names, f.schema = append(names, format.AvroSOE), o.soeAvro
	}
	if o.gzip && len(names) == 0 {
		names = []string{format.JSON}
	}
	switch {
	case len(names) == 0:
		return "", nil
	case len(names) > 1:
		return "", fmt.Errorf("--json, --avro and --soe-avro do not go together: they say %s", strings.Join(names, " and "))
	case o.gzip:
		return names[0] + format.Gzip, nil
	}
	return names[0], nil
}
