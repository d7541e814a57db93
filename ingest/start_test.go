package ingest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// edges is a log of which only its bounds matter: partition i ends at ends[i].
type edges struct {
	broker.Source
	ends []record.Offset
}

func (e edges) Partitions(context.Context, string) ([]int32, error) {
	var out []int32
	for i := range e.ends {
		out = append(out, int32(i))
	}
	return out, nil
}

func (e edges) Bounds(_ context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	end := e.ends[tp.Partition]
	return broker.Bounds{Stable: end, End: end}, nil
}

// OffsetForTime: the record at offset n has the time n seconds.
func (e edges) OffsetForTime(_ context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	return min(record.Offset((ms+999)/1000), e.ends[tp.Partition]), nil
}

func newLog(t *testing.T, store objstore.Store) *deltalog.Log {
	t.Helper()
	schema, err := deltalog.FromArrow(arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: schema}, deltalog.Config{})
	if errors.Is(err, deltalog.ErrTableExists) {
		log, err = deltalog.Open(t.Context(), store, deltalog.Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

func txns(t *testing.T, log *deltalog.Log) (map[string]int64, deltalog.Version) {
	t.Helper()
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap.Txns(), snap.Version()
}

func wantTxns(t *testing.T, log *deltalog.Log, want map[string]int64, version deltalog.Version) {
	t.Helper()
	if got, v := txns(t, log); !maps.Equal(got, want) || v != version {
		t.Fatalf("version %d: %v, want version %d: %v", v, got, version, want)
	}
}

// Positions to start from are recorded once, before the first row; what the table knows wins, and an offset beyond it
// is refused, since what lies between would be missing (I3).
func TestSeek(t *testing.T) {
	log := newLog(t, mem.New())
	seek, err := ParseSeek(`{"1": 7, "0": 15}`)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(s Start) error {
		return s.Apply(t.Context(), log, nil, edges{ends: []record.Offset{16, 20}}, "topic", "test")
	}
	for want, none := range map[string]map[int32]record.Offset{"no topic-5": {5: 9}, "16 of topic-0 is beyond": {0: 16, 1: 7}} {
		if err := apply(Start{Seek: none}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", none, err, want)
		}
		wantTxns(t, log, map[string]int64{}, 0)
	}
	if err := apply(Start{Seek: seek}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"test-0": 15, "test-1": 7}
	wantTxns(t, log, want, 1)
	for _, again := range []map[int32]record.Offset{seek, {0: 3}, {0: 15, 5: 9}} { // 5: as kafka-delta-ingest, all or nothing
		if err := apply(Start{Seek: again}); err != nil {
			t.Fatal(err)
		}
		wantTxns(t, log, want, 1)
	}
	var behind *SeekError
	err = apply(Start{Seek: map[int32]record.Offset{0: 16, 1: 7}})
	if !errors.As(err, &behind) || !strings.Contains(err.Error(), "[test-0:stored=15/seek=16]") {
		t.Fatalf("error %v", err)
	}
	for _, bad := range []string{"", "[]", "{}", `{"x":1}`, `{"0":-1}`, `{"0":1.5}`, `{"0":"1"} x`, `{"0":9223372036854775807}`, `{"-1":3}`} {
		if _, err := ParseSeek(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Partitions begin at the end of the log, also those that are empty: what comes before the next start is not passed
// over then. A partition that is known goes on where it stands.
func TestLatestAndTime(t *testing.T) {
	log := newLog(t, mem.New())
	if err := (Start{Seek: map[int32]record.Offset{0: 2}}).Apply(t.Context(), log, nil, edges{ends: []record.Offset{10}}, "topic", "a"); err != nil {
		t.Fatal(err)
	}
	src := edges{ends: []record.Offset{10, 20, 0}}
	if err := (Start{Latest: true}).Apply(t.Context(), log, nil, src, "topic", "a"); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"a-0": 2, "a-1": 19, "a-2": -1}
	wantTxns(t, log, want, 2)
	if err := (Start{Latest: true}).Apply(t.Context(), log, nil, edges{ends: []record.Offset{90, 90, 90}}, "topic", "a"); err != nil {
		t.Fatal(err)
	}
	wantTxns(t, log, want, 2)
	if err := (Start{Time: time.UnixMilli(4500)}).Apply(t.Context(), log, nil, src, "topic", "b"); err != nil {
		t.Fatal(err)
	}
	want["b-0"], want["b-1"] = 4, 4
	wantTxns(t, log, want, 3)
	if err := (Start{}).Apply(t.Context(), log, nil, src, "topic", "c"); err != nil {
		t.Fatal(err)
	}
	wantTxns(t, log, want, 3)
}

// Processes that start at the same moment record one set of positions between them.
func TestStartsRace(t *testing.T) {
	store := mem.New()
	newLog(t, store)
	var wg sync.WaitGroup
	for i := range 8 {
		log := newLog(t, store)
		wg.Go(func() {
			ends := edges{ends: []record.Offset{record.Offset(10 + i), record.Offset(20 + i)}}
			if err := (Start{Latest: true}).Apply(t.Context(), log, nil, ends, "topic", "a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, version := txns(t, newLog(t, store))
	if version != 1 || got["a-1"] != got["a-0"]+10 {
		t.Errorf("version %d: %v", version, got)
	}
}
