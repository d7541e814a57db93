package raft_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ledgerlake/ledgerlake/committer/raft"
	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// losing is a node whose first answers that tell of a replaced version get lost on their way.
type losing struct {
	rpc.Backend
	mu         sync.Mutex
	lose, lost int
}

func (l *losing) Commit(ctx context.Context, q *rpc.CommitRequest) (*rpc.CommitReply, error) {
	reply, err := l.Backend.Commit(ctx, q)
	if err == nil {
		reply.Leader = "" // its own address, where nothing gets lost
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && reply.Replaced != nil && l.lost < l.lose {
		l.lost++
		return nil, status.Error(codes.Unavailable, "the answer got lost")
	}
	return reply, err
}

func (l *losing) Lease(ctx context.Context, q *rpc.LeaseRequest) (*rpc.LeaseReply, error) {
	reply, err := l.Backend.Lease(ctx, q)
	if err == nil {
		reply.Leader = ""
	}
	return reply, err
}

// replace overwrites a version as a careless writer does.
func replace(t *testing.T, store objstore.Store, v deltalog.Version) {
	t.Helper()
	if err := store.Put(t.Context(), deltalog.CommitKey(v), []byte(`{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"Careless/1.0"}}`)); err != nil {
		t.Fatal(err)
	}
}

// That a version was replaced is told until somebody says that he knows it: answers that get lost on their way tell nobody. One
// writer has to be told, and goes on then, by appends and changes alike; a second replaced version is told anew (I5).
func TestReplacedVersionIsSaidUntilAcknowledged(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	c := newCluster(t, 1, store, func(cfg *raft.Config) { cfg.Verify = time.Nanosecond })
	node := &losing{Backend: c.nodes["n0"], lose: 3}
	c.leader(c.client(nil))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(node)
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(ln) })
	defer serving.Wait()
	defer srv.Stop()
	cl, err := rpc.NewClient(rpc.Config{Addrs: []string{ln.Addr().String()}, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	tab := cl.Table(location)
	if err := write(t.Context(), tab, 0, 3); err != nil {
		t.Fatal(err)
	}
	replace(t, store, 3)
	var replaced *deltalog.ReplacedError
	if v, err := tab.Commit(t.Context(), request(1, 0, 10)); !errors.As(err, &replaced) || replaced.Version != 3 || node.lost != 3 {
		t.Fatalf("version %d, %v, after %d lost answers", v, err, node.lost)
	}
	// Another writer has not heard of it, and nobody has acknowledged it yet.
	other, err := rpc.NewClient(rpc.Config{Addrs: []string{ln.Addr().String()}, Owner: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if v, err := other.Table(location).Commit(t.Context(), request(2, 0, 10)); !errors.As(err, &replaced) || replaced.Version != 3 {
		t.Fatalf("the other writer: version %d, %v", v, err)
	}
	for i := range record.Offset(2) { // each change has a Table of its own, as in the commands
		if v, err := cl.Table(location).Commit(t.Context(), request(1, 10*i, 10*i+10)); err != nil {
			t.Fatalf("version %d, %v", v, err)
		}
	}
	v, err := other.Table(location).Commit(t.Context(), request(2, 0, 10))
	if err != nil {
		t.Fatal(err)
	}
	replace(t, store, v)
	change := deltalog.Commit{ReadVersion: v, Incarnation: snapshot(t, store).Metadata().ID, Operation: "STREAMING UPDATE", Txns: []deltalog.Txn{{AppID: "app-7", Version: 4}}}
	if _, err := cl.Table(location).Change(t.Context(), change); !errors.As(err, &replaced) || replaced.Version != v {
		t.Fatalf("the second one: %v", err)
	}
	if _, err := cl.Table(location).Change(t.Context(), change); errors.As(err, &replaced) {
		t.Fatalf("it was told twice: %v", err)
	}
	if _, err := cl.Table(location).Commit(t.Context(), request(1, 20, 30)); err != nil {
		t.Fatal(err)
	}
}

// A writer that cannot acknowledge is told once, and goes on.
func TestReplacedVersionIsSaidOnceToOldWriters(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	c := newCluster(t, 1, store, func(cfg *raft.Config) { cfg.Verify = time.Nanosecond })
	if err := write(t.Context(), c.client(nil).Table(location), 0, 3); err != nil {
		t.Fatal(err)
	}
	replace(t, store, 3)
	q := request(1, 0, 10)
	old := &rpc.CommitRequest{ID: "old", Table: location, App: q.App, Adds: q.Adds}
	for _, r := range q.Ranges {
		old.Ranges = append(old.Ranges, fsmRange(r))
	}
	told := 0
	for try := 0; ; try++ {
		reply, err := c.nodes["n0"].Commit(t.Context(), old)
		switch {
		case err != nil || try > 10:
			t.Fatalf("try %d: %+v, %v", try, reply, err)
		case reply.Replaced != nil:
			told++
			continue
		case reply.Answer.Code == fsm.Lost: // it was under way when the table was taken anew
			old.ID += "+"
			continue
		case reply.Error != "" || !reply.Answer.Code.Final():
			continue
		}
		if told != 1 || reply.Answer.Version != 4 {
			t.Errorf("told %d times, %+v", told, reply.Answer)
		}
		return
	}
}
