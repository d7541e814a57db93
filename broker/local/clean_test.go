package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// kv is a record of a compacted topic; the value "-" is a tombstone.
type kv struct{ key, value string }

func kvBatch(t testing.TB, codec record.Codec, recs ...kv) []byte {
	t.Helper()
	b := record.NewBuilder(codec)
	for i, r := range recs {
		value := []byte(r.value)
		if r.value == "-" {
			value = nil
		}
		b.Append(start.UnixMilli()+int64(i), []byte(r.key), value, []record.Header{{Key: []byte("h"), Value: []byte(r.key)}})
	}
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// scan gives the records of a partition as a client reads them, by offset.
func scan(l *Log, p record.TopicPartition, from record.Offset, isolation broker.Isolation) (map[record.Offset]kv, error) {
	out := map[record.Offset]kv{}
	bounds, err := l.Bounds(context.Background(), p)
	if err != nil {
		return nil, err
	}
	end := bounds.End
	if isolation == broker.ReadCommitted {
		end = bounds.Stable
	}
	var it record.Iterator
	var filter record.AbortFilter
	for next := max(from, bounds.Start); next < end; {
		got, err := l.Fetch(context.Background(), []broker.FetchRange{{TP: p, From: next, MaxBytes: 700}}, broker.FetchOptions{Isolation: isolation})
		if err = errors.Join(err, got[0].Err); err != nil {
			return nil, err
		}
		if len(got[0].Batches) == 0 {
			return nil, fmt.Errorf("no batch at %d of %v", next, bounds)
		}
		filter.Reset(got[0].Aborted)
		for b := got[0].Batches; len(b) > 0; {
			batch, err := record.ReadBatch(b)
			if err == nil {
				err = batch.VerifyCRC()
			}
			if err == nil {
				err = it.Reset(batch)
			}
			if err != nil {
				return nil, err
			}
			keep := filter.Keep(batch) || isolation == broker.ReadUncommitted && !batch.Control()
			for keep && it.Next() {
				r := it.Record()
				value := "-"
				if r.Value != nil {
					value = string(r.Value)
				}
				if len(r.Headers) == 1 && string(r.Headers[0].Value) != string(r.Key) {
					return nil, fmt.Errorf("offset %d: header %q of key %q", r.Offset, r.Headers[0].Value, r.Key)
				}
				if r.Offset >= next {
					out[r.Offset] = kv{strings.Clone(string(r.Key)), value}
				}
			}
			if it.Err() != nil {
				return nil, it.Err()
			}
			b, next = b[batch.Size():], batch.LastOffset()+1
		}
	}
	return out, nil
}

func mustScan(t testing.TB, l *Log, p record.TopicPartition, from record.Offset) map[record.Offset]kv {
	t.Helper()
	got, err := scan(l, p, from, broker.ReadUncommitted)
	if err != nil {
		t.Fatalf("from %d: %v", from, err)
	}
	return got
}

// state is what a reader of a changelog knows at its end.
func state(recs map[record.Offset]kv) map[string]string {
	out, at := map[string]string{}, map[string]record.Offset{}
	for o, r := range recs {
		if last, ok := at[r.key]; ok && last > o {
			continue
		}
		at[r.key] = o
		out[r.key] = r.value
	}
	for k, v := range out {
		if v == "-" {
			delete(out, k)
		}
	}
	return out
}

func compactConfig() broker.TopicConfig {
	return broker.TopicConfig{Compact: true, SegmentBytes: broker.MinSegmentBytes, MinDirtyRatio: -1, DeleteRetention: time.Hour}
}

func mustCompact(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Compact(t.Context()); err != nil {
		t.Fatalf("compact: %v", err)
	}
}

// TestCompact keeps the newest record of each key at its offset, and tombstones for their time.
func TestCompact(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		mem := vfs.NewMem()
		now := newClock()
		cfg := smallConfig(mem)
		cfg.Clock = now.time
		l := mustOpen(t, cfg)
		p := tp("t", 0)
		mustCreate(t, l, "t", compactConfig())
		pad := strings.Repeat("x", 100)
		all := map[record.Offset]kv{}
		put := func(recs ...kv) {
			res := mustAppend(t, l, p, kvBatch(t, codec, recs...))
			for i, r := range recs {
				all[res.Base+record.Offset(i)] = r
			}
		}
		for i := range 60 {
			put(kv{fmt.Sprint("k", i%7), fmt.Sprint(i, pad)}, kv{fmt.Sprint("j", i), "once" + pad})
			if i%20 == 5 {
				put(kv{"gone", fmt.Sprint(i)}, kv{"gone", "-"})
			}
		}
		for range 8 {
			put(kv{"last", pad + pad}, kv{"more", pad}) // what is active is not cleaned
		}
		before := state(all)
		mustCompact(t, l)
		got := mustScan(t, l, p, 0)
		if diff := cmp.Diff(before, state(got)); diff != "" {
			t.Fatalf("state (-want +got):\n%s", diff)
		}
		if len(got) > 90 || len(got) < 60+7 {
			t.Errorf("%d of %d records are left", len(got), len(all))
		}
		tombs := 0
		for o, r := range got {
			if all[o] != r { // I2
				t.Fatalf("offset %d: %v, was %v", o, r, all[o])
			}
			if r.value == "-" {
				tombs++
			}
		}
		if tombs != 1 {
			t.Errorf("%d tombstones are left", tombs)
		}
		end, err := l.Bounds(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for from := range end.End { // whatever offset a reader asks for
			part := mustScan(t, l, p, from)
			n := 0
			for o := range got {
				if o >= from {
					n++
				}
			}
			if len(part) != n {
				t.Fatalf("from %d: %d records, want %d", from, len(part), n)
			}
		}
		count := mem.Crash(nil, vfs.KeepAll)
		mustCompact(t, l) // nothing is due
		if diff := cmp.Diff(dirNames(t, count), dirNames(t, mem)); diff != "" {
			t.Errorf("a second pass changed files:\n%s", diff)
		}
		now.pass(2 * time.Hour)
		mustCompact(t, l)
		got = mustScan(t, l, p, 0)
		if diff := cmp.Diff(before, state(got)); diff != "" {
			t.Fatalf("state (-want +got):\n%s", diff)
		}
		for o, r := range got {
			if r.value == "-" {
				t.Errorf("the tombstone at %d is still there", o)
			}
		}
		crashed := mem.Crash(nil, vfs.KeepNothing)
		mustClose(t, l)
		cfg.FS = crashed
		if found, err := CheckDir(t.Context(), crashed, "/log"); err != nil || len(found) > 0 {
			t.Fatalf("check: %v %v", found, err)
		}
		l = mustOpen(t, cfg)
		if diff := cmp.Diff(got, mustScan(t, l, p, 0), cmp.AllowUnexported(kv{})); diff != "" {
			t.Fatalf("after the crash:\n%s", diff)
		}
		mustClose(t, l)
	}
}

func dirNames(t *testing.T, fsys vfs.FS) (out []string) {
	t.Helper()
	entries, err := fsys.ReadDir("/log/data/t-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestCompactLimits: what is not in the lake, not decided, or too young stays (I6).
func TestCompactLimits(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	p := tp("t", 0)
	tiered := compactConfig()
	tiered.Tiered = true
	mustCreate(t, l, "t", tiered)
	open := tp("u", 0)
	mustCreate(t, l, "u", compactConfig())
	young := compactConfig()
	young.MinCompactionLag = time.Minute
	mustCreate(t, l, "v", young)
	ratio := compactConfig()
	ratio.MinDirtyRatio = 0.9
	mustCreate(t, l, "w", ratio)
	b := record.NewBuilder(record.None)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = 1, 0, 0, true
	b.Append(start.UnixMilli(), []byte("x"), []byte("x"), nil)
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, open, raw)
	for i := range 30 {
		for _, name := range []string{"t", "u", "v", "w"} {
			mustAppend(t, l, tp(name, 0), kvBatch(t, record.None, kv{"k", fmt.Sprintf("%0300d", i)}))
		}
	}
	mustCompact(t, l)
	for name, want := range map[string]int{"t": 30, "u": 31, "v": 30, "w": 3} {
		if got := mustScan(t, l, tp(name, 0), 0); len(got) > want || len(got) < want-2 {
			t.Errorf("%s: %d records, want about %d", name, len(got), want)
		}
	}
	if err := l.Hold(t.Context(), p, 20); err != nil {
		t.Fatal(err)
	}
	mustCompact(t, l)
	if got := mustScan(t, l, p, 0); len(got) > 14 || len(got) < 10 {
		t.Errorf("with a hold at 20: %d records", len(got))
	}
	mustClose(t, l)
}

// TestCompactTxn removes aborted records at once, and markers when nothing of their transactions is left.
func TestCompactTxn(t *testing.T) {
	mem := vfs.NewMem()
	now := newClock()
	cfg := smallConfig(mem)
	cfg.Clock = now.time
	l := mustOpen(t, cfg)
	p := tp("t", 0)
	mustCreate(t, l, "t", compactConfig())
	seq := int32(0)
	put := func(k, v string, commit bool) {
		b := record.NewBuilder(record.None)
		b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = 1, 0, seq, true
		b.Append(start.UnixMilli(), []byte(k), []byte(v+strings.Repeat("x", 200)), nil)
		seq++
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, p, raw)
		mustEnd(t, l, p, 1, 0, commit)
	}
	put("a", "old", true)
	put("stays", "1", true)
	for i := range 20 {
		put("a", fmt.Sprint("aborted", i), false)
		put("b", fmt.Sprint(i), true)
	}
	put("a", "new", true)
	put("a", "aborted at the end", false)
	for range 6 {
		mustAppend(t, l, p, kvBatch(t, record.None, kv{"z", strings.Repeat("z", 500)}))
	}
	want, err := scan(l, p, 0, broker.ReadCommitted)
	if err != nil {
		t.Fatal(err)
	}
	verify := func() int {
		t.Helper()
		got, err := scan(l, p, 0, broker.ReadCommitted)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(state(want), state(got)); diff != "" {
			t.Fatalf("state (-want +got):\n%s", diff)
		}
		for o, r := range mustScan(t, l, p, 0) {
			if strings.HasPrefix(r.value, "aborted") {
				t.Errorf("offset %d is still there: %.20q", o, r.value)
			}
		}
		part, err := l.partition(p)
		if err != nil {
			t.Fatal(err)
		}
		return len(part.txns.aborted)
	}
	mustCompact(t, l)
	if n := verify(); n != 21 {
		t.Errorf("%d aborted transactions are known, want 21 until their markers go", n)
	}
	now.pass(2 * time.Hour)
	mustCompact(t, l)
	if n := verify(); n > 1 {
		t.Errorf("%d aborted transactions are known after their markers went", n)
	}
	mustClose(t, l)
	if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) > 0 {
		t.Fatalf("check: %v %v", found, err)
	}
	l = mustOpen(t, cfg)
	verify()
	mustClose(t, l)
}

// TestCompactSmallMap converges when the map of keys holds a part of them only.
func TestCompactSmallMap(t *testing.T) {
	cfg := smallConfig(vfs.NewMem())
	cfg.CleanerMemory = 10 * keyBytes
	l := mustOpen(t, cfg)
	p := tp("t", 0)
	mustCreate(t, l, "t", compactConfig())
	rng := rand.New(rand.NewPCG(1, 9))
	for i := range 150 {
		mustAppend(t, l, p, kvBatch(t, record.None, kv{fmt.Sprint("k", rng.IntN(40)), fmt.Sprintf("%0100d", i)}, kv{fmt.Sprint("k", rng.IntN(40)), "b"}))
	}
	want := state(mustScan(t, l, p, 0))
	for range 40 {
		mustCompact(t, l)
		if diff := cmp.Diff(want, state(mustScan(t, l, p, 0))); diff != "" {
			t.Fatal(diff)
		}
	}
	if got := mustScan(t, l, p, 0); len(got) > 60 {
		t.Errorf("%d records are left", len(got))
	}
	mustClose(t, l)
}

// TestCompactReaders reads while segments are replaced under the readers (run it with -race).
func TestCompactReaders(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	p := tp("t", 0)
	mustCreate(t, l, "t", compactConfig())
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := scan(l, p, 0, broker.ReadUncommitted)
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				for o, r := range got {
					if r.key != fmt.Sprint("k", o%5) {
						t.Errorf("offset %d: %v", o, r)
						return
					}
				}
			}
		})
	}
	for i := range 300 {
		mustAppend(t, l, p, kvBatch(t, record.None, kv{fmt.Sprint("k", i%5), fmt.Sprintf("%0200d", i)}))
		if i%20 == 19 {
			mustCompact(t, l)
		}
	}
	close(done)
	wg.Wait()
	mustClose(t, l)
}

// TestCompactCrash cuts the power at every operation of passes of the cleaner: the log has the same newest values,
// those that were acknowledged (I1), under the same offsets (I2), and no value comes back behind its tombstone.
func TestCompactCrash(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	seedtest.Each(t, seeds, compactCrashOnce)
}

func compactCrashOnce(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 6))
	mem := vfs.NewMem()
	now := newClock()
	p := tp("t", 0)
	acked := map[record.Offset]kv{}
	made := false
	for round := range 4 {
		inject := vfs.NewInject(mem)
		cfg := smallConfig(inject)
		cfg.Clock = now.time
		if rng.IntN(2) == 0 {
			cfg.CleanerMemory = 6 * keyBytes
		}
		l := mustOpen(t, cfg)
		if !made {
			made = true
			c := compactConfig()
			c.SegmentBytes = 1500
			mustCreate(t, l, "t", c)
		}
		crashRNG, mode := rand.New(rand.NewPCG(seed, uint64(round)+20)), vfs.CrashMode(rng.IntN(3))
		var mu sync.Mutex
		var after *vfs.Mem
		var survived map[record.Offset]kv
		k, seen := rng.IntN(150), 0
		snapshot := func(now bool) {
			mu.Lock()
			defer mu.Unlock()
			if seen++; after == nil && (now || seen > k) {
				survived = map[record.Offset]kv{}
				for o, r := range acked {
					survived[o] = r
				}
				after = mem.Crash(crashRNG, mode)
			}
		}
		inject.Observe(func(vfs.Op, string) { snapshot(false) })
		for i := range 30 {
			r := kv{fmt.Sprint("k", rng.IntN(8)), fmt.Sprintf("%d %d %0*d", round, i, rng.IntN(300), 1)}
			if rng.IntN(5) == 0 {
				r.value = "-"
			}
			res := mustAppend(t, l, p, kvBatch(t, record.Codec(rng.IntN(2)), r))
			mu.Lock()
			acked[res.Base] = r
			mu.Unlock()
			if rng.IntN(10) == 0 {
				mustCompact(t, l)
				now.pass(time.Duration(rng.IntN(50)) * time.Minute)
			}
		}
		snapshot(true)
		mustClose(t, l)
		mem, acked = after, survived
		if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) > 0 {
			t.Fatalf("round %d: check: %v %v", round, found, err)
		}
		cfg.FS = mem
		l = mustOpen(t, cfg)
		for range 2 {
			got := mustScan(t, l, p, 0)
			for o, r := range got {
				if want, ok := acked[o]; ok && want != r { // I2
					t.Fatalf("round %d: offset %d: %v, want %v", round, o, r, want)
				}
				acked[o] = r // in flight at the crash
			}
			if diff := cmp.Diff(state(acked), state(got)); diff != "" { // I1
				t.Fatalf("round %d (-want +got):\n%s", round, diff)
			}
			mustCompact(t, l)
		}
		mustClose(t, l)
	}
}

// TestCompactInject fails each operation of a pass in turn: the pass says so or not, and nothing is lost (I1).
func TestCompactInject(t *testing.T) {
	for _, rule := range []vfs.Rule{{Err: vfs.ErrNoSpace}, {Err: vfs.ErrNoSpace, Forever: true}} {
		fired := true
		for k := 1; fired; k++ {
			mem := vfs.NewMem()
			inject := vfs.NewInject(mem)
			l := mustOpen(t, smallConfig(inject))
			p := tp("t", 0)
			mustCreate(t, l, "t", compactConfig())
			for i := range 20 {
				mustAppend(t, l, p, kvBatch(t, record.None, kv{fmt.Sprint("k", i%3), fmt.Sprintf("%0300d", i)}))
			}
			want := state(mustScan(t, l, p, 0))
			rule.K = k
			inject.Fail(rule)
			cerr := l.Compact(t.Context())
			fired = inject.Fired() > 0
			inject.Heal()
			if !fired && cerr != nil {
				t.Fatalf("nothing was failed, yet: %v", cerr)
			}
			if l.failure() == nil {
				if diff := cmp.Diff(want, state(mustScan(t, l, p, 0))); diff != "" {
					t.Fatalf("operation %d:\n%s", k, diff)
				}
				mustCompact(t, l) // goes on where it was stopped
			}
			mem = mem.Crash(nil, vfs.KeepNothing)
			mustClose(t, l)
			l = mustOpen(t, smallConfig(mem))
			if diff := cmp.Diff(want, state(mustScan(t, l, p, 0))); diff != "" { // I1
				t.Fatalf("operation %d: after the crash:\n%s", k, diff)
			}
			mustCompact(t, l)
			for _, name := range dirNames(t, mem) {
				if strings.HasPrefix(name, cleanDir) {
					t.Errorf("operation %d: %s is left", k, name)
				}
			}
			mustClose(t, l)
		}
	}
}

// TestCompactDelete lets retention take from a topic with both policies.
func TestCompactDelete(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	c := compactConfig()
	c.CompactDelete, c.RetentionBytes = true, 3000
	mustCreate(t, l, "t", c)
	for i := range 30 {
		mustAppend(t, l, tp("t", 0), kvBatch(t, record.None, kv{fmt.Sprint("k", i), fmt.Sprintf("%0300d", i)}))
	}
	if err := l.EnforceRetention(); err != nil {
		t.Fatal(err)
	}
	if b, err := l.Bounds(t.Context(), tp("t", 0)); err != nil || b.Start < 10 {
		t.Errorf("%v %v", b, err)
	}
	if bases, err := segment.List(mem, "/log/data/t-0"); err != nil || len(bases) > 5 {
		t.Errorf("%v %v", bases, err)
	}
	mustClose(t, l)
}

// TestCompactEnd: whatever goes, a reader comes to the end of the log, also when nothing is appended any more.
func TestCompactEnd(t *testing.T) {
	mem := vfs.NewMem()
	now := newClock()
	cfg := smallConfig(mem)
	cfg.Clock = now.time
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", compactConfig())
	p := tp("t", 0)
	for i := range 8 {
		mustAppend(t, l, p, kvBatch(t, record.None, kv{"k", fmt.Sprintf("%0400d", i)}))
	}
	mustAppend(t, l, p, kvBatch(t, record.None, kv{"k", "-"}))
	for range 3 { // what is left is sealed by age, cleaned, and looked at again when tombstones have had their time
		now.pass(30 * time.Hour)
		if err := l.EnforceRetention(); err != nil {
			t.Fatal(err)
		}
		mustCompact(t, l)
		if got := mustScan(t, l, p, 0); len(state(got)) != 0 {
			t.Fatalf("%v", got)
		}
	}
	if got := mustScan(t, l, p, 0); len(got) > 4 {
		t.Errorf("%d records are left", len(got))
	}
	mustClose(t, l)
}

// TestDroppedNameUsedAgain keeps the files of a segment that has the name of one that could not be removed (I1).
func TestDroppedNameUsedAgain(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "t", compactConfig())
	p := tp("t", 0)
	for i := range 9 {
		mustAppend(t, l, p, kvBatch(t, record.None, kv{fmt.Sprint("k", i), fmt.Sprintf("%0300d", i)}))
	}
	part, err := l.partition(p)
	if err != nil {
		t.Fatal(err)
	}
	l.maintain.Lock()
	l.dropped = append(l.dropped, droppedSegment{part, &seg{info: part.segs[0].state()}})
	l.maintain.Unlock()
	if err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if got := mustScan(t, l, p, 0); len(got) != 9 {
		t.Fatalf("%d records", len(got))
	}
	mustClose(t, l)
	l = mustOpen(t, smallConfig(mem))
	mustClose(t, l)
}

// pressed compresses a plain batch as hard as it goes, as a producer with a high level does.
func pressed(t *testing.T, raw []byte, codec record.Codec) []byte {
	t.Helper()
	out := bytes.NewBuffer(bytes.Clone(raw[:record.HeaderSize]))
	w, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if codec == record.Zstd {
		z, zerr := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderCRC(false))
		if err = zerr; err == nil {
			_, err = z.Write(raw[record.HeaderSize:])
			err = errors.Join(err, z.Close())
		}
	} else if err == nil {
		_, err = w.Write(raw[record.HeaderSize:])
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	n := out.Bytes()
	binary.BigEndian.PutUint32(n[8:], uint32(len(n)-12))
	binary.BigEndian.PutUint16(n[21:], uint16(codec))
	binary.BigEndian.PutUint32(n[17:], crc32.Checksum(n[21:], crc32.MakeTable(crc32.Castagnoli)))
	return n
}

// TestCompactWellCompressed: a superseded record goes, also when its batch was compressed so well that it is
// larger without it. Else the key would be back when its tombstone has had its time.
func TestCompactWellCompressed(t *testing.T) {
	for _, codec := range []record.Codec{record.Gzip, record.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			now := newClock()
			cfg := smallConfig(vfs.NewMem())
			cfg.Clock = now.time
			l := mustOpen(t, cfg)
			defer mustClose(t, l)
			p := tp("t", 0)
			mustCreate(t, l, "t", compactConfig())
			b := record.NewBuilder(record.None)
			b.Append(start.UnixMilli(), []byte("deleted"), []byte("v"), nil)
			for i := range 400 {
				b.Append(start.UnixMilli(), fmt.Appendf(nil, "key-%d", i), fmt.Appendf(nil, `{"id":%d,"name":"customer %d","city":"c%d"}`, i*7919, i*31, i%17), nil)
			}
			raw, err := b.Build(0)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, p, pressed(t, raw, codec))
			mustAppend(t, l, p, kvBatch(t, record.None, kv{"deleted", "-"}))
			for i := range 8 {
				mustAppend(t, l, p, kvBatch(t, record.None, kv{fmt.Sprint("z", i), fmt.Sprintf("%0400d", i)}))
			}
			for range 2 {
				mustCompact(t, l)
				now.pass(2 * time.Hour)
			}
			left := state(mustScan(t, l, p, 0))
			if v, ok := left["deleted"]; ok || len(left) != 408 {
				t.Errorf("%d keys, want 408; the deleted one: %q", len(left), v)
			}
		})
	}
}

// A pass that is under way when its topic is told to delete in place of compacting takes nothing away any more.
func TestCompactThatIsCalledOff(t *testing.T) {
	inj := vfs.NewInject(vfs.NewMem())
	l := mustOpen(t, smallConfig(inj))
	defer mustClose(t, l)
	mustCreate(t, l, "keys", compactConfig())
	for i := range 40 {
		mustAppend(t, l, tp("keys", 0), kvBatch(t, record.None, kv{"k", fmt.Sprintf("%0100d", i)}))
	}
	var once sync.Once
	inj.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpSyncDir && strings.HasPrefix(path.Base(name), "clean-") {
			once.Do(func() {
				if err := l.SetTopicConfig(t.Context(), "keys", broker.TopicConfig{Delete: true}); err != nil {
					t.Error(err)
				}
			})
		}
	})
	mustCompact(t, l)
	inj.Observe(nil)
	once.Do(func() { t.Error("nothing was compacted") })
	if n := len(mustScan(t, l, tp("keys", 0), 0)); n != 40 {
		t.Errorf("%d records are left of 40", n)
	}
	if found, err := inj.ReadDir("/log/data/keys-0"); err != nil || slices.ContainsFunc(found, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "clean-") }) {
		t.Errorf("%v, %v", found, err)
	}
}
