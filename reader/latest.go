package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/internal/where"
	"github.com/ledgerlake/ledgerlake/record"
)

// ErrStateCompacted means that the log was compacted while LatestByKey read the state: newer records of some keys came
// behind it, and those that it needs are gone.
var ErrStateCompacted = errors.New("the records of the state were compacted away while it was read, since newer ones have come: read again, or follow, which gives the newer ones too")

// ErrNoValues means that LatestByKey was asked to leave out deleted keys of a table that keeps columns of the values alone: a
// value without these columns is there as a tombstone is.
var ErrNoValues = errors.New("the table has no column of whole values, so a key that was deleted looks like one whose columns are null: keep the deleted ones too " +
	"(--tombstones), and say which rows these are, if any (--where \"COLUMN IS NOT NULL\")")

// LatestByKeyConfig are the settings of a read of the newest value of each key.
type LatestByKeyConfig struct {
	Config // Until says as of where; with Follow the later records come behind the state, all of them

	// KeepTombstones gives keys whose newest record has no value too; else they are left out, as they are deleted. It must be
	// set for a table without a value column (ErrNoValues). Where looks at the newest rows alone, so it may leave them out.
	KeepTombstones bool
	// Memory bounds what the keys take before they go to files; default 256 MiB. A bit an offset comes on top.
	Memory int64
	// TempDir holds these files, which nobody else sees; default the system's.
	TempDir string
}

// LatestByKey reads a topic as a table of its keys: the newest record of each key of a partition, as a compacted topic has
// it, in offset order, and then, with Follow, every later record. Records without a key are no part of the state.
//
// It reads the keys up to the end first, to know which offsets are the newest, and then the rows: so no values are kept,
// and what keys do not fit into memory is sorted out in files. Both reads are parallel as any read of the table is.
// The state is exactly that at State, however long it takes and whatever is written meanwhile. A log that is compacted
// meanwhile may lose a record of it, since a newer one of its key has come behind State: with Follow that one comes as
// well; without, the read ends with ErrStateCompacted in the place of io.EOF. SkipMissing takes a state that lacks keys.
type LatestByKey struct {
	cfg    LatestByKeyConfig
	state  map[int32]record.Offset // the end of the state
	wins   map[int32]*offsetSet
	keys   int64
	given  int64                   // of keys: their newest record was met
	tail   map[int32]record.Offset // where the log began when the keys were read: only from there on a record can go
	inTail int64                   // keys whose newest record is there
	cur    *Cursor
	live   bool // behind the state
	batch  arrow.RecordBatch
	hide   int // columns at the end that the caller did not ask for
	schema *arrow.Schema
	part   int // columns in batches of cur
	off    int
	value  int
}

// OpenLatestByKey finds the newest offset of each key. Its time and its reads are those of all keys up to the end.
func OpenLatestByKey(ctx context.Context, cfg LatestByKeyConfig) (l *LatestByKey, err error) {
	if cfg.MaxRows != 0 {
		return nil, errors.New("latest by key: MaxRows would leave out keys at random; use Where")
	}
	if cfg.names().Value == "" && !cfg.KeepTombstones {
		return nil, fmt.Errorf("latest by key: %w", ErrNoValues)
	}
	if cfg.Memory == 0 {
		cfg.Memory = 256 << 20
	}
	l = &LatestByKey{cfg: cfg, wins: map[int32]*offsetSet{}, tail: map[int32]record.Offset{}}
	if err := l.findKeys(ctx); err != nil {
		return nil, fmt.Errorf("latest by key: %w", err)
	}
	if err := l.openRows(ctx, false); err != nil {
		return nil, errors.Join(fmt.Errorf("latest by key: %w", err), l.Close())
	}
	return l, nil
}

// findKeys reads the keys up to the end.
func (l *LatestByKey) findKeys(ctx context.Context) (err error) {
	cfg := l.cfg.Config
	names := cfg.names()
	if names.Key == "" || !names.Ordered() {
		return fmt.Errorf("%w: it has no key, partition and offset columns", ErrNotReplayable)
	}
	cfg.Columns, cfg.Where, cfg.Follow, cfg.OnGap = []string{names.Partition, names.Offset, names.Key}, "", false, nil
	if cfg.Until.kind == boundDefault {
		cfg.Until = Now()
	}
	cfg.countEnds = true
	cur, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cur.Close()) }()
	l.state = cur.End()
	for _, p := range cur.parts {
		if at := max(p.next, p.lakeEnd); at < p.until {
			l.tail[p.id] = at
		}
	}
	keys := newNewest(l.cfg.Memory, l.cfg.TempDir)
	defer func() { err = errors.Join(err, keys.close()) }()
	for rb, err := range cur.Batches(ctx) {
		if err != nil {
			return err
		}
		parts, ok1 := rb.Column(0).(*array.Int32)
		offs, ok2 := rb.Column(1).(*array.Int64)
		key, ok3 := rb.Column(2).(*array.Binary)
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("%w: columns %v have other types", ErrNotReplayable, cfg.Columns)
		}
		for i := range int(rb.NumRows()) {
			if key.IsValid(i) && offs.IsValid(i) {
				if err := keys.put(parts.Value(i), offs.Value(i), key.Value(i)); err != nil {
					return err
				}
			}
		}
	}
	l.keys, err = keys.each(func(p int32, off int64) {
		if l.wins[p] == nil {
			l.wins[p] = &offsetSet{pages: map[int64]*[pageWords]uint64{}}
		}
		l.wins[p].add(off)
		if at, ok := l.tail[p]; ok && record.Offset(off) >= at {
			l.inTail++
		}
	})
	return err
}

// openRows begins the read of the rows of the state, or of those behind it.
func (l *LatestByKey) openRows(ctx context.Context, live bool) error {
	cfg, names := l.cfg.Config, l.cfg.names()
	asked := cfg.Columns
	l.hide = 0
	if asked != nil { // a selection needs the place of each row, and whether it has a value
		cfg.Columns = append([]string(nil), asked...)
		for _, n := range []string{names.Partition, names.Offset, names.Value} {
			if n != "" && !slices.Contains(cfg.Columns, n) {
				cfg.Columns = append(cfg.Columns, n)
				l.hide++
			}
		}
	}
	if live {
		cfg.From, cfg.Until = AtOffsets(l.state), Bound{}
	} else {
		cfg.Follow, cfg.Until = false, AtOffsets(l.state)
	}
	cur, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	l.cur, l.live, l.schema = cur, live, cur.Schema()
	if l.hide > 0 {
		if l.schema, err = Project(cur.Schema(), asked); err != nil {
			return err
		}
	}
	index := func(name string) int {
		if at := cur.Schema().FieldIndices(name); name != "" && len(at) == 1 {
			return at[0]
		}
		return -1
	}
	l.part, l.off, l.value = index(names.Partition), index(names.Offset), index(names.Value)
	return nil
}

// Schema is that of the batches.
func (l *LatestByKey) Schema() *arrow.Schema { return l.schema }

// State is where the state ends: the first offset of each partition that is not in it.
func (l *LatestByKey) State() map[int32]record.Offset { return l.state }

// Keys is the number of keys that have a record, deleted ones included.
func (l *LatestByKey) Keys() int64 { return l.keys }

// Live says whether the last batch lies behind the state.
func (l *LatestByKey) Live() bool { return l.live }

// Next gives the rows of the state, in offset order a partition, and then, with Follow, all later records; else
// io.EOF. A batch is valid until the next call.
func (l *LatestByKey) Next(ctx context.Context) (arrow.RecordBatch, error) {
	for {
		l.drop()
		rb, err := l.cur.Next(ctx)
		if errors.Is(err, io.EOF) && !l.live {
			if missing := l.check(ctx); missing != nil {
				return nil, missing
			}
		}
		if errors.Is(err, io.EOF) && l.cfg.Follow && !l.live {
			if err = l.cur.Close(); err == nil {
				err = l.openRows(ctx, true)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		keep, err := l.choose(rb)
		if err != nil {
			return nil, err
		}
		out, err := where.Select(ctx, rb, keep)
		if err != nil {
			return nil, err
		}
		if l.batch = out; out.NumRows() > 0 {
			return l.project(out), nil
		}
	}
}

// choose says which rows are given.
func (l *LatestByKey) choose(rb arrow.RecordBatch) ([]bool, error) {
	parts, ok1 := rb.Column(l.part).(*array.Int32)
	offs, ok2 := rb.Column(l.off).(*array.Int64)
	if !ok1 || !ok2 {
		return nil, ErrNotReplayable
	}
	keep := make([]bool, rb.NumRows())
	for i := range keep {
		if keep[i] = l.live || l.wins[parts.Value(i)].has(offs.Value(i)); l.live || !keep[i] {
			continue
		}
		l.given++
		keep[i] = l.cfg.KeepTombstones || rb.Column(l.value).IsValid(i)
	}
	return keep, nil
}

// check says, at the end of the state, whether a record of it was compacted away before its row was read.
func (l *LatestByKey) check(ctx context.Context) error {
	if l.cfg.Follow || l.cfg.SkipMissing || l.given == l.keys {
		return nil
	}
	missing := l.keys - l.given
	if l.cfg.Where != "" { // it left out rows: those of the log are counted without it
		there, err := l.countTail(ctx)
		if err != nil {
			return fmt.Errorf("latest by key: look for compacted records: %w", err)
		}
		missing = l.inTail - there
	}
	if missing > 0 {
		return fmt.Errorf("latest by key: %d of %d keys: %w", missing, l.keys, ErrStateCompacted)
	}
	return nil
}

// countTail counts the newest records that are still where the log had them.
func (l *LatestByKey) countTail(ctx context.Context) (n int64, err error) {
	if l.inTail == 0 {
		return 0, nil
	}
	cfg := l.cfg.Config
	names := cfg.names()
	cfg.Columns, cfg.Where, cfg.OnGap = []string{names.Partition, names.Offset}, "", nil
	cfg.From, cfg.Until, cfg.Partitions = AtOffsets(l.tail), AtOffsets(l.state), slices.Sorted(maps.Keys(l.tail))
	cur, err := Open(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cur.Close()) }()
	for rb, err := range cur.Batches(ctx) {
		if err != nil {
			return 0, err
		}
		parts, ok1 := rb.Column(0).(*array.Int32)
		offs, ok2 := rb.Column(1).(*array.Int64)
		if !ok1 || !ok2 {
			return 0, ErrNotReplayable
		}
		for i := range int(rb.NumRows()) {
			if l.wins[parts.Value(i)].has(offs.Value(i)) {
				n++
			}
		}
	}
	return n, nil
}

func (l *LatestByKey) project(rb arrow.RecordBatch) arrow.RecordBatch {
	if l.hide == 0 {
		return rb
	}
	l.batch = array.NewRecordBatch(l.schema, rb.Columns()[:l.schema.NumFields()], rb.NumRows())
	rb.Release()
	return l.batch
}

// Token names the place behind the last batch, for a read of the changes by Open once the state is through.
func (l *LatestByKey) Token() string { return l.cur.Token() }

func (l *LatestByKey) drop() {
	if l.batch != nil {
		l.batch.Release()
		l.batch = nil
	}
}

// Close frees what the read holds.
func (l *LatestByKey) Close() error {
	l.drop()
	if l.cur == nil {
		return nil
	}
	return l.cur.Close()
}

// All gives the rest as a sequence; see Next.
func (l *LatestByKey) All(ctx context.Context) func(yield func(arrow.RecordBatch, error) bool) {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for {
			rb, err := l.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(rb, err) || err != nil {
				return
			}
		}
	}
}

const pageWords = 1024

// offsetSet is a set of offsets of one partition: a bit each, in pages where there are any.
type offsetSet struct{ pages map[int64]*[pageWords]uint64 }

func (s *offsetSet) add(o int64) {
	p := s.pages[o/(64*pageWords)]
	if p == nil {
		p = new([pageWords]uint64)
		s.pages[o/(64*pageWords)] = p
	}
	p[o/64%pageWords] |= 1 << (o % 64)
}

func (s *offsetSet) has(o int64) bool {
	if s == nil || o < 0 {
		return false
	}
	p := s.pages[o/(64*pageWords)]
	return p != nil && p[o/64%pageWords]&(1<<(o%64)) != 0
}
