package readonly

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/record"
)

// own is the log of the internal topics: it notes what it is asked for.
type own struct {
	broker.Log
	asked []string
}

func (o *own) Topics(context.Context) ([]broker.TopicInfo, error) {
	return []broker.TopicInfo{{Name: "__consumer_offsets"}, {Name: "not shown"}}, nil
}

func (o *own) CreateTopic(_ context.Context, name string, _ broker.TopicConfig) (broker.TopicInfo, error) {
	o.asked = append(o.asked, "create "+name)
	return broker.TopicInfo{Name: name}, nil
}

func (o *own) Append(_ context.Context, tp record.TopicPartition, _ []byte) (broker.AppendResult, error) {
	o.asked = append(o.asked, "append "+tp.Topic)
	return broker.AppendResult{}, nil
}

func (o *own) Fetch(_ context.Context, ranges []broker.FetchRange, _ broker.FetchOptions) ([]broker.Fetched, error) {
	return []broker.Fetched{{TP: ranges[0].TP, Bounds: broker.Bounds{End: 77}}}, nil
}

func open(t *testing.T, b *pulsartest.Broker) (*Log, *own) {
	t.Helper()
	src, err := pulsar.Open(t.Context(), pulsar.Config{Service: b.Addr(), NoOrigin: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Close() })
	o := &own{}
	return New(Config{Source: src, Namespace: "a/b", Topics: regexp.MustCompile("^a/b/"), Internal: o}), o
}

// TestTopicsAreShownByTheirLastNames: internal ones are those of the other log; names that no client of Kafka takes are left out.
func TestTopicsAreShownByTheirLastNames(t *testing.T) {
	b := pulsartest.Start(t)
	for _, name := range []string{"orders", "odd name", "other"} {
		b.Create("persistent://a/b/" + name)
	}
	l, _ := open(t, b)
	topics, err := l.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][16]byte{}
	for _, in := range topics {
		got[in.Name] = in.ID
		if in.Name != "__consumer_offsets" && in.Config.Partitions != 1 {
			t.Errorf("%s has %d partitions", in.Name, in.Config.Partitions)
		}
	}
	if len(topics) != 3 || len(got) != 3 || got["orders"] == got["other"] || got["orders"] == [16]byte{} {
		t.Errorf("topics %v", topics)
	}
	if _, err := l.Bounds(t.Context(), record.TopicPartition{Topic: "nobody"}); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("an unknown topic: %v", err)
	}
}

// TestAFetchTellsTheEnd: records come without what is Pulsar's own; a Fetch that brings nothing tells the end where it stands at
// it, and never before that is sure (I4).
func TestAFetchTellsTheEnd(t *testing.T) {
	b := pulsartest.Start(t)
	const topic = "persistent://a/b/orders"
	b.Create(topic)
	for i := range 5 {
		b.Append(topic, 2, pulsartest.Batch(int64(i), fmt.Sprint(i, "a"), fmt.Sprint(i, "b")))
	}
	l, _ := open(t, b)
	tp := record.TopicPartition{Topic: "orders"}
	fetch := func(from record.Offset, wait time.Duration) broker.Fetched {
		t.Helper()
		got, err := l.Fetch(t.Context(), []broker.FetchRange{{TP: tp, From: from}}, broker.FetchOptions{MinBytes: 1, MaxWait: wait})
		if err != nil || len(got) != 1 || got[0].TP != tp {
			t.Fatalf("%v, %v", got, err)
		}
		return got[0]
	}
	next := record.Offset(0)
	for next < 10 {
		f := fetch(next, time.Minute)
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		pulsartest.Records(t, f.Batches, func(r *record.Record) {
			if r.Offset != next || len(r.Headers) != 0 || string(r.Value) != fmt.Sprint(next/2, string(rune('a'+next%2))) {
				t.Errorf("offset %d is %q with headers %v", r.Offset, r.Value, r.Headers)
			}
			next++
		})
	}
	if f := fetch(10, 0); f.Err != nil || f.Bounds.End != 10 || f.Bounds.Stable != 10 {
		t.Errorf("at the end: %+v", f)
	}
	if end, err := l.CountEnd(t.Context(), tp); err != nil || end != 10 {
		t.Errorf("CountEnd: %d %v", end, err)
	}
	if f := fetch(3, 0); f.Err != nil || len(f.Batches) == 0 && f.Bounds.End <= 3 {
		t.Errorf("an answer without records from the middle says that the end is at %d", f.Bounds.End)
	}
	got, err := l.Fetch(t.Context(), []broker.FetchRange{{TP: record.TopicPartition{Topic: "__consumer_offsets"}}, {TP: tp, From: 10}}, broker.FetchOptions{MinBytes: 1, MaxWait: time.Hour})
	if err != nil || got[0].Bounds.End != 77 || got[1].Err != nil {
		t.Errorf("an internal topic beside one of Pulsar: %+v %v", got, err)
	}
}

// TestNothingIsWrittenToPulsar: what would change its topics is refused; internal topics are made and written.
func TestNothingIsWrittenToPulsar(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create("persistent://a/b/orders")
	l, o := open(t, b)
	tp := record.TopicPartition{Topic: "orders"}
	_, create := l.CreateTopic(t.Context(), "more", broker.TopicConfig{})
	_, add := l.Append(t.Context(), tp, nil)
	_, cut := l.DeleteRecords(t.Context(), tp, 3)
	for what, err := range map[string]error{"create": create, "append": add, "delete records": cut, "delete": l.DeleteTopic(t.Context(), "orders")} {
		if !errors.Is(err, broker.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := l.Hold(t.Context(), tp, 1); !errors.Is(err, broker.ErrNoHold) {
		t.Errorf("hold: %v", err)
	}
	if _, err := l.CreateTopic(t.Context(), "__consumer_offsets", broker.TopicConfig{}); err != nil {
		t.Error(err)
	}
	if _, err := l.Append(t.Context(), record.TopicPartition{Topic: "__consumer_offsets"}, nil); err != nil || len(o.asked) != 2 {
		t.Errorf("internal topics: %v %v", err, o.asked)
	}
}
