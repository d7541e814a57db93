package queue

import (
	"fmt"
	"slices"
)

// Outcome is what a client was told.
type Outcome int

// Outcomes.
const (
	Unknown Outcome = iota // no answer came: it may be there or not
	Acked                  // acknowledged; of a transaction: committed
	Failed                 // refused for good; of a transaction: aborted
)

// Send is one record that a producer sent.
type Send struct {
	Producer  int
	Txn       int // of the history's transactions; 0: none
	Partition int32
	Value     int64 // unique
	Offset    int64 // where it was acknowledged; -1 when it was not
	Outcome   Outcome
}

// Poll is one record that a consumer got. A consumer's polls stand in the order in which it got them.
type Poll struct {
	Consumer  int
	Seek      bool // the consumer's position was set anew before this record
	Partition int32
	Offset    int64
	Value     int64
}

// History is what all clients saw. Sends of one producer stand in the order in which it sent them.
type History struct {
	Sends []Send
	Txns  map[int]Outcome // of transactions, by number
	Polls []Poll          // of consumers that read committed records, while faults happened
	Final []Poll          // of one that reads everything from the first offset on, after them
}

// Kind is a kind of fault.
type Kind string

// The kinds of faults, by the names that Jepsen's reports use where they have one.
const (
	Lost             Kind = "lost write"          // acknowledged and nowhere
	Duplicate        Kind = "duplicate"           // one record at two offsets
	Inconsistent     Kind = "inconsistent offset" // an offset with two records, or a record not where it was acknowledged
	Ghost            Kind = "ghost"               // a record that nobody sent
	AbortedVisible   Kind = "aborted read"        // of a transaction that was aborted, or a send that was refused
	Torn             Kind = "torn transaction"    // a part of a transaction
	Reordered        Kind = "reordered sends"     // records of one producer in another order than it sent them
	Skipped          Kind = "poll skip"           // a consumer passed over a record
	NonMonotonicPoll Kind = "nonmonotonic poll"   // a consumer went back
)

// Fault is one thing that must not be.
type Fault struct {
	Kind Kind
	What string
}

func (f Fault) String() string { return fmt.Sprintf("%s: %s", f.Kind, f.What) }

type place struct {
	partition int32
	offset    int64
}

func (p place) String() string { return fmt.Sprintf("%d@%d", p.partition, p.offset) }

// checker holds what is known of a history.
type checker struct {
	h      History
	faults []Fault
	sends  map[int64]*Send
	at     map[place]int64 // what was seen there
	where  map[int64]place // the other way round
	final  map[int64]bool
	order  map[int32][]int64 // offsets with a record, of each partition, ascending
}

// Check gives the faults of a history.
func Check(h History) []Fault {
	c := &checker{h: h, sends: map[int64]*Send{}, at: map[place]int64{}, where: map[int64]place{}, final: map[int64]bool{}, order: map[int32][]int64{}}
	for i := range h.Sends {
		c.sends[h.Sends[i].Value] = &h.Sends[i]
	}
	for _, polls := range [][]Poll{h.Polls, h.Final} {
		for _, p := range polls {
			c.see(p)
		}
	}
	for _, p := range h.Final {
		c.final[p.Value] = true
		c.order[p.Partition] = append(c.order[p.Partition], p.Offset)
	}
	for p := range c.order {
		slices.Sort(c.order[p])
	}
	c.checkSends()
	c.checkTxns()
	c.checkOrder()
	c.checkConsumers(h.Polls)
	c.checkConsumers(h.Final)
	return c.faults
}

func (c *checker) fault(k Kind, format string, args ...any) {
	c.faults = append(c.faults, Fault{k, fmt.Sprintf(format, args...)})
}

// see notes one record that somebody got.
func (c *checker) see(p Poll) {
	here := place{p.Partition, p.Offset}
	if v, ok := c.at[here]; ok && v != p.Value {
		c.fault(Inconsistent, "%s holds %d and %d", here, v, p.Value)
	}
	c.at[here] = p.Value
	if other, ok := c.where[p.Value]; ok && other != here {
		c.fault(Duplicate, "%d is at %s and at %s", p.Value, other, here)
	}
	c.where[p.Value] = here
	s := c.sends[p.Value]
	switch {
	case s == nil:
		c.fault(Ghost, "%d at %s was never sent", p.Value, here)
	case s.Outcome == Failed || s.Txn != 0 && c.h.Txns[s.Txn] == Failed:
		c.fault(AbortedVisible, "consumer %d got %d at %s, of transaction %d", p.Consumer, p.Value, here, s.Txn)
	}
}

// checkSends compares what was acknowledged with what is there in the end.
func (c *checker) checkSends() {
	for _, s := range c.h.Sends {
		if s.Outcome != Acked || s.Txn != 0 && c.h.Txns[s.Txn] != Acked {
			continue
		}
		seen, ok := c.where[s.Value]
		switch {
		case !c.final[s.Value]:
			c.fault(Lost, "%d, acknowledged at %d@%d", s.Value, s.Partition, s.Offset)
		case ok && s.Offset >= 0 && seen != place{s.Partition, s.Offset}:
			c.fault(Inconsistent, "%d was acknowledged at %d@%d and is at %s", s.Value, s.Partition, s.Offset, seen)
		}
	}
}

// checkTxns: of a transaction all that was acknowledged is there in the end, or nothing.
func (c *checker) checkTxns() {
	there, all := map[int]int{}, map[int]int{}
	for _, s := range c.h.Sends {
		if s.Txn == 0 || s.Outcome != Acked {
			continue
		}
		all[s.Txn]++
		if c.final[s.Value] {
			there[s.Txn]++
		}
	}
	for txn, n := range there {
		if n < all[txn] {
			c.fault(Torn, "of transaction %d %d of %d records are there", txn, n, all[txn])
		}
	}
}

// checkOrder: what one producer sent to a partition stands there in the order in which it sent it. A send without an answer
// has no place in it, since the producer may have sent it again later.
func (c *checker) checkOrder() {
	type stream struct {
		producer  int
		partition int32
	}
	last := map[stream]Send{}
	for _, s := range c.h.Sends {
		if s.Outcome != Acked || s.Offset < 0 {
			continue
		}
		k := stream{s.Producer, s.Partition}
		if before, ok := last[k]; ok && before.Offset >= s.Offset {
			c.fault(Reordered, "producer %d sent %d before %d, and they were acknowledged at %d@%d and %d", s.Producer, before.Value, s.Value, s.Partition, before.Offset, s.Offset)
		}
		last[k] = s
	}
}

// checkConsumers: each consumer goes forward through a partition and passes over no record.
func (c *checker) checkConsumers(polls []Poll) {
	type stream struct {
		consumer  int
		partition int32
	}
	last := map[stream]int64{}
	for _, p := range polls {
		k := stream{p.Consumer, p.Partition}
		before, ok := last[k]
		if last[k] = p.Offset; !ok || p.Seek {
			continue
		}
		if p.Offset <= before {
			c.fault(NonMonotonicPoll, "consumer %d got %d@%d after %d", p.Consumer, p.Partition, p.Offset, before)
			continue
		}
		order := c.order[p.Partition]
		if i, _ := slices.BinarySearch(order, before+1); i < len(order) && order[i] < p.Offset {
			c.fault(Skipped, "consumer %d went from %d to %d of partition %d, past %d", p.Consumer, before, p.Offset, p.Partition, order[i])
		}
	}
}
