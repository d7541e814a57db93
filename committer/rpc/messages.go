package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
)

// MaxMessage bounds a message, in bytes. A request is bounded by fsm.MaxRequest.
const MaxMessage = 16 << 20

// Head is part of every reply.
type Head struct {
	NotLeader bool   `json:"notLeader,omitempty"` // nothing was done; ask the leader
	Leader    string `json:"leader,omitempty"`    // its address, when it is known
}

// CommitRequest asks for one change of a table.
type CommitRequest struct {
	ID          string             `json:"id"`
	Table       string             `json:"table"` // path or URL of the table, as the nodes can open it
	App         string             `json:"app"`
	Ranges      []fsm.Range        `json:"ranges"`
	Adds        []deltalog.Add     `json:"adds,omitempty"`
	Removes     []deltalog.Remove  `json:"removes,omitempty"`
	Staged      fsm.Staged         `json:"staged,omitzero"`   // a CommitBody in the table's store, instead of adds and removes
	Planned     bool               `json:"planned,omitempty"` // it stands on what the table held at Read
	Read        int64              `json:"read,omitempty"`
	Moves       map[string]int64   `json:"moves,omitempty"` // positions that a planned request sets, app id -> next offset
	All         fsm.Extent         `json:"all,omitempty"`   // what it stands on besides the files that it removes
	Incarnation string             `json:"incarnation,omitempty"`
	Schema      string             `json:"schema,omitempty"` // fsm.SchemaHash
	Operation   string             `json:"operation,omitempty"`
	Parameters  map[string]string  `json:"parameters,omitempty"`
	Metrics     map[string]string  `json:"metrics,omitempty"`
	Properties  map[string]string  `json:"properties,omitempty"`
	Metadata    *deltalog.Metadata `json:"metadata,omitempty"` // of a planned change
	Protocol    *deltalog.Protocol `json:"protocol,omitempty"`
	Early       bool               `json:"early,omitempty"` // answer after the decision, before it is published
	// RowRules are those of the table that the rows of Adds keep; a table that has others refuses the request.
	RowRules []deltalog.RowRule `json:"rowRules,omitempty"`
	// Told is the id of the Replaced that the writer got last, or ToldNothing. A request that says nothing is of a writer that
	// cannot acknowledge, and is told once.
	Told string `json:"told,omitempty"`
}

// CommitBody is the part of a request that grows with the number of files.
type CommitBody struct {
	Adds    []deltalog.Add    `json:"adds,omitempty"`
	Removes []deltalog.Remove `json:"removes,omitempty"`
}

// CommitReply says what became of a request. Error is a passing trouble: the same request is to be sent again.
type CommitReply struct {
	Head
	Answer  fsm.Answer `json:"answer"`
	Error   string     `json:"error,omitempty"`
	NoTable string     `json:"noTable,omitempty"` // there is no table that the group could commit to: why
	// Replaced tells that a version of the table has other content now, until a request acknowledges that it was told. The same
	// request, sent again with that, gets its answer.
	Replaced *Replaced `json:"replaced,omitempty"`
}

// ToldNothing is what a writer acknowledges that was told of no replaced version.
const ToldNothing = "-"

// Replaced is a deltalog.ReplacedError.
type Replaced struct {
	ID      string `json:"id,omitempty"` // of this telling; an older node has none
	Version int64  `json:"version"`
	By      string `json:"by,omitempty"`
}

// LeaseRequest asks for an epoch of partitions.
type LeaseRequest struct {
	Table      string  `json:"table"`
	App        string  `json:"app"`
	Partitions []int32 `json:"partitions"`
	Owner      string  `json:"owner,omitempty"`
}

// LeaseReply gives it.
type LeaseReply struct {
	Head
	Epoch   int64  `json:"epoch"`
	Error   string `json:"error,omitempty"`
	NoTable string `json:"noTable,omitempty"`
}

// StatusRequest asks a node, leader or not, how it is.
type StatusRequest struct{}

// StatusReply tells.
type StatusReply struct {
	Head
	ID      string        `json:"id"`
	Addr    string        `json:"addr"`
	State   string        `json:"state"` // leader, follower, candidate
	Term    uint64        `json:"term"`
	Commit  uint64        `json:"commit"`  // newest committed entry that the node knows
	Applied uint64        `json:"applied"` // newest entry that it has applied
	Members []Member      `json:"members"`
	Tables  []TableStatus `json:"tables"`
}

// Member is a node of the group.
type Member struct {
	ID    string `json:"id"`
	Addr  string `json:"addr"`
	Voter bool   `json:"voter"`
}

// TableStatus is a table as the node knows it. Waiting and Error are known to the leader.
type TableStatus struct {
	Table   string `json:"table"`
	Version int64  `json:"version"` // newest known to be in the store
	Pending int    `json:"pending"` // decided, not known to be in the store
	Waiting int    `json:"waiting"` // requests without an answer
	Error   string `json:"error,omitempty"`
}

// MemberRequest changes the group.
type MemberRequest struct {
	Op   string `json:"op"` // add, standby, promote, remove, transfer
	ID   string `json:"id"`
	Addr string `json:"addr,omitempty"`
}

// MemberReply says why not.
type MemberReply struct {
	Head
	Error string `json:"error,omitempty"`
}

// Backend is a node.
type Backend interface {
	Commit(ctx context.Context, r *CommitRequest) (*CommitReply, error)
	Lease(ctx context.Context, r *LeaseRequest) (*LeaseReply, error)
	Status(ctx context.Context, r *StatusRequest) (*StatusReply, error)
	Member(ctx context.Context, r *MemberRequest) (*MemberReply, error)
}

// codec carries messages as JSON: there is no compiler to install, and a capture can be read.
type codec struct{}

func (codec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }
func (codec) Unmarshal(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}
func (codec) Name() string { return "json" }

// strict is the codec of nodes: a request of a newer writer that says what this node does not know is refused, not done in part
// (I3).
type strict struct{ codec }

func (strict) Unmarshal(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}

const service = "ledgerlake.Committer"

// The calls of Backend.Commit. A node leaves out what it does not know of a message, so what must not be left out has a call
// of its own, which an older node does not have: it refuses the whole request (I3).
const (
	commitCall  = "Commit"
	stagedCall  = "CommitStaged"  // the files lie in the store
	plannedCall = "CommitPlanned" // it stands on a version, and may change metadata and protocol
)

// call names the call that a request needs.
func (r *CommitRequest) call() string {
	switch {
	case r.Staged.Key != "":
		return stagedCall
	case r.Planned:
		return plannedCall
	}
	return commitCall
}

// NewServer makes a gRPC server of a node.
func NewServer(b Backend, opts ...grpc.ServerOption) *grpc.Server {
	opts = append(opts, grpc.ForceServerCodec(strict{}), grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxConcurrentStreams(4096))
	s := grpc.NewServer(opts...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*Backend)(nil), Methods: []grpc.MethodDesc{
		method(commitCall, Backend.Commit), method(stagedCall, Backend.Commit), method(plannedCall, Backend.Commit), method("Lease", Backend.Lease), method("Status", Backend.Status), method("Member", Backend.Member),
	}}, b)
	return s
}

func method[Req, Resp any](name string, call func(Backend, context.Context, *Req) (*Resp, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, mid grpc.UnaryServerInterceptor) (any, error) {
		req := new(Req)
		if err := decode(req); err != nil {
			if strings.Contains(err.Error(), "unknown field") {
				err = status.Error(codes.Unimplemented, err.Error()) // as a call that this node does not have
			}
			return nil, err
		}
		run := func(ctx context.Context, req any) (any, error) { return call(srv.(Backend), ctx, req.(*Req)) }
		if mid == nil {
			return run(ctx, req)
		}
		return mid(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + service + "/" + name}, run)
	}}
}
