package queue_test

import (
	"slices"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/queue"
)

// healthy is a history without a fault: two producers, one of them with a transaction that commits, one that aborts and
// one of which nobody knows, and a consumer that seeks.
func healthy() queue.History {
	send := func(producer, txn int, value, offset int64, o queue.Outcome) queue.Send {
		return queue.Send{Producer: producer, Txn: txn, Value: value, Offset: offset, Outcome: o}
	}
	poll := func(consumer int, offset, value int64) queue.Poll {
		return queue.Poll{Consumer: consumer, Offset: offset, Value: value}
	}
	again := poll(1, 0, 10)
	again.Seek = true
	return queue.History{
		Sends: []queue.Send{
			send(1, 0, 10, 0, queue.Acked), send(1, 0, 11, 1, queue.Acked), send(1, 0, 12, -1, queue.Unknown),
			send(2, 1, 20, 3, queue.Acked), send(2, 1, 21, 4, queue.Acked), // 5 is the marker
			send(2, 2, 22, 6, queue.Acked), send(2, 2, 23, 7, queue.Acked), // aborted, 8 is the marker
			send(2, 3, 24, 9, queue.Acked), send(2, 3, 25, 10, queue.Acked),
			send(1, 0, 13, -1, queue.Failed),
		},
		Txns:  map[int]queue.Outcome{1: queue.Acked, 2: queue.Failed, 3: queue.Unknown},
		Polls: []queue.Poll{poll(1, 0, 10), poll(1, 1, 11), again, poll(1, 1, 11), poll(1, 2, 12), poll(1, 3, 20)},
		Final: []queue.Poll{poll(9, 0, 10), poll(9, 1, 11), poll(9, 2, 12), poll(9, 3, 20), poll(9, 4, 21), poll(9, 9, 24), poll(9, 10, 25)},
	}
}

// Every kind of fault is found where it is planted, and nothing is found where there is none (I1 to I4).
func TestPlantedFaults(t *testing.T) {
	if got := queue.Check(healthy()); len(got) != 0 {
		t.Fatalf("a healthy history: %v", got)
	}
	for name, c := range map[string]struct {
		plant func(h *queue.History)
		want  queue.Kind
	}{
		"a record is gone":                 {func(h *queue.History) { h.Final = slices.Delete(h.Final, 1, 2) }, queue.Lost},
		"the tail is gone":                 {func(h *queue.History) { h.Polls, h.Final = nil, h.Final[:1] }, queue.Lost},
		"a committed transaction is gone":  {func(h *queue.History) { h.Final = slices.Delete(h.Final, 3, 5) }, queue.Lost},
		"a record is there twice":          {func(h *queue.History) { h.Final[6] = queue.Poll{Consumer: 9, Offset: 10, Value: 11} }, queue.Duplicate},
		"an offset has two records":        {func(h *queue.History) { h.Polls[1].Value = 12 }, queue.Inconsistent},
		"a record is elsewhere":            {func(h *queue.History) { h.Sends[1].Offset = 7 }, queue.Inconsistent},
		"a record that nobody sent":        {func(h *queue.History) { h.Final[5].Value = 99 }, queue.Ghost},
		"an aborted record is seen":        {func(h *queue.History) { h.Polls = append(h.Polls, queue.Poll{Consumer: 1, Offset: 6, Value: 22}) }, queue.AbortedVisible},
		"a refused record is seen":         {func(h *queue.History) { h.Sends[2].Outcome = queue.Failed }, queue.AbortedVisible},
		"half of an unknown transaction":   {func(h *queue.History) { h.Final = h.Final[:6] }, queue.Torn},
		"half of a committed transaction":  {func(h *queue.History) { h.Final = slices.Delete(h.Final, 4, 5) }, queue.Torn},
		"sends change places":              {func(h *queue.History) { h.Sends[3], h.Sends[4] = h.Sends[4], h.Sends[3] }, queue.Reordered},
		"a consumer passes over a record":  {func(h *queue.History) { h.Polls = slices.Delete(h.Polls, 4, 5) }, queue.Skipped},
		"a consumer goes back":             {func(h *queue.History) { h.Polls[2].Seek = false }, queue.NonMonotonicPoll},
		"a consumer gets a record again":   {func(h *queue.History) { h.Polls = append(h.Polls, h.Polls[5]) }, queue.NonMonotonicPoll},
		"the last reader gets it backward": {func(h *queue.History) { slices.Reverse(h.Final) }, queue.NonMonotonicPoll},
	} {
		h := healthy()
		c.plant(&h)
		if got := queue.Check(h); !slices.ContainsFunc(got, func(f queue.Fault) bool { return f.Kind == c.want }) {
			t.Errorf("%s: found %v, want a %s", name, got, c.want)
		}
	}
}
