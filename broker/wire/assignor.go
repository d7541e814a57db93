package wire

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ledgerlake/ledgerlake/record"
)

// Assignors of the server, by the names that clients ask for them.
const (
	assignorUniform = "uniform"
	assignorRange   = "range"
)

// assignRange gives each member a contiguous range of every topic, in the order of the members.
func assignRange(members []*consumer, topics map[string]int32) []partitionSet {
	out := emptySets(len(members))
	for topic, count := range topics {
		var who []int
		for i, m := range members {
			if m.subscribes(topic) {
				who = append(who, i)
			}
		}
		for k, i := range who {
			from, to := int(count)*k/len(who), int(count)*(k+1)/len(who)
			for p := from; p < to; p++ {
				out[i][record.TopicPartition{Topic: topic, Partition: int32(p)}] = true
			}
		}
	}
	return out
}

// assignUniform spreads all partitions evenly and moves as few as it can: a member keeps what its last target
// gave it as far as that is fair.
func assignUniform(members []*consumer, topics map[string]int32) []partitionSet {
	out := emptySets(len(members))
	who := map[string][]int{}
	for topic := range topics {
		for i, m := range members {
			if m.subscribes(topic) {
				who[topic] = append(who[topic], i)
			}
		}
	}
	taken := partitionSet{}
	for i, m := range members {
		for tp := range m.target {
			if _, wants := slices.BinarySearch(who[tp.Topic], i); wants && tp.Partition < topics[tp.Topic] && !taken[tp] {
				out[i][tp], taken[tp] = true, true
			}
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		if len(who[topic]) == 0 {
			continue
		}
		for p := range topics[topic] {
			if tp := (record.TopicPartition{Topic: topic, Partition: p}); !taken[tp] {
				out[fewest(out, who[topic])][tp] = true
			}
		}
	}
	balance(out, who)
	return out
}

func fewest(sets []partitionSet, who []int) int {
	return slices.MinFunc(who, func(a, b int) int { return cmp.Compare(len(sets[a]), len(sets[b])) })
}

// balance moves partitions, from those with most to those with least, until no one has two more than another who
// could have one of them. Each move makes the sum of the squares smaller, so it ends.
func balance(sets []partitionSet, who map[string][]int) {
	order, lists := make([]int, len(sets)), make([][]record.TopicPartition, len(sets))
	for i, set := range sets {
		order[i], lists[i] = i, slices.SortedFunc(maps.Keys(set), comparePartitions)
	}
	for moved := true; moved; {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(sets[b]), len(sets[a])) })
		moved = slices.ContainsFunc(order, func(i int) bool { return moveOne(sets, lists, who, i) })
	}
}

// moveOne takes one partition from a member that has too many. lists are the sets in order.
func moveOne(sets []partitionSet, lists [][]record.TopicPartition, who map[string][]int, from int) bool {
	to := map[string]int{} // who has fewest, by topic
	for k := len(lists[from]) - 1; k >= 0; k-- {
		tp := lists[from][k]
		if _, ok := to[tp.Topic]; !ok {
			to[tp.Topic] = fewest(sets, who[tp.Topic])
		}
		if i := to[tp.Topic]; len(sets[i])+1 < len(sets[from]) {
			delete(sets[from], tp)
			sets[i][tp] = true
			lists[from], lists[i] = slices.Delete(lists[from], k, k+1), append(lists[i], tp)
			return true
		}
	}
	return false
}

func comparePartitions(a, b record.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

func emptySets(n int) []partitionSet {
	out := make([]partitionSet, n)
	for i := range out {
		out[i] = partitionSet{}
	}
	return out
}
