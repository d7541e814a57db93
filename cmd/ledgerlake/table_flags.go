package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// tableFlags say what rows look like and how they lie in files: serve and ingest share them.
type tableFlags struct {
	transforms  []string
	onError     string
	filter      string
	drop        []string
	partitionBy []string
	rescued     bool
	topicColumn bool
	codec       string
}

func (t *tableFlags) register(fs *pflag.FlagSet, c *tiering.Config) {
	fs.StringVar(&t.onError, "transform-errors", "", "records for which a transform gives no value: null, dead-letter or fail (default: what is missing is null, what is of the wrong type a dead letter)")
	fs.StringVar(&t.filter, "filter", "", "JMESPath condition over the record and its value; others become no row: kafka.headers.type == 'order'")
	fs.StringSliceVar(&t.drop, "drop-field", nil, "field of the values that fills no column; may be repeated")
	fs.StringSliceVar(&t.partitionBy, "partition-by", nil, "partition columns of a new table, as date,country")
	fs.BoolVar(&t.rescued, "rescued", false, "give a new table the column "+decode.RescuedColumn+", which takes the fields that have no column, as JSON")
	fs.BoolVar(&t.topicColumn, "topic-column", false, "give a new table the partition column "+table.TopicColumn+", so that other topics may fill it too, each read as a stream of its own")
	fs.BoolVar(&c.Evolve, "evolve", false, "add columns to the table for fields that it lacks, as records, or the Avro or Protobuf schemas that they come with, bring them")
	fs.BoolVar(&c.Widen, "widen", false, "give columns of the table wider types as JSON values need them, or as Avro and Protobuf schemas declare them (int to long, float to double, ...): readers must know Delta's type widening then")
	fs.StringVar(&t.codec, "codec", "", "compression of data files: snappy (default), zstd or uncompressed")
	fs.Int64Var(&c.RowGroupBytes, "row-group-bytes", 0, "bytes of rows in a row group of a data file (default 32 MiB)")
}

// finish turns them into the configuration.
func (t *tableFlags) finish(c *tiering.Config) error {
	spec, err := parseTransforms(t.transforms, transform.Policy(t.onError))
	if err != nil {
		return err
	}
	spec.Where, spec.Drop = t.filter, t.drop
	c.Transform, c.Codec = spec, table.Codec(t.codec)
	if t.onError != "" && len(spec.Set) == 0 {
		return errors.New("--transform-errors says what becomes of transforms, and there is no --transform")
	}
	return errors.Join(spec.Validate(), c.Codec.Validate())
}

// columns gives the payload columns of a new table.
func (t *tableFlags) columns(payload *arrow.Schema, spec transform.Spec) (*arrow.Schema, error) {
	payload, err := spec.Extend(payload)
	if err != nil || !t.rescued {
		return payload, err
	}
	if payload.HasField(decode.RescuedColumn) {
		return nil, fmt.Errorf("--rescued: the values have a field %s of their own", decode.RescuedColumn)
	}
	return arrow.NewSchema(append(payload.Fields(), arrow.Field{Name: decode.RescuedColumn, Type: arrow.BinaryTypes.String, Nullable: true}), nil), nil
}

// parseTransforms reads 'PROPERTY: SOURCE' texts. A column's type may be said behind its name, as in "day date: kafka.timestamp".
func parseTransforms(texts []string, onError transform.Policy) (spec transform.Spec, err error) {
	for _, text := range texts {
		f, err := transform.ParseField(text)
		if err != nil {
			return spec, err
		}
		if name, typ, ok := strings.Cut(f.Property, " "); ok {
			f.Property, f.Type = name, strings.TrimSpace(typ)
		}
		f.OnError = onError
		spec.Set = append(spec.Set, f)
	}
	return spec, nil
}
