package rpc

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// What a node decodes is what the writer had: all that a file's removal says, deletion vectors too, so that nothing is lost
// on the way into the table (I3).
func TestBodySurvivesTheWire(t *testing.T) {
	text, yes, number, size := "x", true, int64(7), int64(70)
	dv := &deltalog.DeletionVector{StorageType: "u", PathOrInlineDV: "ab^-aqEH.-t@S}K{vb[*k^", Offset: new(int32), SizeInBytes: 36, Cardinality: 2}
	add := deltalog.Add{Path: "a%20b.parquet", PartitionValues: map[string]*string{"p": &text, "q": nil}, Size: 10, ModificationTime: 5, DataChange: true,
		Stats: `{"numRecords":3}`, Tags: map[string]*string{"k": &text}, DeletionVector: dv, BaseRowID: &number}
	want := CommitBody{Adds: []deltalog.Add{add}, Removes: []deltalog.Remove{deltalog.RemoveOf(&add, 9, false),
		{Path: "z", DeletionTimestamp: &number, DataChange: true, ExtendedFileMetadata: &yes, Size: &size}}}
	raw, err := codec{}.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	var got CommitBody
	if err := (codec{}).Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// What the group cannot take is refused before anything is sent (I8).
func TestChangesThatAreRefused(t *testing.T) {
	c, err := NewClient(Config{Addrs: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tab := c.Table("/lake/events")
	for name, x := range map[string]deltalog.Commit{
		"metadata domains":  {Incarnation: "id", Operation: "RESTORE", Domains: make([]deltalog.DomainMetadata, 1)},
		"no operation":      {Incarnation: "id"},
		"no plan":           {Incarnation: "id", Operation: "OPTIMIZE", ReadVersion: -1},
		"of whatever table": {Operation: "OPTIMIZE"},
		"no such position":  {Incarnation: "id", Operation: "RESTORE", Txns: []deltalog.Txn{{AppID: "a", Version: -2}}},
		"two positions":     {Incarnation: "id", Operation: "RESTORE", Txns: []deltalog.Txn{{AppID: "a"}, {AppID: "a"}}},
	} {
		if _, err := tab.Change(context.Background(), x); !errors.Is(err, committer.ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	big := deltalog.Commit{Incarnation: "id", Operation: "OPTIMIZE", Adds: []deltalog.Add{{Path: strings.Repeat("x", stageAbove)}}}
	if _, err := tab.Change(context.Background(), big); !errors.Is(err, committer.ErrInvalidRequest) || !strings.Contains(err.Error(), "commit fewer files") {
		t.Errorf("too large: %v", err)
	}
	// What lies in the store until it is published is not promised before.
	early := committer.Request{App: "app", Epoch: 1, Early: true, Ranges: []committer.Range{{To: 1}}, Adds: big.Adds}
	if _, err := tab.Staging(mem.New()).Commit(context.Background(), early); !errors.Is(err, committer.ErrInvalidRequest) || !strings.Contains(err.Error(), "early answers") {
		t.Errorf("early and staged: %v", err)
	}
}

// I3: what a newer writer says and this node does not know makes it refuse the request, which it must not do in part.
func TestUnknownFieldsAreRefused(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"id":"a","table":"t","ranges":[{"Partition":1,"From":0,"To":2,"Epoch":1}],"adds":[{"path":"x"}]}`: true,
		`{"id":"a","novelty":{}}`:                  false,
		`{"id":"a","ranges":[{"Novelty":1}]}`:      false,
		`{"id":"a","adds":[{"path":"x","new":1}]}`: false,
	} {
		if err := (strict{}).Unmarshal([]byte(text), &CommitRequest{}); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// oldNode is one that does not know requests whose files lie in the store, nor plans: it has the call Commit alone, and leaves out
// what it does not know.
type oldNode struct{ commits atomic.Int64 }

func (n *oldNode) commit(context.Context, *CommitRequest) (*CommitReply, error) {
	n.commits.Add(1)
	return &CommitReply{Answer: fsm.Answer{Code: fsm.Published, Version: 1}}, nil
}

// I3: a node that is older than the writer never takes a request without its files, or a change without its plan: it does
// not have the call, and the writer says so. What it knows it goes on taking.
func TestOldNodesRefuseWhatTheyDoNotKnow(t *testing.T) {
	node := &oldNode{}
	server := grpc.NewServer(grpc.ForceServerCodec(codec{}))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Commit",
		Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			q := &CommitRequest{}
			if err := decode(q); err != nil {
				return nil, err
			}
			return srv.(*oldNode).commit(ctx, q)
		}}}}, node)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	defer server.Stop()
	c, err := NewClient(Config{Addrs: []string{ln.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tab := c.Table("/lake/events").Staging(mem.New())
	change := deltalog.Commit{Incarnation: "id", Operation: "OPTIMIZE", Adds: []deltalog.Add{{Path: "x"}}}
	large := committer.Request{App: "app", Epoch: 1, Ranges: []committer.Range{{To: 5000}}, Adds: []deltalog.Add{{Path: strings.Repeat("x", stageAbove)}}}
	_, planned := tab.Change(t.Context(), change)
	change.Adds = large.Adds
	_, both := tab.Change(t.Context(), change)
	_, staged := tab.Commit(t.Context(), large)
	for what, err := range map[string]error{"planned": planned, "planned and staged": both, "staged": staged} {
		if !errors.Is(err, objstore.ErrUnknownOutcome) || !strings.Contains(err.Error(), "upgrade them first") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := node.commits.Load(); n != 0 {
		t.Errorf("the old node took %d of them", n)
	}
	large.Adds = nil
	if v, err := tab.Commit(t.Context(), large); err != nil || v != 1 {
		t.Errorf("a small append = %d, %v", v, err)
	}
}

// slowGroup takes several times as long for a lease as a try lasts at first.
type slowGroup struct {
	Backend
	takes time.Duration
}

func (g slowGroup) Lease(ctx context.Context, _ *LeaseRequest) (*LeaseReply, error) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < g.takes {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &LeaseReply{Epoch: 7}, nil
}

// A lease is got from a group that is slower than a try: each one that is given up makes the next one longer.
func TestLeaseOfASlowGroup(t *testing.T) {
	const attempt = 50 * time.Millisecond
	server := NewServer(slowGroup{takes: 3 * attempt})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	defer server.Stop()
	c, err := NewClient(Config{Addrs: []string{ln.Addr().String()}, Attempt: attempt})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if epoch, err := c.Lease(t.Context(), LeaseRequest{Table: "/lake/events", App: "app", Partitions: []int32{0}}); err != nil || epoch != 7 {
		t.Errorf("epoch %d, %v", epoch, err)
	}
}
