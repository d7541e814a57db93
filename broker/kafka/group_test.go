package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/record"
)

// member is a Group whose callbacks are events.
type member struct {
	*Group
	events chan string
	parts  chan []int32
}

func join(t *testing.T, addrs []string) *member {
	t.Helper()
	m := &member{events: make(chan string, 100), parts: make(chan []int32, 100)}
	tell := func(what string) func(context.Context, string, []int32) {
		return func(_ context.Context, topic string, p []int32) { m.events <- fmt.Sprint(what, " ", topic, " ", p) }
	}
	g, err := JoinGroup(testCtx(t), GroupConfig{Config: Config{Brokers: addrs}, Group: "tier", Topics: []string{topic},
		OnAssigned: func(_ context.Context, topic string, p []int32) { m.parts <- p; tell("assigned")(nil, topic, p) },
		OnRevoked:  tell("revoked"), OnLost: tell("lost")})
	if err != nil {
		t.Fatal(err)
	}
	m.Group = g
	return m
}

func (m *member) next(t *testing.T) string {
	t.Helper()
	select {
	case e := <-m.events:
		return e
	case <-testCtx(t).Done():
		t.Fatal("no callback came")
		return ""
	}
}

func TestGroup(t *testing.T) {
	c := newCluster(t)
	produce(t, newProducer(t, c.ListenAddrs()), topic, 0, numbers(0, 10)...)
	fetches := countKey(c, kmsg.Fetch)
	a := join(t, c.ListenAddrs())
	if e := a.next(t); e != "assigned orders [0 1 2 3]" {
		t.Fatal(e)
	}
	if err := a.Commit(testCtx(t), map[record.TopicPartition]record.Offset{tp(0): 7, tp(3): 0}); err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(newProducer(t, c.ListenAddrs()))
	offsets, err := adm.FetchOffsets(testCtx(t), "tier")
	if o, ok := offsets.Lookup(topic, 0); err != nil || !ok || o.At != 7 {
		t.Fatalf("committed %+v, %v", o, err)
	}

	// Cooperative: the first member keeps two and never gives up what it keeps.
	b := join(t, c.ListenAddrs())
	<-a.parts
	revoked, assigned := a.next(t), b.next(t)
	got := <-b.parts
	if revoked != fmt.Sprint("revoked orders ", got) || assigned != fmt.Sprint("assigned orders ", got) || len(got) != 2 {
		t.Fatalf("%s; %s", revoked, assigned)
	}
	if err := b.Close(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	if e := b.next(t); e != fmt.Sprint("revoked orders ", got) {
		t.Fatal(e)
	}
	if e := a.next(t); e != fmt.Sprint("assigned orders ", got) {
		t.Fatal(e)
	}
	if err := a.Close(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	if e := a.next(t); e != "revoked orders [0 1 2 3]" {
		t.Fatal(e)
	}
	if n := fetches.Load(); n != 0 {
		t.Errorf("the group fetched %d times", n)
	}
	if err := a.Commit(testCtx(t), map[record.TopicPartition]record.Offset{tp(0): 8}); err == nil {
		t.Error("a commit after Close was taken")
	}
}

func TestGroupCommitFails(t *testing.T) {
	c := newCluster(t)
	g := join(t, c.ListenAddrs())
	defer g.Close(testCtx(t))
	g.next(t)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: topic, Err: kerr.TopicAuthorizationFailed})
	err := g.Commit(testCtx(t), map[record.TopicPartition]record.Offset{tp(1): 3})
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("commit: %v", err)
	}
	if err := g.Commit(testCtx(t), nil); err != nil {
		t.Errorf("empty commit: %v", err)
	}
}

func TestGroupRefuses(t *testing.T) {
	f := func(context.Context, string, []int32) {}
	for i, cfg := range []GroupConfig{
		{},
		{Config: Config{Brokers: []string{"x:1"}}},
		{Config: Config{Brokers: []string{"x:1"}}, Group: "g", OnAssigned: f, OnRevoked: f},
		{Config: Config{Brokers: []string{"x:1"}}, Group: "g", Topics: []string{"t"}, OnAssigned: f},
	} {
		if g, err := JoinGroup(testCtx(t), cfg); err == nil {
			t.Errorf("config %d was taken", i)
			g.Close(testCtx(t))
		}
	}
}
