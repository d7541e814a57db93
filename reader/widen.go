package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// TopicColumn says whose a row is, where several streams are read as one.
const TopicColumn = "_topic"

// widened is a stream with the snapshot and the columns that it is to be opened with.
type widened struct {
	name string
	cfg  Config
	snap *deltalog.Snapshot
	full *arrow.Schema
	to   widening
}

func (c TopicsConfig) validate() error {
	errs := []error{c.Rate.validate()}
	if len(c.Streams) == 0 {
		errs = append(errs, errors.New("reader config: there is no stream"))
	}
	if c.MaxRows < 0 {
		errs = append(errs, fmt.Errorf("reader config: MaxRows %d is negative", c.MaxRows))
	}
	return errors.Join(errs...)
}

// widen takes a snapshot of each stream and puts their columns together.
func (c TopicsConfig) widen(ctx context.Context) ([]*widened, *arrow.Schema, error) {
	places, err := AtTokens(c.Token)
	if err != nil {
		return nil, nil, err
	}
	var out []*widened
	for _, s := range c.Streams {
		w := &widened{name: s.Name, cfg: s.Config}
		if w.name == "" {
			w.name = s.Topic
		}
		if slices.ContainsFunc(out, func(o *widened) bool { return o.name == w.name }) {
			return nil, nil, fmt.Errorf("%w: two of the streams have the name %q", ErrBadRequest, w.name)
		}
		if c.Token != "" {
			at, ok := places[w.name]
			if !ok {
				return nil, nil, fmt.Errorf("%w: it says nothing of %q", ErrBadToken, w.name)
			}
			w.cfg.From = at
		}
		w.cfg.MaxRows, w.cfg.Rate = 0, Rate{} // of all streams together
		if c.Rate.set() {
			w.cfg.BatchRows = c.Rate.batchRows(w.cfg.BatchRows)
		}
		if err := w.look(ctx); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", w.name, err)
		}
		out = append(out, w)
	}
	if c.Token != "" && len(places) != len(out) {
		return nil, nil, fmt.Errorf("%w: it is of %d streams, %d are read", ErrBadToken, len(places), len(out))
	}
	schema, err := c.union(out)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range out {
		w.bind(schema)
	}
	return out, schema, nil
}

// look takes the stream's snapshot and its columns.
func (w *widened) look(ctx context.Context) error {
	c := Cursor{cfg: w.cfg}
	c.cfg.Columns, c.cfg.Where = nil, ""
	if err := c.takeSnapshot(ctx); err != nil {
		return err
	}
	err := c.makeSchemas()
	w.snap, w.full = c.snap, c.full
	return err
}

// union puts the columns together by name.
func (c TopicsConfig) union(streams []*widened) (*arrow.Schema, error) {
	fields := []arrow.Field{{Name: TopicColumn, Type: arrow.BinaryTypes.String}}
	of := []string{""} // whose each field is
	for _, w := range streams {
		for _, f := range w.full.Fields() {
			if c.Columns != nil && !slices.Contains(c.Columns, f.Name) {
				continue
			}
			i := slices.IndexFunc(fields, func(g arrow.Field) bool { return g.Name == f.Name })
			switch {
			case i < 0:
				fields = append(fields, arrow.Field{Name: f.Name, Type: f.Type, Nullable: true})
				of = append(of, w.name)
			case i == 0:
				return nil, fmt.Errorf("%w: %s has a column %s of its own: name the columns to read", ErrBadRequest, w.name, TopicColumn)
			case !arrow.TypeEqual(fields[i].Type, f.Type):
				return nil, fmt.Errorf("%w: column %q is %s in %s and %s in %s: leave it out by naming the columns to read", ErrBadRequest,
					f.Name, fields[i].Type, of[i], f.Type, w.name)
			}
		}
	}
	schema := arrow.NewSchema(fields, nil)
	if c.Columns == nil {
		return schema, nil
	}
	return Project(schema, c.Columns)
}

// bind chooses the columns that the stream reads for a schema of all. The places of its rows are always among them.
func (w *widened) bind(schema *arrow.Schema) {
	w.to = widening{schema: schema, name: w.name}
	var read []string
	index := func(name string) int {
		if i := slices.Index(read, name); i >= 0 {
			return i
		}
		read = append(read, name)
		return len(read) - 1
	}
	for _, f := range schema.Fields() {
		switch {
		case f.Name == TopicColumn:
			w.to.from = append(w.to.from, fromName)
		case len(w.full.FieldIndices(f.Name)) == 1:
			w.to.from = append(w.to.from, index(f.Name))
		default:
			w.to.from = append(w.to.from, fromNowhere)
		}
	}
	if names := w.cfg.names(); names.Ordered() {
		index(names.Partition)
		index(names.Offset)
	} else if len(read) == 0 {
		read = []string{w.full.Field(0).Name} // how many rows there are
	}
	w.cfg.Columns = read
}

// widening makes batches with the columns of all streams from those of one.
type widening struct {
	schema *arrow.Schema
	name   string
	from   []int // column of the stream for each of schema, or one of those below
	names  arrow.Array
}

const (
	fromName    = -1 // the stream's name
	fromNowhere = -2 // nulls
)

// batch gives a batch of its own; that of the stream stays the caller's.
func (w *widening) batch(rb arrow.RecordBatch) (arrow.RecordBatch, error) {
	n := rb.NumRows()
	cols := make([]arrow.Array, len(w.from))
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, from := range w.from {
		switch from {
		case fromName:
			cols[i] = w.repeated(int(n))
		case fromNowhere:
			cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, w.schema.Field(i).Type, int(n))
		default:
			cols[i] = rb.Column(from)
			cols[i].Retain()
			if !arrow.TypeEqual(cols[i].DataType(), w.schema.Field(i).Type) {
				return nil, fmt.Errorf("column %s has type %s, want %s", w.schema.Field(i).Name, cols[i].DataType(), w.schema.Field(i).Type)
			}
		}
	}
	return array.NewRecordBatch(w.schema, cols, n), nil
}

// repeated is the name, n times.
func (w *widening) repeated(n int) arrow.Array {
	if w.names == nil || w.names.Len() < n {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		for range n {
			b.Append(w.name)
		}
		w.names = b.NewStringArray() // left to the garbage collector: it is of Go's memory
	}
	return array.NewSlice(w.names, 0, int64(n))
}
