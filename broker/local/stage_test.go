package local

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// A batch is in its segment before the journal's sync ends, and until then no reader sees it, nor after it if it fails. A crash
// that keeps what the segment got and loses the journal's frame leaves nothing of it (I1, I2).
func TestStagedIsNotVisible(t *testing.T) {
	for _, fail := range []error{nil, syscall.EIO} {
		mem := vfs.NewMem()
		inj := vfs.NewInject(mem)
		l := mustOpen(t, smallConfig(inj))
		mustCreate(t, l, "t", broker.TopicConfig{})
		mustAppend(t, l, tp("t", 0), batchOf(t, "first")) // makes the segment
		staged := make(chan struct{})
		var once sync.Once
		var crashed *vfs.Mem
		inj.Observe(func(op vfs.Op, name string) {
			switch {
			case op == vfs.OpWrite && path.Ext(name) == ".wal":
				once.Do(func() {
					l.staged.Wait() // the frame is not written yet
					crashed = mem.Crash(nil, vfs.KeepAll)
					close(staged)
				})
			case op == vfs.OpSync && path.Ext(name) == ".wal":
				<-staged
				wantValues(t, l, "first")
			}
		})
		if fail != nil {
			inj.Fail(vfs.Rule{Op: vfs.OpSync, Pattern: "*.wal", K: 1, Forever: true, Err: fail})
		}
		_, err := l.Append(t.Context(), tp("t", 0), batchOf(t, "second"))
		inj.Observe(nil)
		if !errors.Is(err, fail) {
			t.Fatalf("append: %v, want %v", err, fail)
		}
		if fail == nil {
			wantValues(t, l, "first", "second")
		} else {
			wantValues(t, l, "first")
		}
		mustClose(t, l)

		raw, err := vfs.ReadFile(crashed, segment.FileName("/log/data/t-0", 0, segment.LogSuffix))
		if err != nil || !strings.Contains(string(raw), "second") {
			t.Fatalf("the batch was not staged before its frame was written: %q, %v", raw, err)
		}
		l = mustOpen(t, smallConfig(crashed))
		wantValues(t, l, "first")
		mustAppend(t, l, tp("t", 0), batchOf(t, "third"))
		wantValues(t, l, "first", "third")
		mustClose(t, l)
	}
}

// Batches of one group that fit their segment are staged; from the first that does not on, all are written when they are applied, also
// those that would fit, so that offsets stay in order and segments within their size (I2).
func TestStageUpToTheSegmentsEnd(t *testing.T) {
	const most = 1500
	mem := vfs.NewMem()
	inj := vfs.NewInject(mem)
	l := mustOpen(t, smallConfig(inj))
	mustCreate(t, l, "t", broker.TopicConfig{SegmentBytes: most})
	mustAppend(t, l, tp("t", 0), batchOf(t, "0"))
	queued := make(chan struct{})
	var once sync.Once
	inj.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpSync && path.Ext(name) == ".wal" {
			once.Do(func() { <-queued })
		}
	})
	want := []string{"0"}
	var told sync.WaitGroup
	for i, size := range []int{1, 400, 400, 700, 1, 1, 900, 900, 1} {
		o := record.Offset(i + 1)
		want = append(want, fmt.Sprintf("%0*d", size, o))
		told.Add(1)
		l.AppendThen(t.Context(), broker.Append{TP: tp("t", 0), Batch: batchOf(t, want[o]), Then: func(res broker.AppendResult, err error) {
			defer told.Done()
			if err != nil || res.Base != o {
				t.Errorf("append %d: %+v, %v", o, res, err)
			}
		}})
	}
	close(queued)
	told.Wait()
	wantValues(t, l, want...)
	mustClose(t, l)
	bases, err := segment.List(mem, "/log/data/t-0")
	if err != nil || len(bases) != 4 {
		t.Errorf("segments %v, %v", bases, err)
	}
	for _, base := range bases {
		if raw, err := vfs.ReadFile(mem, segment.FileName("/log/data/t-0", base, segment.LogSuffix)); err != nil || len(raw) > most {
			t.Errorf("segment %d has %d bytes, %v", base, len(raw), err)
		}
	}
	l = mustOpen(t, smallConfig(mem))
	wantValues(t, l, want...)
	mustClose(t, l)
}

// wantValues compares all that a reader sees of partition 0 of topic t.
func wantValues(t *testing.T, l *Log, want ...string) {
	t.Helper()
	got, b, err := readAll(l, tp("t", 0))
	if err != nil || len(got) != len(want) || int(b.End) != len(want) { // no Fatal: goroutines of the log come here too
		t.Errorf("readers see %v, and an end of %d, %v; want %q", got, b.End, err, want)
	}
	for o, v := range want {
		if got[record.Offset(o)] != v {
			t.Errorf("offset %d: %q, want %q", o, got[record.Offset(o)], v)
		}
	}
}

// A write that a full disk cuts short leaves nothing in a segment that is ended right after it: neither a sealed one, which is as long
// as its checkpoint says, nor one behind which recovery finds newer ones (I1).
func TestTornWriteBeforeARoll(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		mem := vfs.NewMem()
		inj := vfs.NewInject(mem)
		clock := newClock()
		cfg := smallConfig(inj)
		cfg.Durability, cfg.Clock = d, clock.time
		l := mustOpen(t, cfg)
		mustCreate(t, l, "t", broker.TopicConfig{SegmentAge: time.Minute})
		mustAppend(t, l, tp("t", 0), batchOf(t, "first"))
		inj.Fail(vfs.Rule{Op: vfs.OpWrite, Pattern: "*" + segment.LogSuffix, K: 1, Err: vfs.ErrNoSpace, Short: 70})
		inj.Observe(func(op vfs.Op, name string) {
			if op == vfs.OpSync && path.Ext(name) == ".wal" { // staged, not applied: it will be in the next segment
				l.staged.Wait()
				clock.pass(time.Hour)
			}
		})
		res, err := l.Append(t.Context(), tp("t", 0), batchOf(t, "second"))
		inj.Observe(nil)
		if d == DurabilityNone && errors.Is(err, vfs.ErrNoSpace) {
			clock.pass(time.Hour)
			res, err = l.Append(t.Context(), tp("t", 0), batchOf(t, "second"))
		}
		if err != nil || res.Base != 1 || inj.Fired() != 1 {
			t.Fatalf("%s: append: %+v, %v, %d writes failed", d, res, err, inj.Fired())
		}
		open := func(m *vfs.Mem) {
			cfg.FS = m
			again := mustOpen(t, cfg)
			wantValues(t, again, "first", "second")
			mustClose(t, again)
		}
		open(mem.Crash(nil, vfs.KeepAll))
		if err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		open(mem.Crash(nil, vfs.KeepAll))
		mustClose(t, l)
	}
}
