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

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// letterFiles writes dead letters to new files, one for each combination of values of partition columns.
type letterFiles struct {
	tab    *table.Table
	snap   *deltalog.Snapshot
	schema *arrow.Schema // of what is written: all columns
	keys   keyColumns
	files  map[string]*table.FileWriter // by group
	order  []*table.FileWriter
}

func newLetterFiles(tab *table.Table, snap *deltalog.Snapshot) (*letterFiles, error) {
	full, err := tab.Schema(snap)
	if err != nil {
		return nil, err
	}
	var fields []arrow.Field
	for _, f := range full.Fields() {
		if f.Type.ID() != arrow.NULL { // no file has it
			fields = append(fields, f)
		}
	}
	w := &letterFiles{tab: tab, snap: snap, schema: arrow.NewSchema(fields, nil), files: map[string]*table.FileWriter{}}
	w.keys, err = planKeys(snap, func(name string) (source, bool) {
		i := w.schema.FieldIndices(name)
		return source{index: append(i, -1)[0]}, len(i) == 1
	})
	return w, err
}

// write adds rows, whose columns are those of the schema, by their names.
func (w *letterFiles) write(ctx context.Context, rb arrow.RecordBatch) error {
	column := func(name string) arrow.Array { return rb.Column(rb.Schema().FieldIndices(name)[0]) }
	keys := make([]arrow.Array, len(w.keys))
	for i, k := range w.keys {
		keys[i] = column(k.name)
	}
	groups, err := w.keys.split(keys, int(rb.NumRows()), func(row int) string { return fmt.Sprintf("letter %d", row) })
	if err != nil {
		return err
	}
	for i := range groups {
		g := &groups[i]
		f := w.files[g.key]
		if f == nil {
			if f, err = w.tab.NewFileWriter(ctx, table.WriterOptions{Snapshot: w.snap, PartitionValues: g.values}); err != nil {
				return err
			}
			w.files[g.key] = f
			w.order = append(w.order, f)
		}
		cols := make([]arrow.Array, f.Schema().NumFields())
		for c, field := range f.Schema().Fields() {
			cols[c] = column(field.Name)
		}
		part := array.NewRecordBatch(f.Schema(), cols, rb.NumRows())
		err := g.write(ctx, f, part)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// close publishes the files.
func (w *letterFiles) close(ctx context.Context) (adds []deltalog.Add, err error) {
	for i, f := range w.order {
		add, err := f.Close(ctx)
		if errors.Is(err, table.ErrNoRows) {
			continue
		}
		if err != nil {
			w.order = w.order[i+1:]
			return nil, errors.Join(err, w.abort())
		}
		adds = append(adds, add)
	}
	return adds, nil
}

func (w *letterFiles) abort() (err error) {
	for _, f := range w.order {
		err = errors.Join(err, f.Abort())
	}
	return err
}

// fillsLetters says whether a column of a dead letter table has values.
func fillsLetters(name string, more transform.Spec) bool {
	has := func(s *arrow.Schema) bool { return s.HasField(name) }
	return has(deadLetterColumns()) || has(oldLetterColumns()) || slices.ContainsFunc(more.Set, func(f transform.Field) bool { return f.Property == name })
}

// lacking gives the columns that transforms are to fill and a table does not have.
func lacking(have *deltalog.StructType, more transform.Spec) (names []string) {
	for _, f := range more.Set {
		name, _, _ := strings.Cut(f.Property, ".")
		if _, ok := have.Field(name); !ok {
			names = append(names, name)
		}
	}
	return names
}

// letterTransforms gives the columns that transforms fill. An expression that gives nothing leaves null, so that a letter is
// never lost for one (I7).
func (t *Tierer) letterTransforms(schema *arrow.Schema, dead []deadLetter, at arrow.Timestamp) (map[string]arrow.Array, error) {
	spec := t.cfg.LetterTransform
	if spec.Empty() {
		return nil, nil
	}
	spec.Set = slices.Clone(spec.Set)
	var fields []arrow.Field
	for i := range spec.Set {
		spec.Set[i].OnError = transform.Null
		name, _, _ := strings.Cut(spec.Set[i].Property, ".")
		if f, ok := schema.FieldsByName(name); ok && !slices.ContainsFunc(fields, func(f arrow.Field) bool { return f.Name == name }) {
			fields = append(fields, f[0])
		}
	}
	columns, err := decode.NewJSON(arrow.NewSchema(fields, nil), decode.JSONOptions{Coerce: true})
	if err != nil {
		return nil, fmt.Errorf("columns of dead letters: %w", err)
	}
	d, err := transform.New(columns, spec, t.cfg.Topic, false)
	if err != nil {
		return nil, fmt.Errorf("transforms of dead letters: %w", err)
	}
	for i := range dead {
		l := &dead[i]
		value, err := l.object(t.cfg.Topic, at)
		if err != nil {
			return nil, err
		}
		d.Begin(l.partition, record.BatchHeader{})
		rec := record.Record{Offset: l.offset, Timestamp: l.timestamp, Key: l.key, Value: value, Headers: l.headers}
		if err := d.AppendRecord(&rec); err != nil {
			d.AppendNull()
		}
	}
	out := map[string]arrow.Array{}
	for i, a := range d.Arrays() {
		out[fields[i].Name] = a
	}
	return out, nil
}

// object is the letter as expressions see it.
func (d *deadLetter) object(topic string, at arrow.Timestamp) ([]byte, error) {
	out := map[string]any{"error": d.reason, "timestamp": int64(at), "topic": topic, "reason": d.reason}
	if d.field != "" {
		out["field"], out["error"] = d.field, d.field+": "+d.reason
	}
	switch {
	case d.value == nil:
	case json.Valid(d.value):
		out["json_string"] = string(d.value)
	default:
		out["base64_bytes"] = base64.StdEncoding.EncodeToString(d.value)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("letter of offset %d: %w", d.offset, err)
	}
	return raw, nil
}
