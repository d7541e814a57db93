package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/table"
)

// drain lets one side move a full topic into a new table. Time runs from the start of the program until a reader finds
// all records in the table. A side other than ours that stalls counts for what it did until then, and the report says so.
func (w *ingestWork) drain(ctx context.Context, side ingestSide, load *topicLoad, round int) (Sample, error) {
	if side.args == nil {
		return w.drainPlain(ctx, side, load, round)
	}
	at, err := w.table(ctx, side, load.topic, round)
	if err != nil {
		return Sample{}, err
	}
	defer os.RemoveAll(at)
	ctx, cancel := context.WithTimeoutCause(ctx, ingestTimeout, fmt.Errorf("not done within %s", ingestTimeout))
	defer cancel()
	f, begin := newFollower(at), time.Now()
	c, err := startChild(ctx, at+".log", side.env, side.binary, side.args(w, load, at)...)
	if err != nil {
		return Sample{}, err
	}
	f.cpu = c.cpu
	if side.ends {
		if err = c.wait(ctx); err == nil {
			err = f.look()
		}
	} else {
		err = f.wait(ctx, load.ends(), c.ended)
	}
	s := Sample{
		Case: side.name + ", " + w.title(), Round: round, Seconds: time.Since(begin).Seconds(), CPUSeconds: c.cpu().Seconds(),
		Records: load.want.records, Bytes: load.bytes, MaxMB: float64(c.peak.Load()) * 1024 / 1e6,
		Files: f.files, Versions: f.versions, FileBytes: f.bytes,
	}
	c.end()
	if late, ok := errors.AsType[*stall](err); ok && side.foreign {
		s.Seconds, s.CPUSeconds, s.Records = late.until.at.Sub(begin).Seconds(), late.until.cpu.Seconds(), late.until.offsets
		s.Bytes = load.bytes * s.Records / load.want.records
		w.report.Notes = append(w.report.Notes, fmt.Sprintf("%s, round %d: the table is not whole, it %v; its figures are those up to the stall.", s.Case, round, late))
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("%w; its log: %s", err, lastOf(at+".log"))
	}
	return s, w.check(ctx, at, load.want)
}

func (w *ingestWork) drainPlain(ctx context.Context, side ingestSide, load *topicLoad, round int) (Sample, error) {
	src, err := kafka.Open(ctx, kafka.Config{Brokers: []string{w.node.addr}})
	if err != nil {
		return Sample{}, err
	}
	defer src.Close()
	columns, err := w.kind.columns()
	if err != nil {
		return Sample{}, err
	}
	payload, err := deltalog.ToArrow(columns)
	if err != nil {
		return Sample{}, err
	}
	full := arrow.NewSchema(append(table.SystemFields(table.DefaultNames()), payload.Fields()...), nil)
	file := filepath.Join(w.scratch, "plain.parquet")
	defer os.Remove(file)
	s, err := measure(side.name+", "+w.title(), round, func() (int64, int64, error) {
		rows, err := plainTier(ctx, src, load.topic, full, file)
		return rows, load.bytes, err
	})
	if err == nil && s.Records != load.want.records {
		err = fmt.Errorf("wrong result: %d rows of %d records", s.Records, load.want.records)
	}
	return s, err
}

// steady lets one side follow a topic that gets messages at a rate, and measures when each is in the table.
func (w *ingestWork) steady(ctx context.Context, side ingestSide, topic string, round int) (Sample, error) {
	at, err := w.table(ctx, side, topic, round)
	if err != nil {
		return Sample{}, err
	}
	defer os.RemoveAll(at)
	load, err := newLoad(ctx, w.node, topic, w.partitions, w.kind, w.Seed)
	if err != nil {
		return Sample{}, err
	}
	defer load.producer.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, ingestTimeout, fmt.Errorf("not done within %s", ingestTimeout))
	defer cancel()
	c, err := startChild(ctx, at+".log", side.env, side.binary, side.args(w, load, at)...)
	if err != nil {
		return Sample{}, err
	}
	defer c.end()
	f := newFollower(at)
	// A first record a partition, so that start-up and the group's first assignment are not measured.
	if err := load.send(ctx, w.partitions); err != nil {
		return Sample{}, err
	}
	if err := load.flush(ctx); err != nil {
		return Sample{}, err
	}
	if err := f.wait(ctx, load.ends(), c.ended); err != nil {
		return Sample{}, fmt.Errorf("%w; its log: %s", err, lastOf(at+".log"))
	}
	var waits []time.Duration
	f.advance = func(p int32, from, to int64, now time.Time) { waits = append(waits, load.since(p, from, to, now)...) }
	sent, cpu, begin, before := make(chan error, 1), c.cpu(), time.Now(), load.bytes
	go func() { sent <- load.steady(ctx, w.rate, time.Duration(w.seconds)*time.Second) }()
	for sending := true; sending; {
		select {
		case err := <-sent:
			if err != nil {
				return Sample{}, err
			}
			sending = false
		case <-time.After(followPoll):
			if err := f.look(); err != nil {
				return Sample{}, err
			}
		}
	}
	if err := f.wait(ctx, load.ends(), c.ended); err != nil {
		return Sample{}, err
	}
	slices.Sort(waits)
	at50 := func(q float64) float64 { return waits[min(len(waits)-1, int(q*float64(len(waits))))].Seconds() * 1e3 }
	s := Sample{
		Case: side.name + ", " + w.title(), Round: round, Seconds: time.Since(begin).Seconds(), CPUSeconds: (c.cpu() - cpu).Seconds(),
		Records: int64(len(waits)), Bytes: load.bytes - before, MaxMB: float64(c.peak.Load()) * 1024 / 1e6,
		Files: f.files, Versions: f.versions, FileBytes: f.bytes, P50: at50(0.5), P95: at50(0.95), P99: at50(0.99),
	}
	c.stop()
	return s, w.check(ctx, at, load.want)
}

// steady sends messages at a rate, every 10 ms some.
func (l *topicLoad) steady(ctx context.Context, rate int, d time.Duration) error {
	const step = 10 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	begin, total, sent := time.Now(), int(float64(rate)*d.Seconds()), 0
	for sent < total {
		due := min(total, int(float64(rate)*time.Since(begin).Seconds()))
		if err := l.send(ctx, due-sent); err != nil {
			return err
		}
		sent = due
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return l.flush(ctx)
}

// check reads a table and compares its records with those that were sent.
func (w *ingestWork) check(ctx context.Context, at string, want content) error {
	store, err := dir.Open(dir.Config{Root: at, FS: vfs.OS()})
	if err != nil {
		return err
	}
	t, err := table.Open(ctx, store, table.Config{})
	if err != nil {
		return err
	}
	defer t.Log.Close()
	snap, err := t.Log.Snapshot(ctx)
	if err != nil {
		return err
	}
	var got content
	for rb, err := range t.Scan(ctx, snap, table.ScanOptions{Columns: []string{w.kind.unique}}) {
		if err != nil {
			return err
		}
		ids, ok := rb.Column(0).(*array.String)
		if !ok {
			return fmt.Errorf("column %s is %s", w.kind.unique, rb.Column(0).DataType())
		}
		for i := range ids.Len() {
			got.add([]byte(ids.Value(i)))
		}
		rb.Release()
	}
	if got != want {
		return fmt.Errorf("wrong result: the table has %d records of %d, or others than were sent", got.records, want.records)
	}
	return nil
}

func lastOf(file string) string {
	b, _ := os.ReadFile(file)
	return string(b[max(0, len(b)-1500):])
}
