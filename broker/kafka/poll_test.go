package kafka

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// polling runs a long Fetch of partitions and waits until a broker has its request.
func polling(ctx context.Context, t *testing.T, c *kfake.Cluster, s *Source, tps ...record.TopicPartition) chan []broker.Fetched {
	t.Helper()
	h := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Count: -1, Observe: true})
	var ranges []broker.FetchRange
	for _, tp := range tps {
		ranges = append(ranges, broker.FetchRange{TP: tp, MaxBytes: 1 << 20})
	}
	out := make(chan []broker.Fetched, 1)
	go func() {
		defer close(out)
		got, err := s.Fetch(ctx, ranges, broker.FetchOptions{MinBytes: 1, MaxWait: 100 * time.Second})
		if err != nil {
			got = []broker.Fetched{{Err: err}}
		}
		out <- got
	}()
	if err := h.Wait(testCtx(t), 1); err != nil {
		t.Fatal(err)
	}
	h.Remove()
	return out
}

// A poll is answered as soon as there is data, and nothing else waits behind it.
func TestLongPoll(t *testing.T) {
	c := newCluster(t)
	s := openFake(t, c)
	cl := newProducer(t, c.ListenAddrs())
	produce(t, cl, topic, 1, "there")
	begin := time.Now()
	out := polling(testCtx(t), t, c, s, tp(0))
	if b, err := s.Bounds(testCtx(t), tp(0)); err != nil || b.End != 0 {
		t.Fatalf("bounds during a poll: %+v, %v", b, err)
	}
	for p := range int32(4) { // at least one has the leader that holds the poll
		if f := fetch1(t, s, p, 0, broker.FetchOptions{}); f.Err != nil {
			t.Fatal(f.Err)
		}
	}
	select {
	case got := <-out:
		t.Fatalf("the poll ended early: %+v", got)
	default:
	}
	produce(t, cl, topic, 0, "late")
	got := <-out
	if v, _ := consume(t, got[0], 0); got[0].Err != nil || !slices.Equal(v, []string{"late"}) {
		t.Fatalf("%v, %v", v, got[0].Err)
	}
	if d := time.Since(begin); d > 90*time.Second {
		t.Errorf("took %s", d)
	}
}

// With several leaders, data on one ends the wait for all.
func TestLongPollOfManyBrokers(t *testing.T) {
	c := newCluster(t)
	s := openFake(t, c)
	cl := newProducer(t, c.ListenAddrs())
	begin := time.Now()
	out := polling(testCtx(t), t, c, s, tp(0), tp(1), tp(2), tp(3))
	produce(t, cl, topic, 2, "late")
	got := <-out
	if len(got) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, f := range got {
		v, _ := consume(t, f, 0)
		if f.Err != nil || f.TP != tp(int32(i)) || (len(v) == 1) != (i == 2) {
			t.Errorf("%s: %v, %v", f.TP, v, f.Err)
		}
	}
	if d := time.Since(begin); d > 90*time.Second {
		t.Errorf("took %s", d)
	}
}

func TestPollTimesOut(t *testing.T) {
	c := newCluster(t)
	s := openFake(t, c)
	for _, tps := range [][]record.TopicPartition{{tp(0)}, {tp(0), tp(1), tp(2), tp(3)}} {
		var ranges []broker.FetchRange
		for _, tp := range tps {
			ranges = append(ranges, broker.FetchRange{TP: tp})
		}
		const wait = 300 * time.Millisecond
		begin := time.Now()
		got, err := s.Fetch(testCtx(t), ranges, broker.FetchOptions{MinBytes: 1, MaxWait: wait})
		if err != nil || len(got) != len(tps) {
			t.Fatalf("%v, %v", got, err)
		}
		for _, f := range got {
			if f.Err != nil || len(f.Batches) > 0 {
				t.Errorf("%s: %d bytes, %v", f.TP, len(f.Batches), f.Err)
			}
		}
		if d := time.Since(begin); d < wait-20*time.Millisecond || d > 90*time.Second {
			t.Errorf("%d partitions: waited %s instead of %s", len(tps), d, wait)
		}
	}
}

func TestPollIsCancelled(t *testing.T) {
	c := newCluster(t)
	s := openFake(t, c)
	ctx, cancel := context.WithCancel(testCtx(t))
	out := polling(ctx, t, c, s, tp(0))
	cancel()
	if got := <-out; !errors.Is(got[0].Err, context.Canceled) {
		t.Fatalf("cancelled: %v", got[0].Err)
	}
	begin := time.Now()
	if f := fetch1(t, s, 0, 0, broker.FetchOptions{}); f.Err != nil {
		t.Fatal(f.Err)
	}
	if d := time.Since(begin); d > 90*time.Second {
		t.Errorf("the next fetch waited %s for the one that was given up", d)
	}
	out = polling(testCtx(t), t, c, s, tp(0))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-out; !errors.Is(got[0].Err, broker.ErrClosed) {
		t.Fatalf("closed: %v", got[0].Err)
	}
	if _, err := s.Fetch(testCtx(t), []broker.FetchRange{{TP: tp(0)}}, broker.FetchOptions{}); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Fetch after Close: %v", err)
	}
	if _, err := s.Bounds(testCtx(t), tp(0)); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Bounds after Close: %v", err)
	}
	if _, err := s.Partitions(testCtx(t), topic); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Partitions after Close: %v", err)
	}
	if err := s.Hold(testCtx(t), tp(0), 0); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Hold after Close: %v", err)
	}
}

// answer makes the cluster give these bytes for partition 0, cut at the limit that the request has.
func answer(c *kfake.Cluster, log []byte, seen chan<- int32) {
	c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		p := req.Topics[0].Partitions[0]
		seen <- p.PartitionMaxBytes
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = 100, 100, 0
		rp.RecordBatches = log[:min(len(log), int(p.PartitionMaxBytes))]
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
}

// KIP-74 the hard way: a broker that cuts even the first batch.
func TestPartialBatches(t *testing.T) {
	b := record.NewBuilder(record.None)
	var log []byte
	for i := range 3 {
		b.Append(1, nil, make([]byte, 5000), nil)
		raw, err := b.Build(record.Offset(i))
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, raw...)
	}
	size := len(log) / 3
	for _, tt := range []struct{ ask, want, requests int }{
		{size, 1, 1}, {size + 10, 1, 1}, {2*size - 1, 1, 1}, {3 * size, 3, 1}, // the last one is cut off
		{size - 1, 1, 2}, {200, 1, 2}, {10, 1, 3},
	} {
		c := newCluster(t)
		seen := make(chan int32, 100)
		answer(c, log, seen)
		s := openFake(t, c)
		got, err := s.Fetch(testCtx(t), []broker.FetchRange{{TP: tp(0), MaxBytes: tt.ask}}, broker.FetchOptions{MinBytes: 1})
		if err != nil || got[0].Err != nil {
			t.Fatalf("%d bytes: %v, %v", tt.ask, got, err)
		}
		if n := len(got[0].Batches); n < tt.want*size || n%size != 0 || len(seen) != tt.requests {
			t.Errorf("asked for %d: %d bytes of batches of %d after %d requests, want %d batches after %d", tt.ask, n, size, len(seen), tt.want, tt.requests)
		}
	}

	c := newCluster(t)
	answer(c, log, make(chan int32, 100))
	s := open(t, Config{Brokers: c.ListenAddrs(), MaxBatchBytes: 1000, MaxFetchBytes: 1000})
	if f := fetch1(t, s, 0, 0, broker.FetchOptions{}); !errors.Is(f.Err, broker.ErrTooLarge) { // I8
		t.Errorf("a batch above the limit: %v", f.Err)
	}
	log[16] = 1 // message format v1
	if f := fetch1(t, openFake(t, c), 0, 0, broker.FetchOptions{}); !errors.Is(f.Err, broker.ErrCorruptBatch) || !errors.Is(f.Err, record.ErrCorrupt) {
		t.Errorf("an old message format: %v", f.Err)
	}
}
