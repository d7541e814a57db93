package tiering

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// source says where a column of a data file comes from.
type source struct {
	system bool
	index  int
}

// planColumns finds, for each column of a data file, whether it is a system column or one of the payload.
func (s *session) planColumns() error {
	if p := s.snap.Metadata().PartitionColumns; len(p) > 0 {
		return &deltalog.UnsupportedError{Write: true, Features: []string{fmt.Sprintf("partition columns %v in a table that holds a log", p)}}
	}
	probe, err := s.newFile(s.ctx) // creates nothing before its first row
	if err != nil {
		return fmt.Errorf("plan data files: %w", err)
	}
	s.schema = probe.Schema()
	_ = probe.Abort()
	system := map[string]int{}
	for i, f := range table.SystemFields(s.t.cfg.Table.Names) {
		system[f.Name] = i
	}
	var payload []arrow.Field
	for _, f := range s.schema.Fields() {
		if i, ok := system[f.Name]; ok {
			s.columns = append(s.columns, source{system: true, index: i})
			continue
		}
		s.columns = append(s.columns, source{index: len(payload)})
		payload = append(payload, f)
	}
	s.payload = arrow.NewSchema(payload, nil)
	_, err = s.newDecoder()
	return err
}

func (s *session) newFile(ctx context.Context) (*table.FileWriter, error) {
	return s.t.cfg.Table.NewFileWriter(ctx, table.WriterOptions{Snapshot: s.snap})
}

func (s *session) newDecoder() (decode.Decoder, error) {
	if s.t.cfg.NewDecoder != nil {
		d, err := s.t.cfg.NewDecoder(s.payload)
		if err != nil {
			return nil, fmt.Errorf("make decoder: %w", err)
		}
		return d, nil
	}
	if s.payload.NumFields() == 0 {
		if s.t.cfg.Format == FormatRaw {
			return decode.NewRaw(), nil
		}
	}
	d, err := decode.ForTable(s.payload)
	if err != nil {
		return nil, fmt.Errorf("make decoder: %w", err)
	}
	if s.t.cfg.Format == FormatRaw {
		return nulls{d}, nil
	}
	return d, nil
}

// nulls leaves the payload columns of a table empty: the values are opaque.
type nulls struct{ decode.Decoder }

func (n nulls) Append([]byte) error {
	n.AppendNull()
	return nil
}

func (n nulls) Bytes() int64 { return decoderSize(n.Decoder) }

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
	return &rows{partition: partition, sys: table.NewSystemColumns(s.t.cfg.Table.Names), dec: dec}, nil
}

// freeRows keeps columns for the next user, unless those that wait are large enough together.
func (s *session) freeRows(r *rows) {
	r.reset()
	s.freeMu.Lock()
	defer s.freeMu.Unlock()
	if s.freeSize+r.peak > s.t.cfg.MemoryBudget/4 {
		return
	}
	s.freeSize += r.peak
	s.free = append(s.free, r)
}

// write adds columns to a data file. The arrays alias the columns, and the writer keeps nothing of them.
func (s *session) write(f *table.FileWriter, r *rows) error {
	sys, payload := r.sys.Arrays(), r.dec.Arrays()
	cols := make([]arrow.Array, len(s.columns))
	for i, c := range s.columns {
		if c.system {
			cols[i] = sys[c.index]
		} else {
			cols[i] = payload[c.index]
		}
	}
	rb := array.NewRecordBatch(s.schema, cols, int64(r.sys.Rows()))
	defer rb.Release()
	if err := f.Write(rb); err != nil {
		return fmt.Errorf("write data file: %w", err)
	}
	return nil
}
