package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/record"
)

func topicOf(partitions int32) broker.TopicConfig { return broker.TopicConfig{Partitions: partitions} }

// fakeHistory holds records [2, 40) of partition 0 with a hole [20, 30) at the end of one fetch, in batches of 5.
type fakeHistory struct {
	gap bool // holds nothing from 30 on
}

const (
	histStart, histEnd   = 2, 40
	histHole, histHoleTo = 20, 30
)

func (fakeHistory) Start(_ context.Context, tp record.TopicPartition) (record.Offset, bool) {
	return histStart, tp.Topic == "t"
}

func (h fakeHistory) Fetch(_ context.Context, tp record.TopicPartition, from record.Offset, _ int) ([]byte, record.Offset, error) {
	if h.gap && from >= histHoleTo {
		return nil, from, nil
	}
	if from < histStart || from >= histEnd {
		return nil, from, errors.New("asked for what the history does not hold")
	}
	if from >= histHole && from < histHoleTo {
		return nil, histHoleTo, nil
	}
	b := record.NewBuilder(record.Zstd)
	at := from
	for ; at < min(from+5, histEnd) && at != histHole; at++ {
		b.AppendAt(at, 1000+int64(at), nil, fmt.Appendf(nil, "v%d", at), nil)
	}
	raw, err := b.Build(from)
	return raw, at, err
}

func (fakeHistory) OffsetForTime(_ context.Context, _ record.TopicPartition, ms int64) (record.Offset, bool, error) {
	o := max(record.Offset(ms-1000), histStart)
	if o >= histHole && o < histHoleTo {
		o = histHoleTo
	}
	return o, o < histEnd, nil
}

// I4: below the log's start the history answers, at the same offsets, over the seam and over holes.
func TestHistory(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.History = fakeHistory{}; c.DefaultPartitions = 1 })
	ctx := within(t, 20*time.Second)
	cl := client(t, s, kgo.ProducerLinger(0))
	for i := range 60 {
		r := &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "v%d", i), Timestamp: time.UnixMilli(int64(1000 + i))}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	tp := record.TopicPartition{Topic: "t"}
	if _, err := log.DeleteRecords(ctx, tp, 35); err != nil {
		t.Fatal(err)
	}
	got := consume(t, ctx, client(t, s, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 48)
	want := int64(histStart)
	for _, r := range got {
		if want == histHole {
			want = histHoleTo
		}
		if r.Offset != want || string(r.Value) != fmt.Sprintf("v%d", want) {
			t.Fatalf("offset %d value %s, want %d", r.Offset, r.Value, want)
		}
		want++
	}
	adm := kadm.NewClient(cl)
	st, err := adm.ListStartOffsets(ctx, "t")
	if o, _ := st.Lookup("t", 0); err != nil || o.Offset != histStart {
		t.Fatalf("start %+v %v", o, err)
	}
	for ms, want := range map[int64]int64{1010: 10, 1025: 30, 1038: 38, 1050: 50} {
		at, err := adm.ListOffsetsAfterMilli(ctx, ms, "t")
		if o, _ := at.Lookup("t", 0); err != nil || o.Offset != want || o.Timestamp != 1000+want {
			t.Errorf("offset at %d: %+v %v, want %d", ms, o, err, want)
		}
	}
	below := client(t, s, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if errs := below.PollFetches(ctx).Errors(); len(errs) != 1 {
		t.Fatalf("below the history: %v", errs)
	}
}

// lateHistory holds nothing yet when it is first asked for a time; then the log drops what it has come to hold.
type lateHistory struct {
	fakeHistory
	drop func()
}

func (h *lateHistory) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, bool, error) {
	if h.drop != nil {
		h.drop()
		h.drop = nil
		return 0, false, nil
	}
	return h.fakeHistory.OffsetForTime(ctx, tp, ms)
}

// I4: a time is found in the history also when that gets it, and the log loses it, between the looks into the one and the other.
func TestTimeIsFoundWhileItIsTiered(t *testing.T) {
	log, h := newMemLog(t), &lateHistory{}
	s := start(t, log, func(c *Config) { c.History = h; c.DefaultPartitions = 1 })
	ctx := within(t, 20*time.Second)
	cl := client(t, s, kgo.ProducerLinger(0))
	for i := range 60 {
		r := &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "v%d", i), Timestamp: time.UnixMilli(int64(1000 + i))}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	h.drop = func() {
		if _, err := log.DeleteRecords(ctx, record.TopicPartition{Topic: "t"}, 35); err != nil {
			t.Error(err)
		}
	}
	at, err := kadm.NewClient(cl).ListOffsetsAfterMilli(ctx, 1010, "t")
	if o, _ := at.Lookup("t", 0); err != nil || o.Offset != 10 || o.Timestamp != 1010 {
		t.Errorf("offset at 1010: %+v %v, want 10", o, err)
	}
}

// I4: offsets that neither the history nor the log holds are an error, not a jump.
func TestHistoryGap(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.History = fakeHistory{gap: true}; c.DefaultPartitions = 1 })
	ctx := within(t, 20*time.Second)
	produce(t, ctx, client(t, s, kgo.MaxBufferedRecords(1)), "t", 60)
	if _, err := log.DeleteRecords(ctx, record.TopicPartition{Topic: "t"}, 35); err != nil {
		t.Fatal(err)
	}
	at := func(o int64) kgo.Opt {
		return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(o)}})
	}
	cl := client(t, s, at(10), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if got := consume(t, ctx, cl, 10); got[9].Offset != 19 {
		t.Fatalf("the last before the gap is %d", got[9].Offset)
	}
	fs := cl.PollFetches(ctx)
	if errs := fs.Errors(); len(errs) != 1 || !errors.Is(errs[0].Err, kerr.OffsetOutOfRange) || fs.NumRecords() > 0 {
		t.Fatalf("%d records and %v in the gap", fs.NumRecords(), errs)
	}
	if got := consume(t, ctx, client(t, s, at(35)), 25); got[0].Offset != 35 {
		t.Fatalf("behind the gap: %d", got[0].Offset)
	}
}

// markerHistory is the lake of [0, 2): a record and the marker of its transaction, which is a hole.
type markerHistory struct{ fakeHistory }

func (markerHistory) Start(context.Context, record.TopicPartition) (record.Offset, bool) {
	return 0, true
}

func (markerHistory) Fetch(_ context.Context, _ record.TopicPartition, from record.Offset, _ int) ([]byte, record.Offset, error) {
	if from > 0 {
		return nil, 2, nil
	}
	b := record.NewBuilder(record.None)
	b.AppendAt(0, 1000, nil, []byte("tiered"), nil)
	raw, err := b.Build(0)
	return raw, 1, err
}

// I4: over a hole at the seam the log answers with the isolation that was asked for: a read_committed consumer is
// given neither what was aborted nor what is open.
func TestHistoryIsolation(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.History = markerHistory{}; c.DefaultPartitions = 1 })
	ctx := within(t, 20*time.Second)
	cl := client(t, s, kgo.TransactionalID("x"))
	transact(t, ctx, cl, "t", kgo.TryCommit, "tiered") // 0, marker 1
	transact(t, ctx, cl, "t", kgo.TryAbort, "aborted") // 2, marker 3
	transact(t, ctx, cl, "t", kgo.TryCommit, "good")   // 4, marker 5
	open := client(t, s, kgo.TransactionalID("y"))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := open.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("open")}).FirstErr(); err != nil { // 6
		t.Fatal(err)
	}
	if _, err := log.DeleteRecords(ctx, record.TopicPartition{Topic: "t"}, 2); err != nil { // as retention does
		t.Fatal(err)
	}
	at := func(o int64) kgo.Opt {
		return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(o)}})
	}
	rc := client(t, s, at(0), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if got := valuesOf(consume(t, ctx, rc, 2)); !slices.Equal(got, []string{"good", "tiered"}) {
		t.Fatalf("a read_committed consumer got %v", got)
	}
	if err := txnend.End(ctx, open, kgo.TryCommit, "t"); err != nil { // what comes next shows that nothing came between
		t.Fatal(err)
	}
	if got := valuesOf(consume(t, ctx, rc, 1)); !slices.Equal(got, []string{"open"}) {
		t.Fatalf("behind the open transaction: %v", got)
	}
	ru := client(t, s, at(1)) // in the hole
	if got := valuesOf(consume(t, ctx, ru, 3)); !slices.Equal(got, []string{"aborted", "good", "open"}) {
		t.Fatalf("a read_uncommitted consumer got %v", got)
	}
}

// tieredHistory knows where it ends; of partition 1 it holds nothing.
type tieredHistory struct{ fakeHistory }

func (tieredHistory) End(_ context.Context, tp record.TopicPartition, _ [16]byte, _ record.Offset) (record.Offset, bool, error) {
	return histEnd, tp.Partition == 0, nil
}

// The special times of tiered storage tell how far the history has come, and nothing where there is none.
func TestTieredOffsets(t *testing.T) {
	for _, c := range []struct {
		history      History
		partition    int32
		last, behind int64
	}{{tieredHistory{}, 0, histEnd - 1, histEnd}, {tieredHistory{}, 1, -1, 0}, {nil, 0, -1, -1}} {
		log := newMemLog(t)
		s := start(t, log, func(cfg *Config) { cfg.History = c.history })
		ctx := within(t, 10*time.Second)
		if _, err := log.CreateTopic(ctx, "t", topicOf(2)); err != nil {
			t.Fatal(err)
		}
		for ms, want := range map[int64]int64{offsetLatestTiered: c.last, offsetPendingUpload: c.behind} {
			req := kmsg.NewPtrListOffsetsRequest()
			rt, rp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
			rt.Topic, rp.Partition, rp.Timestamp = "t", c.partition, ms
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			resp, err := req.RequestWith(ctx, client(t, s))
			if err != nil {
				t.Fatal(err)
			}
			if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != want {
				t.Errorf("history %T, partition %d, time %d: %+v, want offset %d", c.history, c.partition, ms, p, want)
			}
		}
	}
}
