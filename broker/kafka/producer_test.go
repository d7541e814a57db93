package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Records without a key go to all partitions in turn when they are spread, and one that names a partition goes there; a key
// has one partition either way.
func TestSpread(t *testing.T) {
	for _, spread := range []bool{false, true} {
		to := pinned{kgo.StickyKeyPartitioner(nil), spread}.ForTopic("t")
		at := func(key []byte, partition int32) int {
			return to.Partition(&kgo.Record{Key: key, Partition: partition}, 4)
		}
		seen := map[int]int{}
		for range 40 {
			seen[at(nil, -1)]++
		}
		if want := map[bool]int{false: 1, true: 4}[spread]; len(seen) != want || spread && seen[3] != 10 {
			t.Errorf("spread %v: partitions %v", spread, seen)
		}
		if got := at(nil, 2); got != 2 {
			t.Errorf("spread %v: a record of partition 2 goes to %d", spread, got)
		}
		if first := at([]byte("k"), -1); first != at([]byte("k"), -1) {
			t.Errorf("spread %v: a key has two partitions", spread)
		}
	}
}
