package local

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

func fill(t *testing.T, l *Log, p record.TopicPartition, n int) {
	t.Helper()
	for i := range n {
		mustAppend(t, l, p, batchOf(t, fmt.Sprintf("%0900d", i)))
	}
}

// TestRetention drops by size and age, and never beyond the hold (I6).
func TestRetention(t *testing.T) {
	mem := vfs.NewMem()
	now := start
	cfg := smallConfig(mem)
	cfg.Clock = func() time.Time { return now }
	l := mustOpen(t, cfg)
	mustCreate(t, l, "size", broker.TopicConfig{RetentionBytes: 7000})
	mustCreate(t, l, "age", broker.TopicConfig{RetentionAge: 24 * time.Hour, SegmentAge: 100 * time.Hour})
	mustCreate(t, l, "held", broker.TopicConfig{RetentionBytes: 1, Tiered: true})
	for _, name := range []string{"size", "age", "held"} {
		fill(t, l, tp(name, 0), 30) // three batches a segment
	}
	starts := func(want map[string]record.Offset) {
		t.Helper()
		if err := l.EnforceRetention(); err != nil {
			t.Fatal(err)
		}
		for name, o := range want {
			got, b := mustRead(t, l, tp(name, 0))
			if b.Start != o || b.End != 30 || len(got) != 30-int(o) {
				t.Errorf("%s: %v and %d records, want a start of %d", name, b, len(got), o)
			}
			bases, err := segment.List(mem, "/log/data/"+name+"-0")
			if err != nil || len(bases) != (30-int(o)+2)/3 {
				t.Errorf("%s: segments %v, %v", name, bases, err)
			}
		}
	}
	starts(map[string]record.Offset{"size": 21, "age": 0, "held": 0})
	hold := func(o record.Offset) {
		if err := l.Hold(t.Context(), tp("held", 0), o); err != nil {
			t.Fatal(err)
		}
	}
	hold(10)
	starts(map[string]record.Offset{"held": 9})
	// The hold outlives a crash: another log with the same files keeps to it.
	crashed := mem.Crash(nil, vfs.KeepNothing)
	mustClose(t, l)
	mem, cfg.FS = crashed, crashed
	l = mustOpen(t, cfg)
	starts(map[string]record.Offset{"size": 21, "held": 9})
	now = now.Add(25 * time.Hour)
	starts(map[string]record.Offset{"age": 30, "held": 9})
	hold(30)
	starts(map[string]record.Offset{"held": 27}) // as Kafka: the last segment stays, since without it the size would be below the limit
	for _, name := range []string{"size", "age", "held"} {
		if res := mustAppend(t, l, tp(name, 0), batchOf(t, "next")); res.Base != 30 { // I2
			t.Errorf("%s: base %d", name, res.Base)
		}
	}
	var oor *broker.OutOfRangeError
	got, err := l.Fetch(t.Context(), []broker.FetchRange{{TP: tp("held", 0), From: 8}}, broker.FetchOptions{})
	if err != nil || !errors.As(got[0].Err, &oor) || oor.Bounds.Start != 27 {
		t.Errorf("%+v %v", got, err)
	}
	mustClose(t, l)
	if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) > 0 {
		t.Errorf("check: %v %v", found, err)
	}
}

func TestDeleteRecords(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "t", broker.TopicConfig{})
	fill(t, l, tp("t", 0), 10)
	for _, c := range []struct{ before, want record.Offset }{{4, 4}, {2, 4}, {4, 4}, {5, 5}} {
		if got, err := l.DeleteRecords(t.Context(), tp("t", 0), c.before); err != nil || got != c.want {
			t.Fatalf("delete before %d: %d, %v", c.before, got, err)
		}
	}
	var oor *broker.OutOfRangeError
	if _, err := l.DeleteRecords(t.Context(), tp("t", 0), 11); !errors.As(err, &oor) {
		t.Fatalf("beyond the end: %v", err)
	}
	mem = mem.Crash(nil, vfs.KeepNothing)
	mustClose(t, l)
	l = mustOpen(t, smallConfig(mem))
	if got, b := mustRead(t, l, tp("t", 0)); b.Start != 5 || len(got) != 5 {
		t.Fatalf("after the crash: %v, %d records", b, len(got))
	}
	if got, err := l.DeleteRecords(t.Context(), tp("t", 0), -1); err != nil || got != 10 {
		t.Fatalf("all: %d, %v", got, err)
	}
	if err := l.EnforceRetention(); err != nil {
		t.Fatal(err)
	}
	if bases, err := segment.List(mem, "/log/data/t-0"); err != nil || len(bases) != 0 {
		t.Fatalf("segments %v, %v", bases, err)
	}
	mustClose(t, l)
	l = mustOpen(t, smallConfig(mem))
	if res := mustAppend(t, l, tp("t", 0), batchOf(t, "x")); res.Base != 10 { // I2
		t.Fatalf("base %d", res.Base)
	}
	mustClose(t, l)
}

// A compacted topic keeps everything: retention by age would take the only value of a key.
func TestRetentionLeavesCompactedTopics(t *testing.T) {
	p := &partition{topic: &topic{}}
	p.topic.set(broker.TopicConfig{Compact: true, RetentionAge: 1, RetentionBytes: 1, SegmentAge: time.Hour}, broker.DefaultTopicConfig())
	for i := range 3 {
		p.segs = append(p.segs, &seg{sealed: true, info: segment.Info{Base: record.Offset(i), Next: record.Offset(i + 1), Size: 100, MaxTimestamp: 1}})
	}
	if start, _ := p.expired(1 << 40); start != -1 {
		t.Errorf("retention moves the log start of a compacted topic to %d", start)
	}
}

// cleanHook calls a function once, when the files of new segments are durable and not yet put into place.
type cleanHook struct {
	vfs.FS
	call atomic.Pointer[func()]
}

func (h *cleanHook) SyncDir(name string) error {
	if strings.Contains(name, cleanDir) {
		if f := h.call.Swap(nil); f != nil {
			(*f)()
		}
	}
	return h.FS.SyncDir(name)
}

// TestDropWhileCompacting: retention takes the first segment of a swap, which then comes to nothing. The old
// segments that stay are still to be cleaned before the tombstones behind them go: no deleted key comes back.
func TestDropWhileCompacting(t *testing.T) {
	now := newClock()
	h := &cleanHook{FS: vfs.NewMem()}
	l := mustOpen(t, Config{Dir: "log", FS: h, Clock: now.time})
	defer mustClose(t, l)
	p := tp("t", 0)
	cfg := compactConfig()
	cfg.SegmentBytes, cfg.MaxMessageBytes = 8<<20, 10<<20
	mustCreate(t, l, "t", cfg)
	big, n := strings.Repeat("x", 4<<20), 0
	add := func(k int) {
		for range k {
			mustAppend(t, l, p, kvBatch(t, record.None, kv{fmt.Sprint("fill", n), big}))
			n++
		}
	}
	add(2)
	mustAppend(t, l, p, kvBatch(t, record.None, kv{"deleted", "v"}))
	add(18) // more than one swap takes
	mustAppend(t, l, p, kvBatch(t, record.None, kv{"deleted", "-"}))
	add(3)
	called := false
	f := func() {
		called = true
		_, err := l.DeleteRecords(t.Context(), p, 2)
		if err = errors.Join(err, l.Checkpoint()); err != nil {
			t.Error(err)
		}
	}
	h.call.Store(&f)
	for range 3 {
		mustCompact(t, l)
		now.pass(2 * time.Hour)
		if v, ok := state(mustScan(t, l, p, 0))["deleted"]; ok {
			t.Fatalf("a deleted key is back: %q", v)
		}
	}
	if !called {
		t.Fatal("nothing was swapped")
	}
	if got := len(state(mustScan(t, l, p, 0))); got != n-2 {
		t.Errorf("%d keys are left, want %d", got, n-2)
	}
}
