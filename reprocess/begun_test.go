package reprocess

import (
	"context"
	"errors"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// Where a record of a topic goes, and what it has beside its value, is part of what a job began with. A plan that is older
// than that is still its own job's.
func TestAsBegunOfATopic(t *testing.T) {
	begun := func(s Spec) (now, before string) {
		t.Helper()
		now, before, err := s.asBegun(false)
		if err != nil {
			t.Fatal(err)
		}
		return now, before
	}
	kept, old := begun(Spec{Sink: "kafka://h:1/t"})
	said, _ := begun(Spec{Sink: "kafka://h:1/t", Partitions: KeepPartitions})
	keyed, oldKeyed := begun(Spec{Sink: "kafka://h:1/t", Partitions: ByKey})
	origin, _ := begun(Spec{Sink: "kafka://h:1/t", Origin: true})
	table, oldTable := begun(Spec{Sink: "./t"})
	if kept != said || kept == keyed || kept == origin || keyed == origin || kept == old {
		t.Errorf("keep %s, %s, key %s, origin %s, before %s", kept, said, keyed, origin, old)
	}
	if table != oldTable || table != old || old != oldKeyed || old != `{"from":"","until":""}` {
		t.Errorf("table %s, older plans %s %s %s", table, oldTable, old, oldKeyed)
	}
}

// hollow is a log whose records compaction has taken.
type hollow struct {
	broker.Source
	stable  record.Offset // at first: a transaction is open from there
	fetches int
}

func (h *hollow) Bounds(context.Context, record.TopicPartition) (broker.Bounds, error) {
	return broker.Bounds{Stable: h.stable, End: 10}, nil
}

var errAsked = errors.New("asked again")

func (h *hollow) Fetch(_ context.Context, r []broker.FetchRange, _ broker.FetchOptions) ([]broker.Fetched, error) {
	if h.fetches++; h.fetches > 2 {
		return nil, errAsked
	}
	return []broker.Fetched{{TP: r[0].TP, Bounds: broker.Bounds{Stable: 10, End: 10}}}, nil
}

// Positions are read to the end also where the last offsets have no batch; an answer that was empty while a transaction
// was open is not that end.
func TestCommittedRecordsWithoutAnEnd(t *testing.T) {
	for stable, want := range map[record.Offset]int{10: 1, 4: 2} {
		h := &hollow{stable: stable}
		if err := committedRecords(t.Context(), h, record.TopicPartition{Topic: "p"}, func(*record.Record) error { return nil }); err != nil || h.fetches != want {
			t.Errorf("stable %d: %v after %d fetches, want %d", stable, err, h.fetches, want)
		}
	}
}
