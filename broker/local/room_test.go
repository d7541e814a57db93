package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// taken is a file of another program, as long as it leaves so much of the disk.
func taken(t *testing.T, mem *vfs.Mem, leave int64) {
	t.Helper()
	f, err := mem.Create("/other")
	if err == nil {
		var s vfs.Space
		if s, err = mem.Space("/"); err == nil {
			err = errors.Join(f.Preallocate(max(s.Free-leave, 0)), f.Close())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// said collects what a log says.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), text)
}

const reserve = 100 << 10

// roomyLog is a log with a reserve on a disk of 1 MiB, that writes no checkpoint by its appends.
func roomyLog(t *testing.T, d Durability) (*Log, *vfs.Mem, *said) {
	t.Helper()
	mem, lines := vfs.NewMem(), &said{}
	mem.Limit(1 << 20)
	cfg := smallConfig(vfs.NewInject(mem))
	cfg.Durability, cfg.DiskReserve, cfg.Logger = d, reserve, slog.New(slog.NewTextHandler(lines, nil))
	cfg.CheckpointBytes = 1 << 30
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	mustCreate(t, l, broker.OffsetsTopic, broker.TopicConfig{})
	return l, mem, lines
}

// untilCheckpoint does something for which a log writes a checkpoint by itself, and waits for that.
func untilCheckpoint(t *testing.T, l *Log, do func()) {
	t.Helper()
	begun := make(chan struct{})
	var once sync.Once
	inject := l.fs.(*vfs.Inject)
	inject.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpRename && strings.HasPrefix(path.Base(name), checkpointFile) {
			once.Do(func() { close(begun) })
		}
	})
	do()
	select {
	case <-begun:
	case <-time.After(10 * time.Second):
		t.Fatal("no checkpoint was written")
	}
	inject.Observe(nil)
	if err := l.EnforceRetention(); err != nil { // waits for its end, and has nothing to do
		t.Fatal(err)
	}
}

// TestReserve: appends are refused before they get an offset, and taken again when there is a quarter of the reserve more than
// it; what others wait for goes on until half of the reserve is left (I2).
func TestReserve(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		t.Run(d.String(), func(t *testing.T) {
			l, mem, lines := roomyLog(t, d)
			refused := func(topic string, want bool) {
				t.Helper()
				_, err := appendEither(t, l, tp(topic, 0), batchOf(t, "refused?"))
				if want && !errors.Is(err, broker.ErrStorage) || !want && err != nil {
					t.Fatalf("%s, refused %v: %v", topic, want, err)
				}
			}
			first := producedBatch(t, 7, 0, 0, "first")
			mustAppend(t, l, tp("t", 0), bytes.Clone(first))
			mustAppend(t, l, tp("t", 0), txnBatch(t, 8, 0, 0, "open"))
			refused(broker.OffsetsTopic, false)

			leave := func(n int64) {
				t.Helper()
				taken(t, mem, n)
				l.room.look()
			}
			leave(reserve + 4000)
			refused("t", false)
			untilCheckpoint(t, l, func() { leave(reserve - 1) })
			leave(reserve - 1)
			for range 3 {
				refused("t", true)
			}
			_, err := appendEither(t, l, tp("t", 0), batchOf(t, "refused"))
			for _, part := range []string{"/log", fmt.Sprint(reserve - 1), fmt.Sprint(reserve)} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("the message has no %q: %v", part, err)
				}
			}
			if r := l.Room(); r.Refused == nil || r.Reserve != reserve || r.Free != reserve-1 {
				t.Errorf("%+v", r)
			}
			// What makes room goes on.
			refused(broker.OffsetsTopic, false)
			if o, err := l.AppendMarker(t.Context(), tp("t", 0), broker.TxnMarker{ProducerID: 8, Commit: true}); err != nil || o != 3 {
				t.Errorf("marker: %d %v", o, err)
			}
			if res, err := appendEither(t, l, tp("t", 0), first); err != nil || !res.Duplicate || res.Base != 0 {
				t.Errorf("what is there already: %+v %v", res, err)
			}
			if err := errors.Join(l.Hold(t.Context(), tp("t", 0), 1), l.EnforceRetention(), l.Checkpoint()); err != nil {
				t.Error(err)
			}
			if got, b := mustRead(t, l, tp("t", 0)); len(got) != 4 || b.End != 4 {
				t.Errorf("%d records, %v", len(got), b)
			}
			leave(reserve/2 - 1)
			refused(broker.OffsetsTopic, true)
			if err := l.Hold(t.Context(), tp("t", 0), 2); err != nil {
				t.Error(err)
			}
			leave(reserve / 2 * 2)
			refused(broker.OffsetsTopic, false)
			refused("t", true) // not yet
			leave(reserve + reserve/4 - 1)
			refused("t", true)
			leave(reserve + reserve/4)
			refused("t", false)
			if _, b := mustRead(t, l, tp("t", 0)); b.End != 5 {
				t.Errorf("%v", b)
			}
			if begin, end := lines.count("nearly full; no appends"), lines.count("room on the disk again"); begin != 1 || end != 1 {
				t.Errorf("said %d times that the disk is full, %d times that it is not", begin, end)
			}
			mustClose(t, l)
		})
	}
}

// TestRoomByItself: what makes room looks at the disk when it is through, and appends count themselves.
func TestRoomByItself(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		t.Run(d.String(), func(t *testing.T) {
			l, mem, _ := roomyLog(t, d)
			mustCreate(t, l, "old", broker.TopicConfig{RetentionBytes: 1000})
			mustCreate(t, l, "gone", broker.TopicConfig{})
			fill(t, l, tp("old", 0), 80)
			fill(t, l, tp("gone", 0), 80)
			full := func() {
				t.Helper()
				leanJournal(t, l)
				taken(t, mem, reserve+10_000)
				l.room.look()
				for i := 0; ; i++ {
					_, err := appendEither(t, l, tp("t", 0), batchOf(t, strings.Repeat("x", 900)))
					if errors.Is(err, broker.ErrStorage) {
						return
					}
					if err != nil || i > 50 {
						t.Fatalf("append %d: %v", i, err)
					}
				}
			}
			full()
			if err := l.EnforceRetention(); err != nil {
				t.Fatal(err)
			}
			fill(t, l, tp("t", 0), 1)
			full()
			if err := l.DeleteTopic(t.Context(), "gone"); err != nil {
				t.Fatal(err)
			}
			fill(t, l, tp("t", 0), 1)
			mustClose(t, l)
		})
	}
}

// TestShortageMakesRoom: a log whose appends are refused gets by itself what it has of room, which is spare journal files and those
// before a checkpoint. Without appends and retention nothing else would ask for that.
func TestShortageMakesRoom(t *testing.T) {
	for _, c := range []struct {
		name         string
		spare, again bool // the first checkpoint fails
	}{{"journal files", false, false}, {"spare ones", true, false}, {"at the second try", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			mem.Limit(1 << 20)
			inject := vfs.NewInject(mem)
			cfg := smallConfig(inject)
			cfg.DiskReserve, cfg.CheckpointBytes, cfg.RetentionInterval = reserve, 1<<30, time.Millisecond
			l := mustOpen(t, cfg)
			mustCreate(t, l, "t", broker.TopicConfig{})
			fill(t, l, tp("t", 0), 50)
			if c.spare {
				mustCheckpoint(t, l)
			}
			if c.again {
				inject.Fail(vfs.Rule{Op: vfs.OpCreate, Pattern: checkpointFile + "*", K: 1, Err: syscall.EMFILE})
			}
			if n := len(journals(t, mem)); n < 7 {
				t.Fatalf("only %d journal files", n)
			}
			untilCheckpoint(t, l, func() {
				taken(t, mem, reserve-1)
				l.room.look()
			})
			if n := len(journals(t, mem)); n != 1 {
				t.Errorf("%d journal files", n)
			}
			fill(t, l, tp("t", 0), 1)
			after := mem.Crash(nil, vfs.KeepNothing)
			mustClose(t, l)
			l = mustOpen(t, smallConfig(after))
			if _, b := mustRead(t, l, tp("t", 0)); b.End != 51 { // I1
				t.Errorf("%v", b)
			}
			mustClose(t, l)
		})
	}
}

// TestFailedCheckpointIsOwed: one that fails is tried again by itself, whoever wanted it. What it was to remove nobody asks for twice.
func TestFailedCheckpointIsOwed(t *testing.T) {
	l, mem, inject := injected(t, time.Millisecond)
	fill(t, l, tp("t", 0), 12)
	if _, err := l.DeleteRecords(t.Context(), tp("t", 0), 9); err != nil {
		t.Fatal(err)
	}
	untilCheckpoint(t, l, func() {
		inject.Fail(vfs.Rule{Op: vfs.OpCreate, Pattern: checkpointFile + "*", K: 1, Err: syscall.EMFILE})
		for inject.Fired() == 0 {
			_ = l.Checkpoint()
		}
	})
	if bases, err := segment.List(mem, "/log/data/t-0"); err != nil || !slices.Equal(bases, []record.Offset{9}) {
		t.Errorf("segments %v, %v", bases, err)
	}
	mustClose(t, l)
}

// TestLooksAreRare: the disk is asked once for many appends.
func TestLooksAreRare(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		inject := vfs.NewInject(vfs.NewMem())
		l := mustOpen(t, Config{Dir: "/log", FS: inject, Clock: at(start), Durability: d, RetentionInterval: 1 << 40})
		mustCreate(t, l, "t", broker.TopicConfig{})
		before, began := inject.Count(vfs.OpSpace), l.room.claimed.Load()
		raw := batchOf(t, strings.Repeat("x", 20_000))
		for range 2000 {
			mustAppend(t, l, tp("t", 0), bytes.Clone(raw))
		}
		claimed := l.room.claimed.Load() - began
		// Beside those of appends one a second.
		if n := inject.Count(vfs.OpSpace) - before; claimed < 40_000_000 || n > int(claimed/lookEvery)+20 {
			t.Errorf("%s: %d looks for %d bytes", d, n, claimed)
		}
		if l.room.claimed.Load() != l.room.settled.Load() {
			t.Errorf("%s: %d bytes claimed, %d settled", d, l.room.claimed.Load(), l.room.settled.Load())
		}
		mustClose(t, l)
	}
}

// TestClaims: what has an offset and is not written counts, whoever looks when.
func TestClaims(t *testing.T) {
	mem := vfs.NewMem()
	mem.Limit(1 << 20)
	r := newRoom(&Config{FS: mem, Dir: "/", DiskReserve: reserve, Logger: slog.New(slog.DiscardHandler)}, func() {})
	r.look()
	var claimed atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for claimed.Load() < 2<<20 && r.claim(1000, leavingAll) == nil {
				claimed.Add(1000)
				r.look()
			}
		})
	}
	wg.Wait()
	// Near the end claims of several at once may refuse each other, never more.
	if n := claimed.Load(); n > 1<<20-reserve || n < 1<<20-reserve-8000 || n != r.claimed.Load() {
		t.Errorf("%d of %d bytes were claimed, and %d", n, 1<<20-reserve, r.claimed.Load())
	}
	for _, part := range []leaving{leavingHalf, leavingMore, leavingQuarter} {
		if err := r.claim(1000, part); err != nil {
			t.Errorf("needed by others, leaving %d eighths: %v", part, err)
		}
	}
	r.settle(r.claimed.Load())
	if r.look(); r.claim(1000, leavingAll) != nil {
		t.Error("all came to nothing, and still there is no room")
	}
}

// TestUnknownRoom: where the disk says nothing, appends are taken, and that is said.
func TestUnknownRoom(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   int64
		fails string // from then on; empty: never
		say   string
		taken bool
	}{
		{"at start", 0, "open", "no reserve is kept of it", true},
		{"set, at start", 400 << 10, "open", "no reserve is kept until it is", true},
		{"later", 0, "look", "no reserve is kept until it is", true},
		{"off", -1, "", "", true},
		{"default", 0, "", "", false},
		{"another", 300 << 10, "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, lines := vfs.NewMem(), &said{}
			mem.Limit(4 << 20)
			inject := vfs.NewInject(mem)
			fail := func(from string) {
				if c.fails == from {
					inject.Fail(vfs.Rule{Op: vfs.OpSpace, K: 1, Forever: true, Err: syscall.EIO})
				}
			}
			fail("open")
			cfg := smallConfig(inject)
			cfg.DiskReserve, cfg.Logger = c.cfg, slog.New(slog.NewTextHandler(lines, nil))
			l := mustOpen(t, cfg)
			mustCreate(t, l, "t", broker.TopicConfig{})
			taken(t, mem, 350<<10) // less than a tenth
			l.room.look()
			if c.fails == "look" && l.Room().Refused == nil {
				t.Error("there is room before nobody knows")
			}
			fail("look")
			l.room.look()
			if _, err := appendEither(t, l, tp("t", 0), batchOf(t, "x")); c.taken != (err == nil) {
				t.Errorf("append: %v", err)
			}
			if c.say != "" && lines.count(c.say) != 1 {
				t.Errorf("%q was said %d times", c.say, lines.count(c.say))
			}
			if n := inject.Count(vfs.OpSpace); c.name == "off" && n > 0 {
				t.Errorf("%d looks", n)
			}
			inject.Heal()
			l.room.look()
			if reserved := l.room.reserve > 0; reserved != (c.name != "off" && c.name != "at start") || reserved && c.name != "another" && l.Room().Refused == nil {
				t.Errorf("%+v", l.Room())
			}
			if c.name == "default" && l.room.reserve != 4<<20/smallestShare {
				t.Errorf("the reserve is %d", l.room.reserve)
			}
			mustClose(t, l)
		})
	}
}

// TestReserveIsEnough lets several producers and another program fill a small disk. The log refuses appends, and never fails:
// what has an offset is written. It goes on when retention made room, and what a crash leaves opens on the full disk (I1, I2).
func TestReserveIsEnough(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		t.Run(d.String(), func(t *testing.T) {
			seedtest.Each(t, 60, func(t *testing.T, seed uint64) { fillDisk(t, seed, d) })
		})
	}
}

// acks is what appends to the partitions of a topic were told.
type acks struct {
	mu  sync.Mutex
	got [3]map[record.Offset]string
}

func (a *acks) add(p int32, o record.Offset, v string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.got[p] == nil {
		a.got[p] = map[record.Offset]string{}
	}
	a.got[p][o] = v
}

func (a *acks) clone() *acks {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &acks{}
	for p := range a.got {
		c.got[p] = maps.Clone(a.got[p])
	}
	return c
}

// check compares a log with them; no offset is missing, and each is the answer's.
func (a *acks) check(t *testing.T, l *Log) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, acked := range a.got {
		got, b := mustRead(t, l, tp("t", int32(p)))
		for o, v := range acked {
			if o >= b.Start && got[o] != v {
				t.Fatalf("partition %d, offset %d of %v: %.20q, want %.20q", p, o, b, got[o], v)
			}
		}
	}
}

// untilRefused has producers append, a file of another program grow meanwhile, until appends are refused.
func untilRefused(t *testing.T, l *Log, mem *vfs.Mem, rng *rand.Rand, a *acks) {
	t.Helper()
	var wg sync.WaitGroup
	for p := range int32(3) {
		prng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		wg.Go(func() {
			for i := range 3000 {
				v := fmt.Sprintf("%d %d %0*d", p, i, 1+prng.IntN(1500), 7)
				res, err := appendEither(t, l, tp("t", p), batchOf(t, v))
				if err != nil {
					if !errors.Is(err, broker.ErrStorage) || l.failure() != nil {
						t.Errorf("append: %v", err)
					}
					return
				}
				a.add(p, res.Base, v)
			}
			t.Error("the disk was never full")
		})
	}
	if rng.IntN(2) == 0 { // while the log's own looks are a second apart
		f, err := mem.Open("/grows")
		if errors.Is(err, fs.ErrNotExist) {
			f, err = mem.Create("/grows")
		}
		if err != nil {
			t.Fatal(err)
		}
		size, _ := f.Size()
		if err := errors.Join(f.Preallocate(size+int64(rng.IntN(6<<10))), f.Close()); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

func fillDisk(t *testing.T, seed uint64, d Durability) {
	rng := rand.New(rand.NewPCG(seed, 13))
	mem := vfs.NewMem()
	inject := vfs.NewInject(mem)
	cfg := smallConfig(inject)
	cfg.Durability, cfg.DiskReserve = d, 6*cfg.JournalBytes
	if rng.IntN(2) == 0 { // no checkpoint makes room in between
		cfg.CheckpointBytes = 1 << 30
	}
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{Partitions: 3, RetentionBytes: 8 << 10})
	mem.Limit(120<<10 + int64(rng.IntN(60<<10)))
	a := &acks{}
	for range 3 {
		l.room.look()
		var mu sync.Mutex
		var after *vfs.Mem
		var was *acks
		k, seen := rng.IntN(300), 0
		crash := func(now bool) {
			mu.Lock()
			defer mu.Unlock()
			if seen++; after == nil && (now || seen > k) {
				was = a.clone() // first: what is acknowledged meanwhile may be lost
				after = mem.Crash(rng, crashMode(rng, d))
			}
		}
		prng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		inject.Observe(func(vfs.Op, string) { crash(false) })
		untilRefused(t, l, mem, prng, a)
		inject.Observe(nil)
		crash(true)
		if t.Failed() {
			break
		}
		a.check(t, l)
		again := cfg
		again.FS = after
		l2 := mustOpen(t, again) // on a disk as full as that
		was.check(t, l2)
		mustClose(t, l2)
		if found, err := CheckDir(t.Context(), after, "/log"); err != nil || len(found) > 0 {
			t.Fatalf("check: %v %v", found, err)
		}
		if err := l.EnforceRetention(); err != nil {
			t.Fatalf("retention: %v", err)
		}
		_ = mem.Remove("/grows")
	}
	mustClose(t, l)
}

// crashMode is what a log of that durability must survive.
func crashMode(rng *rand.Rand, d Durability) vfs.CrashMode {
	if d == DurabilityNone {
		return vfs.KeepAll
	}
	return vfs.CrashMode(rng.IntN(3))
}
