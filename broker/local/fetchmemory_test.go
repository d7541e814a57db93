package local

import (
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// An answer that may stay in files takes little memory however much is asked for: large pieces of any number of partitions stay where
// they are, and of many small ones comes what fits. Who goes on reading gets all of it, once and in order (I4, I8).
func TestFetchMemory(t *testing.T) {
	const partitions, rounds = 600, 3
	cfg := smallConfig(vfs.NewMem())
	cfg.OpenSegments, cfg.JournalBytes, cfg.CheckpointBytes, cfg.inFileFrom = 8, 1<<20, 1<<30, 40<<10
	cfg.Durability = DurabilityNone
	l := mustOpen(t, cfg)
	defer mustClose(t, l)
	for _, c := range []struct {
		topic string
		value int // bytes: below and above what stays in files
	}{{"small", 30 << 10}, {"large", 50 << 10}} {
		mustCreate(t, l, c.topic, broker.TopicConfig{Partitions: partitions, SegmentBytes: 1 << 20})
		ranges := make([]broker.FetchRange, partitions)
		for i := range ranges {
			ranges[i] = broker.FetchRange{TP: tp(c.topic, int32(i)), MaxBytes: 1 << 20}
			for round := range rounds {
				if _, err := l.Append(t.Context(), ranges[i].TP, batchOf(t, fmt.Sprintf("%0*d", c.value, round))); err != nil {
					t.Fatal(err)
				}
			}
		}
		read, fetches := 0, 0
		for ; read < partitions*rounds; fetches++ {
			got, err := l.Fetch(t.Context(), ranges, broker.FetchOptions{MaxBytes: 1 << 30, InFiles: true})
			if err != nil {
				t.Fatal(err)
			}
			memory := 0
			for i, f := range got {
				if f.Err != nil {
					t.Fatal(f.Err)
				}
				memory += len(f.Batches)
				raw := f.Batches
				if f.File != nil {
					raw = make([]byte, f.File.Size)
					if _, err := f.File.File.ReadAt(raw, f.File.Pos); err != nil {
						t.Fatal(err)
					}
					f.File.Release()
				}
				for len(raw) > 0 {
					h, err := record.ParseHeader(raw)
					if err != nil || h.BaseOffset != ranges[i].From {
						t.Fatalf("%s: offset %d after %d, %v", f.TP, h.BaseOffset, ranges[i].From, err)
					}
					ranges[i].From, raw = h.LastOffset()+1, raw[h.Size():]
					read++
				}
			}
			if memory > mostInMemory+1<<20 {
				t.Fatalf("%s: an answer has %d bytes in memory", c.topic, memory)
			}
			if fetches > 100 {
				t.Fatalf("%s: %d of %d batches after %d fetches", c.topic, read, partitions*rounds, fetches)
			}
		}
		if c.topic == "large" && fetches != 1 {
			t.Errorf("large pieces came in %d fetches: files of active segments are open anyway", fetches)
		}
	}
}
