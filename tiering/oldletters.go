package tiering

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
)

// The dead letter table of kafka-delta-ingest has four columns: the bytes in base64 or the JSON text of what was bad,
// the error, and the time. It has no coordinates, so letters could be there twice. When such a table is taken over, our
// columns are added to it as ones that may be null: whoever reads the old ones goes on, the old program can still write
// to it, and its rows, which have no place in the log, are left alone.

// oldLetterColumns are the old columns. A record whose value is JSON fills json_string, any other base64_bytes.
func oldLetterColumns() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "base64_bytes", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "json_string", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "error", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "timestamp", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true},
	}, nil)
}

// oldLetters gives the old columns of dead letters.
func oldLetters(dead []deadLetter, at arrow.Timestamp) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, oldLetterColumns())
	defer b.Release()
	bytes, text := b.Field(0).(*array.StringBuilder), b.Field(1).(*array.StringBuilder)
	for i := range dead {
		d := &dead[i]
		switch {
		case d.value == nil:
			bytes.AppendNull()
			text.AppendNull()
		case json.Valid(d.value):
			bytes.AppendNull()
			text.Append(string(d.value))
		default:
			bytes.Append(base64.StdEncoding.EncodeToString(d.value))
			text.AppendNull()
		}
		reason := d.reason
		if d.field != "" {
			reason = d.field + ": " + reason
		}
		b.Field(2).(*array.StringBuilder).Append(reason)
		b.Field(3).(*array.TimestampBuilder).Append(at)
	}
	return b.NewRecordBatch()
}

// adoptDeadLetters adds to a table the columns of ours that it lacks, and gives it opened anew. It takes t over.
func adoptDeadLetters(ctx context.Context, store objstore.Store, t *table.Table, cfg LetterConfig) (*table.Table, error) {
	more := cfg.Transform
	for {
		snap, err := t.Refresh(ctx)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		for _, p := range snap.Metadata().PartitionColumns {
			if !fillsLetters(p, more) {
				return nil, errors.Join(fmt.Errorf("%s has the partition column %s, which dead letters do not fill: fill it by --dlq-transform, or name another table for them",
					store.URL(), p), t.Close())
			}
		}
		if missing := lacking(snap.Schema(), more); len(missing) > 0 {
			return nil, errors.Join(fmt.Errorf("%w: %s has no column %s, which --dlq-transform is to fill", transform.ErrSpec, store.URL(), strings.Join(missing, ", ")), t.Close())
		}
		if t.Names.Ordered() {
			return t, nil
		}
		err = addColumns(ctx, t, snap, append(table.SystemFields(table.DefaultNames()), deadLetterColumns().Fields()...))
		if err := errors.Join(err, t.Close()); err != nil {
			return nil, err
		}
		if t, err = table.Open(ctx, store, table.Config{Topic: cfg.Topic}); err != nil {
			return nil, err
		}
		if !t.Names.Ordered() {
			return nil, errors.Join(fmt.Errorf("%s has a column _partition or _offset that is no int or no long: name another table for dead letters", store.URL()), t.Close())
		}
	}
}

// addColumns adds those of the fields that a table does not have. Who is slower than another one finds them there.
func addColumns(ctx context.Context, t *table.Table, snap *deltalog.Snapshot, fields []arrow.Field) error {
	have, err := t.Schema(snap)
	if err != nil {
		return err
	}
	all := slices.Clone(have.Fields())
	for _, f := range fields {
		if !have.HasField(f.Name) {
			all = append(all, f)
		}
	}
	schema, err := deltalog.FromArrow(arrow.NewSchema(all, nil))
	if err != nil {
		return err
	}
	c, err := snap.Alter(deltalog.Change{Schema: schema})
	if err != nil {
		return err
	}
	_, err = t.Log.Commit(ctx, c)
	if errors.Is(err, deltalog.ErrMetadataChanged) {
		return nil
	}
	return err
}
