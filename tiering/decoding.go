package tiering

import (
	"context"
	"errors"
	"fmt"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// rows are the columns of one partition.
type rows struct {
	partition int32
	sys       *table.SystemColumns
	dec       decode.Decoder
	whole     decode.RecordDecoder // dec, where it looks at the record too
	news      newsDecoder          // dec, where new fields are asked for
	declares  declarer             // of dec, where the table follows the schemas of writers
	bytes     int64                // as of the last batch
	peak      int64                // the most that bytes ever was: the memory that is kept
}

func (r *rows) reset() {
	r.sys.Reset()
	r.dec.Reset()
	r.bytes = 0
}

// size is the memory that the columns take.
func (r *rows) size() int64 { return r.sys.Bytes() + decoderSize(r.dec) }

func decoderSize(d decode.Decoder) int64 {
	if s, ok := d.(interface{ Bytes() int64 }); ok {
		return s.Bytes()
	}
	return 0
}

func (w *worker) decode(ctx context.Context, c *chunk) error {
	if w.stands(c) {
		return nil
	}
	cur, err := w.cursor(c)
	if err != nil {
		return err
	}
	if c.lost {
		w.out.passed = append(w.out.passed, committer.Range{Partition: c.partition, From: c.from, To: c.next})
		cur.decided = c.next
		return nil
	}
	w.aborted = w.aborted[:0]
	for _, a := range c.aborted {
		w.aborted = append(w.aborted, record.AbortedTxn(a))
	}
	w.filter.Reset(w.aborted)
	for rest := c.batches; len(rest) > 0; {
		b, err := record.ReadBatch(rest)
		if err != nil {
			break // the fetcher has read the headers: this is where it stopped too
		}
		rest = rest[b.Size():]
		keep := w.filter.Keep(b)
		if b.LastOffset() < cur.decided {
			continue
		}
		if keep {
			err := w.batch(ctx, c.partition, cur, b)
			if stands, ok := errors.AsType[*blockedError](err); ok {
				cur.decided = stands.at
				w.blocked(c, stands)
				return nil
			}
			if err != nil {
				return err
			}
		}
		cur.decided = b.LastOffset() + 1
		if !b.Control() {
			w.s.t.stats.fetched(c.partition, b.BaseTimestamp)
			w.out.times[c.partition] = max(w.out.times[c.partition], b.MaxTimestamp)
		}
		if w.values.full() {
			at := cur.decided
			if err := w.awaitCut(ctx); err != nil {
				return err
			}
			cur = w.begin(c.partition, at)
		}
	}
	if cur.decided != c.next {
		return fmt.Errorf("partition %d: decoded up to offset %d, fetched up to %d", c.partition, cur.decided, c.next)
	}
	return nil
}

// batch decodes the records of one batch and writes columns out when they have become too large.
func (w *worker) batch(ctx context.Context, partition int32, cur *cursor, b record.Batch) error {
	if cur.rows == nil {
		r, err := w.s.newRows(partition)
		if err != nil {
			return err
		}
		cur.rows = r
	}
	before := w.out.rows
	if cur.rows.whole != nil {
		cur.rows.whole.Begin(partition, b.BatchHeader)
	}
	w.mark.broken = nil
	w.setMark(cur, max(b.BaseOffset, cur.decided))
	err := errRedo
	var stands *blockedError
	for errors.Is(err, errRedo) {
		err = w.records(ctx, partition, cur, b)
		if stands, _ = errors.AsType[*blockedError](err); stands != nil {
			err = nil // the rows before it stay
		}
		if err == nil && !w.s.rules.Empty() {
			err = w.checkRules(cur)
		}
	}
	if err != nil {
		return err
	}
	if len(w.s.keys) > 0 {
		w.values.note(w.s, cur.rows, w.mark.rows)
	}
	if err := w.account(ctx, cur, w.out.rows-before); err != nil || stands == nil {
		return err
	}
	return stands
}

// records decodes the records of a batch from the mark on.
func (w *worker) records(ctx context.Context, partition int32, cur *cursor, b record.Batch) error {
	err := b.VerifyCRC()
	if err == nil {
		err = w.it.Reset(b)
	}
	next := w.mark.next // the first offset that no row and no dead letter covers
	for err == nil && w.it.Next() {
		rec := w.it.Record()
		if rec.Offset < next {
			continue
		}
		rows := w.out.rows
		if err := w.record(ctx, partition, cur, rec); err != nil {
			return err
		}
		if w.s.origins {
			cur.trail.note(rec, w.out.rows > rows)
		}
		next = rec.Offset + 1
	}
	if err == nil {
		err = w.it.Err()
	}
	if err != nil {
		return w.corrupt(partition, next, b, err)
	}
	return nil
}

// record adds one record: a row, or a dead letter.
func (w *worker) record(ctx context.Context, partition int32, cur *cursor, rec *record.Record) error {
	w.out.records++
	w.out.bytes += int64(len(rec.Key) + len(rec.Value))
	if w.s.t.cfg.Refuse != nil {
		if err := w.s.t.cfg.Refuse(rec); err != nil {
			w.bury(newDeadLetter(partition, rec, err))
			return nil
		}
	}
	if rec.Value == nil && w.s.bare {
		return nil // no value and no column that says so: a hole
	}
	size := len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		size += len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	if size > cur.rows.sys.Room() {
		if err := w.makeRoom(ctx, cur, rec); err != nil {
			return err
		}
	}
	err := w.mark.brokenRule(rec.Offset)
	if err == nil {
		err = cur.rows.decode(rec)
	}
	if errors.Is(err, decode.ErrFull) {
		if err := w.makeRoom(ctx, cur, rec); err != nil {
			return err
		}
		err = cur.rows.decode(rec)
	}
	if cur.rows.declares.changed() {
		if err := w.s.follow(&cur.rows.declares); err != nil {
			return err
		}
	}
	if err != nil {
		return w.refused(partition, rec, err)
	}
	if cur.rows.news != nil {
		if err := w.news(cur.rows.news.Unknown(), rec); err != nil {
			return err
		}
	}
	cur.rows.sys.Append(partition, rec)
	w.out.rows++
	if !w.s.rules.Empty() {
		w.mark.offsets = append(w.mark.offsets, rec.Offset)
	}
	return nil
}

// refused handles a record that is no row.
func (w *worker) refused(partition int32, rec *record.Record, err error) error {
	var away *decode.UnavailableError
	var fatal *transform.FatalError
	switch {
	case errors.As(err, &away):
		w.out.records-- // it comes again
		w.out.bytes -= int64(len(rec.Key) + len(rec.Value))
		return &blockedError{rec.Offset, fmt.Errorf("%s offset %d: %w", w.s.t.tp(partition), rec.Offset, err)}
	case errors.As(err, &fatal):
		return err
	case errors.Is(err, decode.ErrFiltered):
		w.out.records--
		w.out.filtered++
	default:
		if e := w.s.narrow(rec, err); e != nil {
			return e
		}
		w.bury(newDeadLetter(partition, rec, err))
	}
	return nil
}

// decode adds the payload columns of a row.
func (r *rows) decode(rec *record.Record) error {
	if r.whole != nil {
		return r.whole.AppendRecord(rec)
	}
	return r.dec.Append(rec.Value)
}

// makeRoom encodes what the columns hold in the middle of a batch, before a record that is counted already.
func (w *worker) makeRoom(ctx context.Context, cur *cursor, rec *record.Record) error {
	if !w.s.rules.Empty() {
		if err := w.checkRules(cur); err != nil {
			return err
		}
	}
	if _, err := w.spill(ctx, cur.sink, true); err != nil {
		return err
	}
	w.setMark(cur, rec.Offset)
	w.mark.records--
	w.mark.bytes -= int64(len(rec.Key) + len(rec.Value))
	return nil
}

// corruptBatch begins the reason of a letter that is no record, but the bytes of a batch.
const corruptBatch = "corrupt batch"

// corrupt handles a batch that is damaged from offset next on. It is fetched again first, in case the damage
// came on the way; then its bytes go to the dead letters (I7).
func (w *worker) corrupt(partition int32, next record.Offset, b record.Batch, cause error) error {
	if w.s.t.suspect(partition, b.BaseOffset) {
		return fmt.Errorf("read %s: batch at offset %d: %w", w.s.t.tp(partition), b.BaseOffset, cause)
	}
	w.out.records++
	// Damage behind the last record is filed at that record: an offset of the next batch would hide that one.
	next = min(next, b.LastOffset())
	w.bury(deadLetter{
		partition: partition, offset: next, timestamp: b.BaseTimestamp, value: append([]byte{}, b.Raw[:b.Size()]...),
		reason: fmt.Sprintf("%s, offsets %d to %d, kept as it was: %v", corruptBatch, next, b.LastOffset(), cause),
	})
	return nil
}

func (w *worker) bury(d deadLetter) {
	w.out.dead = append(w.out.dead, d)
	w.deadSize += int64(len(d.key) + len(d.value) + 200)
	if w.deadSize > w.s.spillAt {
		w.press()
	}
}
