package tiering

import (
	"context"
	"time"
)

// A partition is decoded by one goroutine. Where there are fewer partitions than decoders, its columns are encoded by
// another, beside the decoding of what follows: of a topic of one partition that is a quarter to a third of the work.

// beside is an encoding under way. The columns and the files of its sink are its own until settle.
type beside struct {
	rows *rows
	done chan error // what follows is to be read after it
	more growth
	took Step
}

// hasSpare says whether there are fewer partitions than decoders.
func (s *session) hasSpare() bool { return s.joined.Load() < int32(len(s.workers)) }

// columnsAt is what a worker may have in columns: decoders without a partition leave their share to the others.
func (s *session) columnsAt() int64 {
	all := int64(len(s.workers))
	return s.spillAt * all / min(max(int64(s.joined.Load()), 1), all)
}

// spillBeside encodes the columns of a sink beside what follows, which goes to other columns. It is for tables without
// partition columns, whose sinks have one file each, and between batches: decoders keep what they know of a batch.
func (w *worker) spillBeside(ctx context.Context, c *sink) error {
	if err := w.settle(); err != nil {
		return err
	}
	full := c.rows
	fresh, err := w.s.newRows(c.partition)
	if err != nil {
		return err
	}
	c.rows = fresh
	b := &beside{rows: full, done: make(chan error, 1)}
	w.beside = b
	go func() {
		start := time.Now()
		rb := w.s.batch(full)
		defer rb.Release()
		more, err := w.s.encode(ctx, c, &group{}, full, rb)
		b.more = more
		b.took.add(start)
		b.done <- err
	}()
	return nil
}

// settle waits for the encoding under way. Before it, nobody else may touch the files of the worker.
func (w *worker) settle() error {
	if w.beside == nil {
		return nil
	}
	if err := w.await(); err != nil {
		return err
	}
	return w.store()
}

// await is settle for who has no use for the files.
func (w *worker) await() error {
	b := w.beside
	if b == nil {
		return nil
	}
	err := <-b.done
	w.beside = nil
	w.out.steps.encode.join(b.took)
	w.grow(b.more)
	w.buffered -= b.rows.bytes
	w.s.freeRows(b.rows)
	return err
}
