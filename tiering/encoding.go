package tiering

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/table"
)

// encodeAt is the size from which the columns of a partition are encoded: what is decoded should not leave the
// processor's cache before, and encoded rows take less memory.
const encodeAt = 1 << 20

// ownFile is the size of columns from which a partition gets a file of its own. Smaller ones share a file, so
// that a commit of many quiet partitions is one file.
const ownFile = 16 << 20

// maxOpen bounds the files that a worker encodes at a time: each has buffers of its own. Beyond it a commit is made
// early. Tables with partition columns have more files, which get more rows at a time.
const (
	maxOpen      = 32
	maxOpenKeyed = 128
	encodeAtKeys = 4 << 20
)

// piece is what there is of a partition that has no file of its own: columns, or rows that are encoded already.
type piece struct {
	partition int32
	rows      *rows
	file      *dataFile
}

// dataFile is a file of one group of rows, not closed yet.
type dataFile struct {
	*table.FileWriter
	group   group // key and values
	encoded int64 // bytes of columns that are in it
}

// press asks for a cut because memory cannot be freed otherwise.
func (w *worker) press() {
	if !w.pressed {
		w.pressed = true
		w.s.pressed.Add(1)
		w.s.nudge()
	}
}

// account brings the counters up to date after a batch and keeps the columns below their share of the memory.
func (w *worker) account(ctx context.Context, cur *cursor, added int64) error {
	size := cur.rows.size()
	w.buffered += size - cur.rows.bytes
	cur.rows.bytes, cur.rows.peak = size, max(cur.rows.peak, size)
	if size >= w.s.encodeAt {
		if err := w.spillFull(ctx, cur.sink); err != nil {
			return err
		}
	}
	for most := w.s.columnsAt(); w.buffered > most; {
		largest := cur.sink
		for _, c := range w.sinks {
			if c.rows != nil && c.rows.bytes > largest.rows.bytes {
				largest = c
			}
		}
		done, err := w.spill(ctx, largest, w.buffered > 2*most) // more files than should be are less than the rows
		if err != nil {
			return err
		}
		if !done {
			w.press()
			break
		}
	}
	const ratio = 4 // columns to Parquet, about
	estimate := w.inFiles + w.buffered/ratio
	w.s.estimate.Add(estimate - w.estimate)
	w.s.rows.Add(added)
	w.estimate = estimate
	if w.s.over() {
		w.s.nudge()
	}
	return nil
}

// spillFull encodes columns that are large enough.
func (w *worker) spillFull(ctx context.Context, c *sink) error {
	if len(w.s.keys) == 0 && w.s.hasSpare() {
		return w.spillBeside(ctx, c)
	}
	_, err := w.spill(ctx, c, false)
	return err
}

// spill encodes the columns of a partition. It does not, and says so, when that would open too many files, unless it
// must.
func (w *worker) spill(ctx context.Context, c *sink, must bool) (bool, error) {
	if err := w.settle(); err != nil {
		return false, err
	}
	if c.rows == nil || c.rows.sys.Rows() == 0 {
		if c.rows != nil {
			w.buffered -= c.rows.bytes
			c.rows.bytes = 0
		}
		return true, nil
	}
	if c.wide && !must {
		return false, nil
	}
	groups, err := w.s.split(c.rows)
	if err != nil {
		return false, err
	}
	fresh := 0
	for i := range groups {
		if c.files[groups[i].key] == nil {
			fresh++
		}
	}
	if fresh > 0 && w.open+fresh > w.s.maxOpen && !must {
		c.wide = true
		return false, nil
	}
	start := time.Now()
	rb := w.s.batch(c.rows)
	defer rb.Release()
	for i := range groups {
		more, err := w.s.encode(ctx, c, &groups[i], c.rows, rb)
		w.grow(more)
		if err != nil {
			return false, err
		}
	}
	w.buffered -= c.rows.bytes
	c.rows.reset()
	err = w.store()
	w.out.steps.encode.add(start)
	return true, err
}

// growth is what encoding has added to the files of a worker.
type growth struct {
	open          int
	inFiles, held int64
}

// encode adds the rows of a group, which rb wraps, to the sink's file of it. It touches nothing else of the worker.
func (s *session) encode(ctx context.Context, c *sink, g *group, r *rows, rb arrow.RecordBatch) (more growth, err error) {
	f := c.files[g.key]
	if f == nil {
		fw, err := s.newFile(ctx, g.values)
		if err != nil {
			return more, fmt.Errorf("create data file: %w", err)
		}
		f = &dataFile{FileWriter: fw, group: group{key: g.key, values: g.values}}
		c.files[g.key] = f
		more.open++
	}
	before, held := f.Bytes(), f.Held()
	if err := g.write(ctx, f.FileWriter, rb); err != nil {
		return more, err
	}
	more.inFiles, more.held = f.Bytes()-before, f.Held()-held
	if g.rows == nil {
		f.encoded += r.bytes
	} else {
		f.encoded += r.bytes / int64(r.sys.Rows()) * int64(len(g.rows))
	}
	return more, nil
}

func (w *worker) grow(more growth) {
	w.open += more.open
	w.inFiles += more.inFiles
	w.held += more.held
}

// store sends encoded rows to the store when there are too many in memory, those of the largest files first. With
// partition columns the files may be many, and an object that is being written may take more memory than what it holds
// (parts of an upload): then a commit is made early instead.
func (w *worker) store() error {
	const few = 4
	if w.held > w.s.holdAt && len(w.s.keys) > 0 && w.open > few {
		w.press()
		if w.held <= 2*w.s.holdAt {
			return nil
		}
	}
	for w.held > w.s.holdAt {
		var largest *dataFile
		for _, c := range w.sinks {
			for _, f := range c.files {
				if largest == nil || f.Held() > largest.Held() {
					largest = f
				}
			}
		}
		if largest == nil || largest.Held() == 0 {
			return nil
		}
		w.held -= largest.Held()
		if err := largest.EndRowGroup(); err != nil {
			return fmt.Errorf("write data file: %w", err)
		}
	}
	return nil
}
