package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// drain lets one side move a full topic into a new table. Time runs from the start of the program until a reader finds
// all records in the table. A side other than ours that stalls counts for what it did until then, and the report says so;
// what its table has by then must be the first records of each partition all the same.
func (w *ingestWork) drain(ctx context.Context, side ingestSide, load *topicLoad, round int) (Sample, error) {
	if side.floor != floorNone {
		return w.drainFloor(ctx, side, load, round)
	}
	if side.args == nil {
		return w.drainPlain(ctx, side, load, round)
	}
	table, err := w.newTable(ctx, side, load.topic, round)
	if err != nil {
		return Sample{}, err
	}
	at := w.lake.path(table)
	defer os.RemoveAll(at)
	ctx, cancel := context.WithTimeoutCause(ctx, ingestTimeout, fmt.Errorf("not done within %s", ingestTimeout))
	defer cancel()
	f, begin := newFollower(at), time.Now()
	c, err := w.launch(ctx, side, load, table)
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
	s := w.sample(side, round, c, f)
	s.Seconds, s.CPUSeconds, s.Records, s.Bytes = time.Since(begin).Seconds(), c.cpu().Seconds(), load.want.records, load.bytes
	c.end()
	if err := w.count(&s, table); err != nil {
		return s, err
	}
	if late, ok := errors.AsType[*stall](err); ok && side.foreign {
		s.Seconds, s.CPUSeconds, s.Records = late.until.at.Sub(begin).Seconds(), late.until.cpu.Seconds(), late.until.offsets
		s.Bytes = load.bytes * s.Records / load.want.records
		w.report.Notes = append(w.report.Notes, fmt.Sprintf("%s, round %d: the table is not whole, it %v; its figures are those up to the stall.", s.Case, round, late))
		if err := f.look(); err != nil { // it may have committed as it ended
			return s, err
		}
		return s, w.check(ctx, table, load.upTo(f.at))
	}
	if err != nil {
		return s, fmt.Errorf("%w; its log: %s", err, c.log())
	}
	return s, w.check(ctx, table, load.want)
}

// sample begins the sample of a side with what can be seen of its processes and its table.
func (w *ingestWork) sample(side ingestSide, round int, c fleet, f *follower) Sample {
	return Sample{
		Case: side.name + ", " + w.title(), Round: round, MaxMB: c.peakMB(), Files: f.files, Versions: f.versions, FileBytes: f.bytes,
	}
}

// count notes the requests that a table has taken so far.
func (w *ingestWork) count(s *Sample, table string) (err error) {
	s.Requests, err = w.lake.requests(table)
	return err
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
	out := filepath.Join(w.scratch, "plain.parquet")
	defer os.Remove(out)
	s, err := measure(side.name+", "+w.title(), round, func() (int64, int64, error) {
		rows, err := plainTier(ctx, src, load.topic, full, out)
		return rows, load.bytes, err
	})
	if err != nil {
		return s, err
	}
	got, err := contentOfFile(ctx, out, w.kind.unique)
	if err == nil && got != load.want {
		err = fmt.Errorf("wrong result: the file has %d records of %d, or others than were sent", got.records, load.want.records)
	}
	return s, err
}

// contentOfFile reads one column of a Parquet file.
func contentOfFile(ctx context.Context, name, column string) (got content, err error) {
	f, err := file.OpenParquetFile(name, false)
	if err != nil {
		return got, err
	}
	defer f.Close()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 8192}, memory.DefaultAllocator)
	if err != nil {
		return got, err
	}
	rows, err := r.GetRecordReader(ctx, []int{f.MetaData().Schema.ColumnIndexByName(column)}, nil)
	if err != nil {
		return got, err
	}
	defer rows.Release()
	for rows.Next() {
		if err := got.addAll(rows.RecordBatch()); err != nil {
			return got, err
		}
	}
	if err := rows.Err(); err != nil && !errors.Is(err, io.EOF) {
		return got, err
	}
	return got, nil
}

// check reads a table and compares its records with those that were sent.
func (w *ingestWork) check(ctx context.Context, name string, want content) error {
	store, err := w.lake.open(ctx, name)
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
	for rb, err := range t.Scan(ctx, snap, table.ScanOptions{Columns: append([]string{w.kind.unique}, w.kind.partition...)}) {
		if err != nil {
			return err
		}
		if err := got.addAll(rb); err != nil {
			return err
		}
		rb.Release()
	}
	if got != want {
		return fmt.Errorf("wrong result: the table has %d records of %d, or others than were sent", got.records, want.records)
	}
	return nil
}

// addAll adds the records of a batch, by the text in its first column and, if it has a second, by that one too.
func (c *content) addAll(rb arrow.RecordBatch) error {
	var texts []*array.String
	for i, column := range rb.Columns() {
		text, ok := column.(*array.String)
		if !ok {
			return fmt.Errorf("column %s is %s", rb.ColumnName(i), column.DataType())
		}
		texts = append(texts, text)
	}
	var id []byte
	for row := range int(rb.NumRows()) {
		id = append(id[:0], texts[0].Value(row)...)
		for _, more := range texts[1:] {
			id = append(append(id, '|'), more.Value(row)...)
		}
		c.add(id)
	}
	return nil
}

func lastOf(file string) string {
	b, _ := os.ReadFile(file)
	return string(b[max(0, len(b)-1500):])
}
