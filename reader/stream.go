package reader

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// stream is one consumer's walk through a partition of a table. It belongs to one Fetch at a time.
type stream struct {
	tp     record.TopicPartition
	table  *table.Table
	next   record.Offset // what a consumer that reads on asks for
	cost   int64         // memory, about
	leases bool
	cursor *Cursor
	rows   recordRows
	row    int // next one of rows
	left   int // rows from there on
	ended  bool

	used time.Time // when it was given back
}

const (
	// historyBatchBytes is the size of one batch made from rows, before compression.
	historyBatchBytes = 1 << 20
	// historyRows is how many rows are read at a time: a few mebibytes of records of ordinary size.
	historyRows = 2048
	// scanCostBase stands for the decoded batches that wait in a scan, and for the pieces of columns in work.
	scanCostBase = 16 << 20
)

// scanCost estimates the memory of a scan: its batches and, of stores whose columns are read whole, those of the file in
// work and of the one after it, one row group each.
func scanCost(t *table.Table, snap *deltalog.Snapshot) int64 {
	if t.ReadsInPieces() {
		return scanCostBase
	}
	mean := snap.SizeBytes() / int64(max(1, snap.NumFiles()))
	return scanCostBase + 2*min(max(mean, 0), 64<<20)
}

// open begins the scan.
func (s *stream) open(ctx context.Context, snap *deltalog.Snapshot) error {
	n := s.table.Names
	lease := time.Duration(-1)
	if s.leases {
		lease = 0
	}
	c, err := open(ctx, Config{
		Table: s.table, App: s.tp.Topic, Partitions: []int32{s.tp.Partition},
		From:    AtOffsets(map[int32]record.Offset{s.tp.Partition: s.next}),
		Columns: fieldNames(arrow.NewSchema(table.SystemFields(n), nil)), BatchRows: historyRows, ReadAhead: 1,
		LeaseTime: lease,
	}, snap)
	if err != nil {
		return err
	}
	s.cursor = c
	return nil
}

func (s *stream) close() {
	if s.cursor != nil {
		_ = s.cursor.Close() // has nothing to report
	}
}

// fill gives whole batches, at least one unless the end is reached, and moves the stream behind them. The stream
// is of no use after an error.
func (s *stream) fill(ctx context.Context, b *record.Builder, maxBytes int) (out []byte, err error) {
	size := min(max(maxBytes, 1), historyBatchBytes)
	last := 0 // size of the last batch
	for !s.ended && (len(out) == 0 || len(out)+last <= maxBytes) {
		if err := s.batch(ctx, b, size); err != nil {
			return nil, err
		}
		if b.Len() == 0 {
			break
		}
		if out == nil {
			out = make([]byte, 0, min(max(maxBytes, b.Bytes()), 4*b.Bytes())+4096)
		}
		before := len(out)
		if out, err = b.BuildTo(out, -1); err != nil {
			return nil, err
		}
		last = len(out) - before
	}
	if s.ended && len(out) == 0 { // what is left below the seam has no row
		s.next = max(s.next, s.cursor.Position()[s.tp.Partition])
	}
	return out, nil
}

// batch puts rows into b until they have a size, or the end is reached.
func (s *stream) batch(ctx context.Context, b *record.Builder, size int) error {
	var first record.Offset
	for b.Len() == 0 || b.Bytes() < size {
		if s.left == 0 {
			rb, err := s.cursor.Next(ctx)
			if errors.Is(err, io.EOF) {
				s.ended = true
				return nil
			}
			if err != nil {
				return err
			}
			if err := s.rows.bind(rb, s.table.Names); err != nil {
				return err
			}
			s.row, s.left = 0, int(rb.NumRows())
		}
		r := s.rows.at(s.row)
		if b.Len() == 0 {
			first = r.Offset
		} else if r.Offset-first > math.MaxInt32 {
			return nil // a hole that one batch cannot span
		}
		b.AppendAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers)
		s.next = r.Offset + 1
		s.row++
		s.left--
	}
	return nil
}
