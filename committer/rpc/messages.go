package rpc

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"

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
	Incarnation string             `json:"incarnation,omitempty"`
	Schema      string             `json:"schema,omitempty"` // fsm.SchemaHash
	Operation   string             `json:"operation,omitempty"`
	Parameters  map[string]string  `json:"parameters,omitempty"`
	Metrics     map[string]string  `json:"metrics,omitempty"`
	Properties  map[string]string  `json:"properties,omitempty"`
	Metadata    *deltalog.Metadata `json:"metadata,omitempty"` // of a planned change
	Protocol    *deltalog.Protocol `json:"protocol,omitempty"`
	Early       bool               `json:"early,omitempty"` // answer after the decision, before it is published
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

const service = "ledgerlake.Committer"

// NewServer makes a gRPC server of a node.
func NewServer(b Backend, opts ...grpc.ServerOption) *grpc.Server {
	opts = append(opts, grpc.ForceServerCodec(codec{}), grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxConcurrentStreams(4096))
	s := grpc.NewServer(opts...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*Backend)(nil), Methods: []grpc.MethodDesc{
		method("Commit", Backend.Commit), method("Lease", Backend.Lease), method("Status", Backend.Status), method("Member", Backend.Member),
	}}, b)
	return s
}

func method[Req, Resp any](name string, call func(Backend, context.Context, *Req) (*Resp, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, mid grpc.UnaryServerInterceptor) (any, error) {
		req := new(Req)
		if err := decode(req); err != nil {
			return nil, err
		}
		run := func(ctx context.Context, req any) (any, error) { return call(srv.(Backend), ctx, req.(*Req)) }
		if mid == nil {
			return run(ctx, req)
		}
		return mid(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + service + "/" + name}, run)
	}}
}
