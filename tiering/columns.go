package tiering

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// source says where a column of a data file comes from.
type source struct {
	system bool
	index  int
}

// planColumns finds, for each column of a data file and for each partition column, whether it is a system column or
// one of the payload.
func (s *session) planColumns() error {
	none := map[string]*string{}
	for _, c := range s.snap.PartitionNames() {
		none[c] = nil
	}
	probe, err := s.newFile(s.ctx, none) // creates nothing before its first row
	if err != nil {
		return fmt.Errorf("plan data files: %w", err)
	}
	s.schema = probe.Schema()
	_ = probe.Abort()
	full, err := s.t.cfg.Table.Schema(s.snap)
	if err != nil {
		return fmt.Errorf("plan columns: %w", err)
	}
	from := map[string]source{}
	for i, f := range table.SystemFields(s.t.cfg.Table.Names) {
		from[f.Name] = source{system: true, index: i}
		if at := s.schema.FieldIndices(f.Name); len(at) == 1 && !arrow.TypeEqual(s.schema.Field(at[0]).Type, f.Type) { // somebody has changed it since the table was opened
			return &deltalog.UnsupportedError{Write: true, Features: []string{fmt.Sprintf("column %s of type %s, which the log fills with %s", f.Name, s.schema.Field(at[0]).Type, f.Type)}}
		}
	}
	var payload []arrow.Field
	for _, f := range full.Fields() {
		if _, system := from[f.Name]; system || f.Type.ID() == arrow.NULL {
			continue
		}
		from[f.Name] = source{index: len(payload)}
		payload = append(payload, f)
	}
	for _, f := range s.schema.Fields() {
		s.columns = append(s.columns, from[f.Name])
	}
	s.payload = arrow.NewSchema(payload, nil)
	if s.keys, err = planKeys(s.snap, func(name string) (source, bool) { f, ok := from[name]; return f, ok }); err != nil {
		return err
	}
	dec, err := s.newDecoder()
	if err != nil {
		return err
	}
	return s.planRules(dec)
}

func (s *session) newFile(ctx context.Context, values map[string]*string) (*table.FileWriter, error) {
	return s.t.cfg.Table.NewFileWriter(ctx, table.WriterOptions{Snapshot: s.snap, PartitionValues: values,
		Codec: s.t.cfg.Codec, RowGroupBytes: s.t.cfg.RowGroupBytes, RowGroupRows: s.t.cfg.RowGroupRows,
		RowRules: s.snap.RowRules()}) // planRules refuses those that cannot be looked at
}

// newDecoder makes a decoder of the payload columns, with the transforms around it.
func (s *session) newDecoder() (decode.Decoder, error) {
	d, err := transform.Wrap(s.plainDecoder, s.payload, s.t.cfg.Transform, s.t.cfg.Topic)
	if err != nil {
		return nil, fmt.Errorf("make decoder: %w", err)
	}
	if n, ok := d.(newsDecoder); ok && s.t.cfg.Evolve {
		n.WatchUnknown()
	}
	return d, nil
}

func (s *session) plainDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	if s.t.cfg.NewDecoder != nil {
		return s.t.cfg.NewDecoder(payload)
	}
	if s.t.cfg.Format == FormatJSON {
		return decode.ForTable(payload)
	}
	if payload.NumFields() == 0 {
		return decode.NewRaw(), nil
	}
	d, err := decode.ForTable(payload)
	return nulls{d}, err
}

// nulls leaves the payload columns of a table empty: the values are opaque.
type nulls struct{ *decode.JSON }

func (n nulls) Append([]byte) error {
	n.AppendNull()
	return nil
}

// newRows gives columns for a partition, used ones when there are some.
func (s *session) newRows(partition int32) (*rows, error) {
	s.freeMu.Lock()
	defer s.freeMu.Unlock()
	if n := len(s.free); n > 0 {
		r := s.free[n-1]
		s.free = s.free[:n-1]
		s.freeSize -= r.peak
		r.partition = partition
		return r, nil
	}
	dec, err := s.newDecoder()
	if err != nil {
		return nil, err
	}
	r := &rows{partition: partition, dec: dec}
	r.whole, _ = dec.(decode.RecordDecoder)
	if s.t.cfg.Evolve {
		r.news, _ = dec.(newsDecoder)
	}
	if s.t.cfg.Evolve || s.t.cfg.Widen {
		r.declares.Declarer, _ = decode.AsDeclarer(dec)
	}
	r.sys = table.NewSystemColumns(s.t.cfg.Table.Names, s.t.cfg.Topic)
	return r, nil
}

// freeRows keeps columns for the next user, unless those that wait are large enough together.
func (s *session) freeRows(r *rows) {
	r.reset()
	s.freeMu.Lock()
	defer s.freeMu.Unlock()
	if s.freeSize+r.peak > s.t.cfg.MemoryBudget/8 {
		return
	}
	s.freeSize += r.peak
	s.free = append(s.free, r)
}

// column wraps one column. The array aliases it.
func (r *rows) column(from source) arrow.Array {
	if from.system {
		return r.sys.Array(from.index)
	}
	if one, ok := r.dec.(interface{ Array(i int) arrow.Array }); ok {
		return one.Array(from.index)
	}
	return r.dec.Arrays()[from.index]
}

// keyColumns wraps the partition columns of the rows from one on.
func (s *session) keyColumns(r *rows, from int) []arrow.Array {
	cols := make([]arrow.Array, len(s.keys))
	all := s.computed(r, from)
	for i, k := range s.keys {
		if all != nil {
			cols[i] = s.at(all, k.from)
		} else {
			cols[i] = array.NewSlice(r.column(k.from), int64(from), int64(r.sys.Rows()))
		}
	}
	return cols
}

// batch wraps columns as a batch of the file's. The arrays alias the columns. Release it.
func (s *session) batch(r *rows) arrow.RecordBatch {
	sys, payload := r.sys.Arrays(), r.dec.Arrays()
	cols := make([]arrow.Array, len(s.columns))
	all := s.computed(r, 0)
	for i, c := range s.columns {
		if all != nil {
			cols[i] = s.at(all, c)
		} else {
			cols[i] = pick(c, sys, payload)
		}
	}
	return array.NewRecordBatch(s.schema, cols, int64(r.sys.Rows()))
}

// write adds the rows of a group to a data file, which keeps nothing of them.
func (g *group) write(ctx context.Context, f *table.FileWriter, rb arrow.RecordBatch) error {
	part, err := g.gather(ctx, rb)
	if err != nil {
		return err
	}
	defer part.Release()
	if err := f.Write(part); err != nil {
		return fmt.Errorf("write data file: %w", err)
	}
	return nil
}
