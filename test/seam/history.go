package seam

import (
	"fmt"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// truth is what is in the log, as its own clients know it: place -> sum of the value. A place that is missing has no
// record: a marker, or one of an aborted transaction.
type truth map[harness.Position]uint64

// row is a record that a read gave.
type row struct {
	at  harness.Position
	sum uint64 // of its value
}

// hole is a run of offsets [from, to) that a read said has no records.
type hole struct {
	partition int32
	from, to  int64
	reason    string
}

// history is what one read gave, in its order.
type history struct {
	who      string
	from, to map[int32]int64 // the offsets that it covers, by partition
	end      map[int32]int64 // where it was to end at least, when it was not cut short; nil otherwise
	rows     []row
	holes    []hole
	silent   bool // Kafka's protocol tells no holes: they are what lies between two records
}

// judge compares a read with the truth. The rows and holes of each partition must tile [from, to): no offset twice, none
// left out, and none the other way round.
func (h *history) judge(t truth) error {
	next := make(map[int32]int64, len(h.from))
	holes := map[int32][]hole{}
	for p, o := range h.from {
		next[p] = o
	}
	for _, g := range h.holes {
		if err := h.empty(t, g.partition, g.from, g.to); err != nil {
			return fmt.Errorf("%w, and was told to be empty: %s", err, g.reason)
		}
		holes[g.partition] = append(holes[g.partition], g)
	}
	skip := func(p int32, to int64) error {
		for len(holes[p]) > 0 && holes[p][0].from == next[p] {
			next[p] = holes[p][0].to
			holes[p] = holes[p][1:]
		}
		if h.silent && next[p] < to {
			from := next[p]
			next[p] = to
			return h.empty(t, p, from, to)
		}
		return nil
	}
	for _, r := range h.rows {
		p := r.at.Partition
		if _, asked := next[p]; !asked {
			return fmt.Errorf("%s gives %s of a partition that was not asked for", h.who, r.at)
		}
		if err := skip(p, r.at.Offset); err != nil {
			return err
		}
		if r.at.Offset != next[p] {
			return fmt.Errorf("%s from %v gives %s where offset %d was due", h.who, h.from, r.at, next[p])
		}
		if want, ok := t[r.at]; !ok || want != r.sum {
			return fmt.Errorf("%s gives a record at %s that the log does not have there (known: %v)", h.who, r.at, ok)
		}
		next[p]++
	}
	for p, to := range h.to {
		if err := skip(p, to); err != nil {
			return err
		}
		if next[p] != to || len(holes[p]) > 0 {
			return fmt.Errorf("%s from %v stands at %d of partition %d and gave it up to %d (holes that do not fit: %v)", h.who, h.from, to, p, next[p], holes[p])
		}
		if to < h.end[p] {
			return fmt.Errorf("%s from %v ended at %d of partition %d, before its end %d", h.who, h.from, to, p, h.end[p])
		}
	}
	return nil
}

// empty fails when the truth has a record in [from, to).
func (h *history) empty(t truth, p int32, from, to int64) error {
	for o := from; o < to; o++ {
		if _, ok := t[harness.Position{Partition: p, Offset: o}]; ok {
			return fmt.Errorf("%s from %v leaves out %d:%d, which has a record", h.who, h.from, p, o)
		}
	}
	return nil
}
