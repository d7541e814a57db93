package local

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// What is older than max.compaction.lag.ms is compacted though it is a small part of the log, also where it stood in a
// segment that was still open.
func TestMaxCompactionLag(t *testing.T) {
	clock := newClock()
	cfg := smallConfig(vfs.NewMem())
	cfg.Clock = clock.time
	l := mustOpen(t, cfg)
	defer mustClose(t, l)
	topic := compactConfig()
	topic.MinDirtyRatio, topic.SegmentAge, topic.MaxCompactionLag = 0.9, 1000*time.Hour, time.Hour
	mustCreate(t, l, "t", topic)
	topic.MaxCompactionLag = 0
	mustCreate(t, l, "without", topic)
	put := func(key string) {
		t.Helper()
		for _, name := range []string{"t", "without"} {
			mustAppend(t, l, tp(name, 0), kvBatch(t, record.None, kv{key, fmt.Sprintf("%0300d", 1)}))
		}
	}
	records := func(name string) int { return len(mustScan(t, l, tp(name, 0), 0)) }
	for i := range 30 {
		put(fmt.Sprint(i))
	}
	mustCompact(t, l)
	for range 10 {
		put("0")
	}
	mustCompact(t, l)
	if records("t") != 40 || records("without") != 40 {
		t.Fatalf("%d and %d records before the time is over", records("t"), records("without"))
	}
	clock.pass(2 * time.Hour)
	if err := l.EnforceRetention(); err != nil { // which ends the open segment
		t.Fatal(err)
	}
	put("end") // the segment with the last batch stays as it is
	mustCompact(t, l)
	if records("t") != 31 || records("without") != 41 {
		t.Fatalf("%d and %d records, want 31 and 41", records("t"), records("without"))
	}
	bad := compactConfig()
	bad.MinCompactionLag, bad.MaxCompactionLag = time.Hour, time.Minute
	if _, err := l.CreateTopic(t.Context(), "bad", bad); err == nil {
		t.Error("a longest lag below the shortest was taken")
	}
}
