package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// Defaults that are set hold at once for topics that are there, where these say nothing themselves; without them the log's
// own hold again. What is open at a topic stays so over a restart.
func TestSetTopicDefaults(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "open", broker.TopicConfig{Partitions: 2})
	mustCreate(t, l, "own", broker.TopicConfig{SegmentBytes: 5 << 10, RetentionAge: -1, MaxMessageBytes: 2000, CreateTime: true})
	set := func(cfg broker.TopicConfig) {
		t.Helper()
		if err := l.SetTopicDefaults(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	type want struct {
		segment    int64
		age        time.Duration
		message    int32
		appendTime bool
	}
	check := func(name string, w want) {
		t.Helper()
		c := l.topics[name].config()
		if got := (want{c.SegmentBytes, c.RetentionAge, c.MaxMessageBytes, c.LogAppendTime}); got != w {
			t.Errorf("%s has %+v, want %+v", name, got, w)
		}
	}
	changed := broker.TopicConfig{SegmentBytes: 4 << 10, RetentionAge: time.Hour, MaxMessageBytes: 1000, LogAppendTime: true}
	plain, ours, tuned := want{3 << 10, 0, 1<<20 + 12, false}, want{5 << 10, -1, 2000, false}, want{4 << 10, time.Hour, 1000, true}
	check("open", plain)
	set(changed)
	check("open", tuned)
	check("own", ours)
	mustCreate(t, l, "later", broker.TopicConfig{})
	check("later", tuned)
	if err := l.CreatePartitions(t.Context(), "open", 3); err != nil {
		t.Fatal(err)
	}
	check("open", tuned)
	if _, err := l.Append(t.Context(), tp("open", 0), batchOf(t, string(make([]byte, 1500)))); !errors.Is(err, broker.ErrTooLarge) {
		t.Errorf("1500 bytes where 1000 are allowed: %v", err)
	}
	if res := mustAppend(t, l, tp("open", 0), batchOf(t, "x")); res.LogAppendTime != start.UnixMilli() {
		t.Errorf("append time %d", res.LogAppendTime)
	}
	if err := l.SetTopicDefaults(t.Context(), broker.TopicConfig{SegmentBytes: 1}); !errors.Is(err, broker.ErrInvalidTopic) {
		t.Errorf("segments of a byte: %v", err)
	}
	check("open", tuned)
	mustClose(t, l)

	l = mustOpen(t, smallConfig(mem))
	check("open", plain) // who sets defaults keeps them
	check("own", ours)
	set(changed)
	check("open", tuned)
	set(broker.TopicConfig{})
	check("open", plain)
	check("later", plain)
	if err := l.SetTopicConfig(t.Context(), "own", broker.TopicConfig{MaxMessageBytes: 3000}); err != nil {
		t.Fatal(err)
	}
	check("own", want{3 << 10, 0, 3000, false})
	if n := l.topics["open"].config().Partitions; n != 3 {
		t.Errorf("%d partitions", n)
	}
	mustClose(t, l)
}

// Older versions read what holds for a topic from its state; of a state that they wrote, what is the default by itself is open.
func TestTopicStateOfVersions(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "t", broker.TopicConfig{MinCompactionLag: -1, RetentionAge: time.Hour})
	mustClose(t, l)
	b, err := vfs.ReadFile(mem, "/log/topics.json")
	if err != nil {
		t.Fatal(err)
	}
	var file topicsState
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	c := file.Topics[0].Config
	if c.SegmentBytes != 3<<10 || c.SegmentAge != time.Hour || c.MaxMessageBytes != 1<<20+12 || c.DeleteRetention != 24*time.Hour || c.MinDirtyRatio != 0.5 || c.MinCompactionLag != 0 {
		t.Errorf("older versions read %+v", c)
	}
	file.Topics[0].Own = nil
	want := broker.TopicConfig{Partitions: 1, SegmentBytes: 3 << 10, RetentionAge: time.Hour, RetentionBytes: -1}
	if got := file.Topics[0].own(); got != want {
		t.Errorf("of an older version: %+v, want %+v", got, want)
	}
	file.Topics[0].Config.RetentionAge, want.RetentionAge = 0, -1 // no limit was for ever, and no later flag ends that
	if got := file.Topics[0].own(); got != want {
		t.Errorf("of an older version without retention: %+v, want %+v", got, want)
	}
}

// Defaults bring a sync that is due by them at once, for what came before too.
func TestFlushOfTopicDefaults(t *testing.T) {
	l, mem := openUnsynced(t, broker.TopicConfig{})
	defer mustClose(t, l)
	for range 3 {
		mustAppend(t, l, tp("t", 0), batchOf(t, "x"))
	}
	if got := left(t, mem); got != 0 {
		t.Fatalf("%d records are synced", got)
	}
	if err := l.SetTopicDefaults(t.Context(), broker.TopicConfig{FlushMessages: 2}); err != nil {
		t.Fatal(err)
	}
	if got := left(t, mem); got != 3 {
		t.Fatalf("%d records are synced, want 3", got)
	}
}

// Nothing goes before the defaults are known: they may keep it.
func TestAwaitDefaults(t *testing.T) {
	cfg := smallConfig(vfs.NewMem())
	cfg.AwaitDefaults, cfg.DefaultTopic.RetentionBytes = true, 1
	l := mustOpen(t, cfg)
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{})
	fill(t, l, tp("t", 0), 9)
	starts := func(want int) {
		t.Helper()
		if err := l.EnforceRetention(); err != nil {
			t.Fatal(err)
		}
		if _, b := mustRead(t, l, tp("t", 0)); int(b.Start) != want {
			t.Fatalf("the log starts at %d, want %d", b.Start, want)
		}
	}
	mustCreate(t, l, "keys", compactConfig())
	for i := range 40 {
		mustAppend(t, l, tp("keys", 0), kvBatch(t, record.None, kv{"k", fmt.Sprintf("%0100d", i)}))
	}
	compacted := func(want bool) {
		t.Helper()
		mustCompact(t, l)
		if n := len(mustScan(t, l, tp("keys", 0), 0)); (n < 40) != want {
			t.Fatalf("%d of 40 records are left", n)
		}
	}
	starts(0)
	compacted(false)
	set := func(cfg broker.TopicConfig) {
		t.Helper()
		if err := l.SetTopicDefaults(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	set(broker.TopicConfig{RetentionBytes: -1})
	starts(0)
	compacted(true)
	set(broker.TopicConfig{})
	starts(6)
}
