package tiering

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// deadLetter is one record that could not be decoded, or one damaged batch.
type deadLetter struct {
	partition int32
	offset    record.Offset
	timestamp int64
	key       []byte
	value     []byte
	headers   []record.Header
	reason    string
	field     string
}

// newDeadLetter copies a record.
func newDeadLetter(partition int32, rec *record.Record, cause error) deadLetter {
	d := deadLetter{
		partition: partition, offset: rec.Offset, timestamp: rec.Timestamp,
		key: slices.Clone(rec.Key), value: slices.Clone(rec.Value), reason: cause.Error(),
	}
	for _, h := range rec.Headers {
		d.headers = append(d.headers, record.Header{Key: slices.Clone(h.Key), Value: slices.Clone(h.Value)})
	}
	var bad *decode.Error
	if errors.As(cause, &bad) {
		d.field = bad.Path
		d.reason = fmt.Sprintf("%s (byte %d)", bad.Reason, bad.Pos)
	}
	return d
}

// deadLetterColumns come after the system columns, which hold the record itself. Names are part of the format.
func deadLetterColumns() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "_topic", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "_reason", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "_field", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "_at", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true},
	}, nil)
}

// LetterConfig says what a dead letter table is for.
type LetterConfig struct {
	Topic string
	// Shared makes a new table one of several topics, which have files of their own in it. Those of other topics are not looked
	// at then.
	Shared    bool
	Transform transform.Spec // fills more columns
}

// OpenDeadLetters opens the dead letter table of a store, or makes it. Its rows are the records as they were,
// under the usual system columns, with topic, reason, field and time of the failure, and the columns that a transform fills. A
// table of somebody else's gets the columns of ours that it lacks, which may be null: its own columns and rows stay. One with
// partition columns that nothing fills is refused.
func OpenDeadLetters(ctx context.Context, store objstore.Store, cfg LetterConfig) (*table.Table, error) {
	columns, err := cfg.Transform.Extend(deadLetterColumns())
	var t *table.Table
	if err == nil {
		t, err = openLetters(ctx, store, columns, cfg)
	}
	if err == nil {
		t, err = adoptDeadLetters(ctx, store, t, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("open dead letters: %w", err)
	}
	return t, nil
}

func openLetters(ctx context.Context, store objstore.Store, columns *arrow.Schema, cfg LetterConfig) (*table.Table, error) {
	t, err := table.Open(ctx, store, table.Config{Topic: cfg.Topic})
	if !errors.Is(err, deltalog.ErrNotTable) {
		return t, err
	}
	names := table.DefaultNames()
	if cfg.Shared {
		names.Topic = table.TopicColumn
		columns = arrow.NewSchema(slices.DeleteFunc(slices.Clone(columns.Fields()), func(f arrow.Field) bool { return f.Name == names.Topic }), nil)
	}
	t, err = table.Create(ctx, store, columns, table.Config{Topic: cfg.Topic, Names: names})
	if errors.Is(err, deltalog.ErrTableExists) {
		return table.Open(ctx, store, table.Config{Topic: cfg.Topic})
	}
	return t, err
}

func (t *Tierer) writeDead(ctx context.Context, tab *table.Table, snap *deltalog.Snapshot, dead []deadLetter) ([]deltalog.Add, error) {
	w, err := newLetterFiles(tab, snap)
	if err != nil {
		return nil, fmt.Errorf("create dead letter file: %w", err)
	}
	rb, err := t.deadBatch(tab, w.schema, dead)
	if err != nil {
		return nil, err
	}
	defer rb.Release()
	if err := w.write(ctx, rb); err != nil {
		return nil, errors.Join(fmt.Errorf("write dead letters: %w", err), w.abort())
	}
	adds, err := w.close(ctx)
	if err != nil {
		return nil, fmt.Errorf("publish dead letters: %w", err)
	}
	return adds, nil
}

// deadBatch makes the rows, with the columns in the order of the table. A column of the table that is none of
// ours stays null.
func (t *Tierer) deadBatch(tab *table.Table, schema *arrow.Schema, dead []deadLetter) (arrow.RecordBatch, error) {
	sys := table.NewSystemColumns(tab.Names, t.cfg.Topic)
	payload := array.NewRecordBuilder(memory.DefaultAllocator, deadLetterColumns())
	defer payload.Release()
	at := arrow.Timestamp(t.cfg.Clock().UnixMicro())
	for i := range dead {
		d := &dead[i]
		rec := record.Record{Offset: d.offset, Timestamp: d.timestamp, Key: d.key, Value: d.value, Headers: d.headers}
		sys.Append(d.partition, &rec)
		payload.Field(0).(*array.StringBuilder).Append(t.cfg.Topic)
		payload.Field(1).(*array.StringBuilder).Append(d.reason)
		if d.field == "" {
			payload.Field(2).AppendNull()
		} else {
			payload.Field(2).(*array.StringBuilder).Append(d.field)
		}
		payload.Field(3).(*array.TimestampBuilder).Append(at)
	}
	byName := map[string]arrow.Array{}
	for i, a := range sys.Arrays() {
		byName[table.SystemFields(tab.Names)[i].Name] = a
	}
	extra := payload.NewRecordBatch()
	defer extra.Release()
	old := oldLetters(dead, at)
	defer old.Release()
	for _, rb := range []arrow.RecordBatch{old, extra} { // a table may have columns of both
		for i, f := range rb.Schema().Fields() {
			byName[f.Name] = rb.Column(i)
		}
	}
	filled, err := t.letterTransforms(schema, dead, at)
	if err != nil {
		return nil, err
	}
	maps.Copy(byName, filled)
	cols := make([]arrow.Array, schema.NumFields())
	for i, f := range schema.Fields() {
		a := byName[f.Name]
		if a == nil {
			a = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, len(dead))
			defer a.Release()
		}
		if !arrow.TypeEqual(a.DataType(), f.Type) && a.DataType().ID() != f.Type.ID() {
			return nil, fmt.Errorf("the dead letter table has column %s of type %s, want %s", f.Name, f.Type, a.DataType())
		}
		cols[i] = a
	}
	return array.NewRecordBatch(schema, cols, int64(len(dead))), nil
}
