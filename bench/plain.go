package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// plainTier is the pipeline that a first version of anybody's would be: encoding/json into maps, arrow-go
// builders, the default Parquet writer with snappy, one file. It keeps the same columns and takes the same
// log as ours. It is the baseline of scenario tiering.
func plainTier(ctx context.Context, src broker.Source, topic string, schema *arrow.Schema, file string) (int64, error) {
	parts, err := src.Partitions(ctx, topic)
	if err != nil {
		return 0, err
	}
	out, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	w, err := pqarrow.NewFileWriter(schema, out, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy)), pqarrow.DefaultWriterProps())
	if err != nil {
		return 0, errors.Join(err, out.Close())
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	rows, pending := int64(0), 0
	flush := func() error {
		rb := b.NewRecordBatch()
		defer rb.Release()
		pending = 0
		return w.WriteBuffered(rb)
	}
	for _, p := range parts {
		tp := record.TopicPartition{Topic: topic, Partition: p}
		bounds, err := src.Bounds(ctx, tp)
		if err != nil {
			return rows, err
		}
		for at := bounds.Start; at < bounds.End; {
			got, err := src.Fetch(ctx, []broker.FetchRange{{TP: tp, From: at, MaxBytes: 4 << 20}}, broker.FetchOptions{})
			if err != nil {
				return rows, err
			}
			if got[0].Err != nil {
				return rows, got[0].Err
			}
			var it record.Iterator
			for rest := got[0].Batches; len(rest) > 0; {
				batch, err := record.ReadBatch(rest)
				if err != nil {
					return rows, err
				}
				rest = rest[batch.Size():]
				if err := it.Reset(batch); err != nil {
					return rows, err
				}
				for it.Next() {
					if err := plainRow(b, p, it.Record()); err != nil {
						return rows, err
					}
					rows++
					if pending++; pending == 8192 {
						if err := flush(); err != nil {
							return rows, err
						}
					}
				}
				if err := it.Err(); err != nil {
					return rows, err
				}
				at = batch.LastOffset() + 1
			}
		}
	}
	if err := flush(); err != nil {
		return rows, err
	}
	return rows, w.Close()
}

// plainRow appends one record: the six system columns by hand, the rest from a map.
func plainRow(b *array.RecordBuilder, partition int32, r *record.Record) error {
	var m map[string]any
	if err := json.Unmarshal(r.Value, &m); err != nil {
		return err
	}
	for i, f := range b.Schema().Fields() {
		var err error
		switch fb := b.Field(i); f.Name {
		case "_partition":
			fb.(*array.Int32Builder).Append(partition)
		case "_offset":
			fb.(*array.Int64Builder).Append(int64(r.Offset))
		case "_timestamp":
			fb.(*array.TimestampBuilder).Append(arrow.Timestamp(r.Timestamp * 1000))
		case "_key":
			fb.(*array.BinaryBuilder).Append(r.Key)
		case "_value":
			fb.(*array.BinaryBuilder).Append(r.Value)
		case "_headers":
			fb.(*array.ListBuilder).Append(true)
		default:
			err = plainValue(fb, m[f.Name])
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return nil
}

func plainValue(b array.Builder, v any) error {
	if v == nil {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.Int64Builder:
		b.Append(int64(v.(float64)))
	case *array.Int32Builder:
		b.Append(int32(v.(float64)))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.TimestampBuilder:
		ts, err := arrow.TimestampFromString(v.(string), arrow.Microsecond)
		if err != nil {
			return err
		}
		b.Append(ts)
	case *array.StructBuilder:
		b.Append(true)
		m := v.(map[string]any)
		for i, f := range b.Type().(*arrow.StructType).Fields() {
			if err := plainValue(b.FieldBuilder(i), m[f.Name]); err != nil {
				return err
			}
		}
	case *array.ListBuilder:
		b.Append(true)
		for _, e := range v.([]any) {
			if err := plainValue(b.ValueBuilder(), e); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("plain pipeline has no case for %T", b)
	}
	return nil
}
