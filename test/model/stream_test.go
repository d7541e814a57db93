// Package model runs random operations against the whole engine and a model of it that fits on a page:
// per partition, the list of values that were acknowledged.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

const (
	topic      = "t"
	partitions = 3
)

// world is the engine and its model.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	fs    *vfs.Mem
	log   *local.Log
	store *mem.Store
	table *table.Table
	dead  *mem.Store
	// source is what tiering reads; nil: log.
	source broker.Source
	spec   transform.Spec
	// heldBack is tiering's MaxHeldBack.
	heldBack record.Offset
	want     [partitions][]entry // by offset
	format   *format.Format      // of values; nil: JSON
	paused   *view               // a read that rests while the others go on; nil: none
	starts   starts
	trace    []string
}

// starts counts the places that reads began at, a partition each.
type starts struct{ inLake, inLog int }

// entry is what the model knows of one offset.
type entry struct {
	value    string
	bad      bool // does not fit the schema: a gap for readers, a dead letter in the lake
	filtered bool // left out by the filter: a gap for readers, nowhere in the lake
}

func payload() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
}

func newWorld(t *testing.T, rng *rand.Rand) *world { return newWorldOf(t, rng, table.Names{}) }

// newWorldOf is newWorld with names for the table's system columns.
func newWorldOf(t *testing.T, rng *rand.Rand, names table.Names) *world {
	w := &world{t: t, rng: rng, fs: vfs.NewMem(), store: mem.New(), dead: mem.New()}
	w.open()
	if _, err := w.log.CreateTopic(t.Context(), topic, broker.TopicConfig{Partitions: partitions, SegmentBytes: 2000, Tiered: true}); err != nil {
		t.Fatal(err)
	}
	tab, err := table.Create(t.Context(), w.store, payload(), table.Config{Topic: topic, Names: names, Log: quickLog()})
	if err != nil {
		t.Fatal(err)
	}
	w.table = tab
	return w
}

// quickLog does not wait long after the faults that tests make.
func quickLog() deltalog.Config {
	return deltalog.Config{RetryBase: time.Microsecond, RetryMax: time.Millisecond}
}

// filter leaves records out from now on. Nothing was read or tiered yet.
func (w *world) filter(spec transform.Spec) {
	w.spec = spec
	snap, err := w.table.Log.Snapshot(w.t.Context())
	var c deltalog.Commit
	if err == nil {
		c, err = snap.Alter(deltalog.Change{Set: map[string]string{transform.Property(topic): spec.String()}})
	}
	if err == nil {
		_, err = w.table.Log.Commit(w.t.Context(), c)
	}
	if err != nil {
		w.fail("set a filter: %v", err)
	}
}

func (w *world) open() {
	log, err := local.Open(w.t.Context(), local.Config{Dir: "/log", FS: w.fs, Durability: local.DurabilityGroup, JournalBytes: 64 << 10})
	if err != nil {
		w.fail("open log: %v", err)
	}
	w.log = log
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, s := range w.trace {
		w.t.Log(s)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) did(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// produce appends one batch of good and bad values to a random partition.
func (w *world) produce() {
	p := int32(w.rng.IntN(partitions))
	b := record.NewBuilder(record.Codec(w.rng.IntN(5)))
	n := 1 + w.rng.IntN(20)
	var added []entry
	for range n {
		e := entry{value: fmt.Sprintf(`{"n":%d}`, w.rng.IntN(1000))}
		if w.rng.IntN(10) == 0 {
			e = entry{value: `{"n":"not a number"}`, bad: true}
		}
		b.Append(int64(1000+len(w.want[p])+len(added)), []byte("k"), []byte(e.value), []record.Header{{Key: []byte("h"), Value: []byte("v")}})
		added = append(added, e)
	}
	raw, err := b.Build(0)
	if err != nil {
		w.fail("build: %v", err)
	}
	r, err := w.log.Append(w.t.Context(), record.TopicPartition{Topic: topic, Partition: p}, raw)
	if err != nil {
		w.fail("append: %v", err)
	}
	if int(r.Base) != len(w.want[p]) { // I2
		w.fail("append to partition %d got offset %d, want %d", p, r.Base, len(w.want[p]))
	}
	w.want[p] = append(w.want[p], added...)
	w.did("produce %d records to partition %d at %d", n, p, r.Base)
}

// tier drains the log into the table, sometimes with a store that fails or loses its answers.
func (w *world) tier() {
	faults := 0
	if w.rng.IntN(2) == 0 {
		faults = 1 + w.rng.IntN(3)
	}
	w.tierWith(faults)
}

func (w *world) tierWith(faults int) {
	injectFaults(w.store, rand.New(rand.NewPCG(w.rng.Uint64(), 0)), faults)
	defer w.store.SetHook(nil)
	source := w.source
	if source == nil {
		source = w.log
	}
	cfg := tiering.Config{
		Source: source, Topic: topic, App: topic, Table: w.table, Format: tiering.FormatJSON,
		RetryBase: time.Microsecond, RetryMax: time.Millisecond, Transform: w.spec, MaxHeldBack: w.heldBack,
		Committer: committer.NewDirect(w.table.Log), UntilEnd: true, MaxRows: 1 + w.rng.IntN(60),
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return w.dead, nil },
	}
	if w.format != nil {
		cfg.NewDecoder, cfg.Properties = w.format.NewDecoder, map[string]string{format.Property(topic): w.format.String()}
	}
	tr, err := tiering.Open(w.t.Context(), cfg)
	if err == nil {
		err = errors.Join(tr.Run(w.t.Context()), tr.Close())
	}
	w.did("tier with %d store faults: %v", faults, err)
	if err != nil && faults == 0 {
		w.fail("tier: %v", err)
	}
}

// injectFaults makes a number of store calls fail, half of them after they took effect.
func injectFaults(s *mem.Store, rng *rand.Rand, faults int) {
	var mu sync.Mutex
	s.SetHook(func(context.Context, mem.Call) mem.Fault {
		mu.Lock()
		defer mu.Unlock()
		if faults == 0 || rng.IntN(6) != 0 {
			return mem.Fault{}
		}
		faults--
		if rng.IntN(2) == 0 {
			return mem.Fault{Before: errInjected}
		}
		return mem.Fault{After: errInjected}
	})
}

var errInjected = errors.New("injected store fault")

// retire drops log segments below the lake end, as retention does: history is then in the table alone.
func (w *world) retire() {
	snap, err := w.table.Log.Snapshot(w.t.Context())
	if err != nil {
		w.fail("snapshot: %v", err)
	}
	p := int32(w.rng.IntN(partitions))
	end, ok := table.LakeEnd(snap, topic, p)
	if !ok || end == 0 {
		return
	}
	to := record.Offset(w.rng.Int64N(int64(end) + 1))
	if _, err := w.log.DeleteRecords(w.t.Context(), record.TopicPartition{Topic: topic, Partition: p}, to); err != nil {
		w.fail("delete records: %v", err)
	}
	w.did("drop partition %d below %d", p, to)
}

// crash loses what was not synced and opens the log again: all that was acknowledged must be there (I1).
func (w *world) crash() {
	old := w.log
	w.fs = w.fs.Crash(w.rng, vfs.KeepSome)
	_ = old.Close() // ends its goroutines; what it writes now goes to the disk that is gone
	w.open()
	for p := range int32(partitions) {
		b, err := w.log.Bounds(w.t.Context(), record.TopicPartition{Topic: topic, Partition: p})
		if err != nil {
			w.fail("bounds: %v", err)
		}
		if int(b.End) != len(w.want[p]) {
			w.fail("after a crash partition %d ends at %d, want %d", p, b.End, len(w.want[p]))
		}
	}
	w.did("crash and recover")
}

// read opens a cursor at random offsets and compares every record and gap with the model (I4).
func (w *world) read() { w.begin().end() }

// readAmid reads a part of the stream and rests; what it rests in goes on. The next time it reads to the end (I4, I6).
func (w *world) readAmid() {
	if w.paused != nil {
		w.paused.end()
		w.paused = nil
		return
	}
	v := w.begin()
	for range w.rng.IntN(4) {
		if !v.batch() {
			break
		}
	}
	w.did("pause at %v", v.next)
	w.paused = v
}

// begin opens a cursor at random offsets, up to the end of what there is now.
func (w *world) begin() *view {
	from := map[int32]record.Offset{}
	for p := range int32(partitions) {
		from[p] = record.Offset(w.rng.IntN(len(w.want[p]) + 1))
	}
	w.did("read from %v", from)
	v := &view{w: w, next: map[int32]record.Offset{}, until: map[int32]int{}, gaps: map[int32][]reader.Gap{}}
	for p, o := range from {
		v.next[p], v.until[p] = o, len(w.want[p])
	}
	v.cfg = reader.Config{Table: w.table, Source: w.tail(), Topic: topic, From: reader.AtOffsets(from), BatchRows: 1 + w.rng.IntN(30), ReadAhead: 1 + w.rng.IntN(2)}
	if w.rng.IntN(2) == 0 {
		v.cfg.LeaseAfter = time.Nanosecond
	}
	v.cfg.OnGap = func(g reader.Gap) { v.gaps[g.Partition] = append(v.gaps[g.Partition], g) }
	c, err := reader.Open(w.t.Context(), v.cfg)
	if err != nil {
		w.fail("open reader: %v", err)
	}
	v.c = c
	for p, seam := range c.Seam() {
		if from[p] < seam {
			w.starts.inLake++
		} else {
			w.starts.inLog++
		}
	}
	return v
}

// view is what a read has given so far.
type view struct {
	w       *world
	cfg     reader.Config
	c       *reader.Cursor
	resumes int
	next    map[int32]record.Offset
	until   map[int32]int
	gaps    map[int32][]reader.Gap // reported, not yet met
}

// batch reads on; false at the end.
func (v *view) batch() bool {
	rb, err := v.c.Next(v.w.t.Context())
	if errors.Is(err, io.EOF) {
		return false
	}
	if errors.Is(err, errInjected) { // a read that was paused has met a fault that was meant for another
		v.resume()
		return true
	}
	if err != nil {
		v.w.fail("read: %v", err)
	}
	v.rows(rb)
	if v.resumes < 6 && v.w.rng.IntN(3) == 0 { // go on from a token, as a restarted reader does
		v.resume()
		v.resumes++
	}
	return true
}

// end reads the rest and checks that nothing is missing.
func (v *view) end() {
	if v == nil {
		return
	}
	for v.batch() {
	}
	if err := v.c.Close(); err != nil {
		v.w.fail("close: %v", err)
	}
	for p := range int32(partitions) {
		if v.skip(p); int(v.next[p]) < v.until[p] {
			v.w.fail("partition %d was read up to %d, want %d", p, v.next[p], v.until[p])
		}
		if len(v.gaps[p]) > 0 {
			v.w.fail("gaps %v of partition %d do not fit at %d", v.gaps[p], p, v.next[p])
		}
	}
}

// skip goes over the gaps that begin where the partition stands: each offset in one must be a bad value, or a filtered one.
func (v *view) skip(p int32) {
	for len(v.gaps[p]) > 0 && v.gaps[p][0].From == v.next[p] {
		g := v.gaps[p][0]
		for o := g.From; o < g.To; o++ {
			if int(o) >= len(v.w.want[p]) {
				v.w.fail("partition %d has a gap at %d, and ends at %d", p, o, len(v.w.want[p]))
			}
			if e := v.w.want[p][o]; !e.bad && !e.filtered {
				v.w.fail("good offset %d of partition %d is called a gap: %s", o, p, g.Reason)
			}
		}
		v.next[p], v.gaps[p] = g.To, v.gaps[p][1:]
	}
}

func (v *view) resume() {
	w := v.w
	bound, err := reader.AtToken(v.c.Token(), topic)
	if err != nil {
		w.fail("token: %v", err)
	}
	if err := v.c.Close(); err != nil {
		w.fail("close: %v", err)
	}
	v.cfg.From = bound
	if v.c, err = reader.Open(w.t.Context(), v.cfg); err != nil {
		w.fail("resume: %v", err)
	}
}

func (v *view) rows(rb arrow.RecordBatch) {
	w, next := v.w, v.next
	col := func(name string) arrow.Array { return rb.Column(rb.Schema().FieldIndices(name)[0]) }
	part, off := col("_partition").(*array.Int32), col("_offset").(*array.Int64)
	value, n := col("_value").(*array.Binary), col("n").(*array.Int64)
	for i := range int(rb.NumRows()) {
		p, o := part.Value(i), record.Offset(off.Value(i))
		if v.skip(p); o != next[p] {
			w.fail("partition %d gives offset %d, want %d", p, o, next[p])
		}
		e := w.want[p][o]
		if string(value.Value(i)) != e.value {
			w.fail("partition %d offset %d holds %s, want %s", p, o, value.Value(i), e.value)
		}
		var doc struct{ N int64 }
		if err := json.Unmarshal([]byte(e.value), &doc); err != nil || n.Value(i) != doc.N {
			w.fail("partition %d offset %d: column n is %d, want %d (%v)", p, o, n.Value(i), doc.N, err)
		}
		next[p] = o + 1
	}
}

// finish checks the lake itself: every offset once in the table or once in the dead letters, but for filtered ones (I3, I7).
func (w *world) finish() {
	w.tierWith(0)
	seen := [partitions]map[int64]bool{}
	for p := range seen {
		seen[p] = map[int64]bool{}
	}
	scan := func(t *table.Table, bad bool) {
		snap, err := t.Log.Snapshot(w.t.Context())
		if err != nil {
			w.fail("snapshot: %v", err)
		}
		for rb, err := range t.Scan(w.t.Context(), snap, table.ScanOptions{Columns: []string{"_partition", "_offset"}}) {
			if err != nil {
				w.fail("scan: %v", err)
			}
			part, off := rb.Column(0).(*array.Int32), rb.Column(1).(*array.Int64)
			for i := range int(rb.NumRows()) {
				p, o := part.Value(i), off.Value(i)
				if seen[p][o] {
					w.fail("offset %d of partition %d is in the lake twice", o, p)
				}
				if e := w.want[p][o]; e.bad != bad || e.filtered {
					w.fail("offset %d of partition %d is in the wrong table (dead letters: %v)", o, p, bad)
				}
				seen[p][o] = true
			}
			rb.Release()
		}
	}
	scan(w.table, false)
	dead, err := tiering.OpenDeadLetters(w.t.Context(), w.dead, tiering.LetterConfig{})
	if err != nil && !errors.Is(err, deltalog.ErrNotTable) {
		w.fail("open dead letters: %v", err)
	}
	if err == nil {
		scan(dead, true)
	}
	for p := range seen {
		kept := 0
		for _, e := range w.want[p] {
			if !e.filtered {
				kept++
			}
		}
		if len(seen[p]) != kept {
			w.fail("partition %d has %d offsets in the lake, want %d", p, len(seen[p]), kept)
		}
	}
}

// TestStream is the whole-engine property: whatever is produced, tiered with store faults, dropped from the
// log, crashed and recovered, a read from any offset gives the acknowledged records once and in order.
func TestStream(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 20
	}
	overSeeds(t, seeds, func(t *testing.T, seed uint64) *world {
		w := newWorld(t, rand.New(rand.NewPCG(seed, 0)))
		w.live([]func(){w.produce, w.produce, w.produce, w.tier, w.tier, w.retire, w.crash, w.read, w.read, w.read, w.optimize, w.vacuum, w.reopenTable, w.readAmid})
		if err := w.log.Close(); err != nil {
			t.Fatal(err)
		}
		return w
	})
}

// overSeeds lives one life a seed.
func overSeeds(t *testing.T, lives int, live func(t *testing.T, seed uint64) *world) {
	var sum starts
	lived := 0
	seedtest.Each(t, lives, func(t *testing.T, seed uint64) {
		w := live(t, seed)
		lived++
		sum.inLake += w.starts.inLake
		sum.inLog += w.starts.inLog
	})
	t.Logf("%d lives: reads began at %d random places in the table and %d in the log", lived, sum.inLake, sum.inLog)
	const enough = 20 // lives; a few may all read on one side, by chance
	if lived >= enough && (sum.inLake == 0 || sum.inLog == 0) {
		t.Error("no read began on one side of the seam")
	}
}

// live takes random steps, and checks at their end what is there.
func (w *world) live(steps []func()) {
	for range 60 {
		steps[w.rng.IntN(len(steps))]()
	}
	w.read()
	w.paused.end()
	w.finish()
}
