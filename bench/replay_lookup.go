package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

const (
	lookupFiles = 100_000 // of the large table
	lookupSmall = 1_000   // of the small one beside it
	lookupRows  = 100     // of a file
	lookupParts = 4
	lookupReal  = 64 // files that are there; the others stand in the log alone, so reading one would fail
)

// lookupTable is a table whose files follow each other in each partition.
type lookupTable struct {
	t    *table.Table
	real []int // files that can be read, by number
}

// lookups measures how long it takes to open a reader at an offset in the middle of a table and to get its first record.
func lookups(ctx context.Context, cfg Config, r *Report, at string) error {
	first := func(s Sample) float64 { return s.Seconds * 1000 }
	name := func(files int) string { return fmt.Sprintf("first record at an offset, %d files", files) }
	for _, files := range []int{lookupSmall, lookupFiles} {
		l, err := newLookupTable(ctx, fmt.Sprint(at, files), files)
		if err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(cfg.Seed, 7))
		for round := range cfg.Rounds * 20 { // they are short
			s, err := measureQuick(name(files), round, func() (int64, int64, error) { return 1, 0, l.find(ctx, rng) })
			if err != nil {
				return errors.Join(err, l.t.Close())
			}
			if round > 0 { // the first makes the metadata warm
				r.Samples = append(r.Samples, s)
			}
		}
		if err := l.t.Close(); err != nil {
			return err
		}
	}
	large := r.median(name(lookupFiles), first)
	r.atMost(fmt.Sprintf("first record at an offset of a table of %d files, ms", lookupFiles), 30, large)
	r.atMost(fmt.Sprintf("the same / in one of %d files", lookupSmall), 3, large/r.median(name(lookupSmall), first))
	return nil
}

func newLookupTable(ctx context.Context, at string, files int) (*lookupTable, error) {
	store, err := openStore(at)
	if err != nil {
		return nil, err
	}
	t, err := table.Create(ctx, store, nil, table.Config{Topic: logTopic, Log: deltalog.Config{CheckpointInterval: -1}})
	if err != nil {
		return nil, err
	}
	l := &lookupTable{t: t}
	const perCommit = 1000
	for n := 0; n < files; n += perCommit {
		c := deltalog.Commit{ReadVersion: deltalog.Version(n / perCommit), Operation: "STREAMING UPDATE", BlindAppend: true}
		for i := n; i < min(n+perCommit, files); i++ {
			add, err := l.file(ctx, i, i%(files/lookupReal) == 0)
			if err != nil {
				return nil, errors.Join(err, t.Close())
			}
			c.Adds = append(c.Adds, add)
		}
		for p := range lookupParts {
			c.Txns = append(c.Txns, deltalog.Txn{AppID: table.AppID(logTopic, int32(p)), Version: int64((n+perCommit)/lookupParts*lookupRows) - 1})
		}
		if _, err := t.Log.Commit(ctx, c); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return l, nil
}

// lookupRange gives the rows of file i: the files of a partition follow each other.
func lookupRange(i int) table.Range {
	from := record.Offset(i / lookupParts * lookupRows)
	return table.Range{Partition: int32(i % lookupParts), From: from, To: from + lookupRows}
}

// file writes file i, or makes up what the log says of it.
func (l *lookupTable) file(ctx context.Context, i int, there bool) (deltalog.Add, error) {
	g := lookupRange(i)
	if !there {
		ranges, stats := fmt.Sprintf("[[%d,%d,%d]]", g.Partition, g.From, g.To), fmt.Sprintf(
			`{"numRecords":%d,"minValues":{"_partition":%d,"_offset":%d},"maxValues":{"_partition":%d,"_offset":%d},"nullCount":{"_partition":0,"_offset":0}}`,
			lookupRows, g.Partition, g.From, g.Partition, g.To-1)
		return deltalog.Add{Path: fmt.Sprintf("part-%06d.parquet", i), PartitionValues: map[string]*string{}, Size: 6000, ModificationTime: start().UnixMilli(),
			DataChange: true, Stats: stats, Tags: map[string]*string{table.RangesTag: &ranges}}, nil
	}
	l.real = append(l.real, i)
	w, err := l.t.NewFileWriter(ctx, table.WriterOptions{})
	if err != nil {
		return deltalog.Add{}, err
	}
	sys := table.NewSystemColumns(l.t.Names, "")
	for o := g.From; o < g.To; o++ {
		sys.Append(g.Partition, &record.Record{Offset: o, Timestamp: start().UnixMilli(), Key: []byte("key"), Value: fmt.Appendf(nil, "value %d", o)})
	}
	if err := w.Write(array.NewRecordBatch(w.Schema(), sys.Arrays(), int64(sys.Rows()))); err != nil {
		return deltalog.Add{}, err
	}
	return w.Close(ctx)
}

// find reads from a random offset to the first record.
func (l *lookupTable) find(ctx context.Context, rng *rand.Rand) (err error) {
	g := lookupRange(l.real[rng.IntN(len(l.real))])
	o := g.From + record.Offset(rng.IntN(lookupRows))
	c, err := reader.Open(ctx, reader.Config{Table: l.t, Topic: logTopic, Partitions: []int32{g.Partition},
		From: reader.AtOffsets(map[int32]record.Offset{g.Partition: o}), MaxRows: 1, ReadAhead: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	rb, err := c.Next(ctx)
	if err != nil {
		return err
	}
	if got := rb.Column(1).(*array.Int64).Value(0); got != int64(o) {
		return fmt.Errorf("wrong result: offset %d instead of %d", got, o)
	}
	return nil
}

// measureQuick is measure without a garbage collection before, for what takes less time than one.
func measureQuick(name string, round int, f func() (records, bytes int64, err error)) (Sample, error) {
	cpu, begin := cpuTime(), time.Now()
	records, bytes, err := f()
	s := Sample{Case: name, Round: round, Records: records, Bytes: bytes, Seconds: time.Since(begin).Seconds(), CPUSeconds: (cpuTime() - cpu).Seconds()}
	if err != nil {
		return s, fmt.Errorf("%s, round %d: %w", name, round, err)
	}
	return s, nil
}
