package raft

import (
	"context"
	"errors"
	"fmt"
	"time"

	hraft "github.com/hashicorp/raft"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
)

var _ rpc.Backend = (*Node)(nil)

// redirect says who leads.
func (n *Node) redirect() rpc.Head {
	leader, _ := n.raft.LeaderWithID()
	return rpc.Head{NotLeader: true, Leader: string(leader)}
}

// recheckTries bounds how often a request is checked anew because the metadata changed under it.
const recheckTries = 8

// Commit decides and publishes a request.
func (n *Node) Commit(ctx context.Context, q *rpc.CommitRequest) (*rpc.CommitReply, error) {
	start := time.Now()
	reply, err := n.commit(ctx, q)
	if err == nil && reply.Answer.Code != fsm.Unknown {
		n.metrics.answered(reply.Answer.Code, start)
	}
	return reply, err
}

func (n *Node) commit(ctx context.Context, q *rpc.CommitRequest) (*rpc.CommitReply, error) {
	t := n.leading()
	if t == nil {
		return &rpc.CommitReply{Head: n.redirect()}, nil
	}
	if q.Table == "" || q.ID == "" || len(q.ID) > fsm.MaxIDLen {
		return &rpc.CommitReply{Answer: fsm.Answer{Code: fsm.Invalid, Text: "a request needs a table and an id"}}, nil
	}
	r := t.table(q.Table)
	if r == nil {
		return &rpc.CommitReply{Head: n.redirect()}, nil
	}
	if reply := r.ready(ctx); reply != nil {
		if reply.NotLeader {
			reply.Head = n.redirect()
		}
		return reply, nil
	}
	for try := range recheckTries {
		a := r.view.Answer(q.ID)
		if x := r.telling(q.Told); x != nil {
			return &rpc.CommitReply{Answer: a, Replaced: x}, nil
		}
		if a.Code.Final() {
			return &rpc.CommitReply{Answer: a}, nil
		}
		req, err := r.prepare(ctx, q)
		if err != nil {
			return &rpc.CommitReply{Error: err.Error()}, nil
		}
		// Early answers are only for what the log holds itself: staged actions can be lost before they are published.
		a, err = r.submit(ctx, req, req.Early)
		switch {
		case errors.Is(err, errNotLeader):
			return &rpc.CommitReply{Head: n.redirect()}, nil
		case err != nil:
			return &rpc.CommitReply{Error: err.Error()}, nil
		}
		if key := req.Staged.Key; key != "" && a.Code.Final() && a.Code != fsm.Lost {
			r.unstage(key) // in the store for ever, where a leader without it finds the version, or refused for ever
		}
		if x := r.telling(q.Told); x != nil { // seen while the request was under way
			return &rpc.CommitReply{Answer: a, Replaced: x}, nil
		}
		if a.Code != fsm.Recheck {
			return &rpc.CommitReply{Answer: a}, nil
		}
		pause(ctx, time.Millisecond<<try) // a change of the metadata is on its way into the store
	}
	return &rpc.CommitReply{Error: "the table's metadata changes all the time"}, nil
}

// ready waits until the table is open; it gives a reply when it is not.
func (r *runner) ready(ctx context.Context) *rpc.CommitReply {
	select {
	case <-r.opened:
		switch {
		case r.failed == nil:
			return nil
		case r.hopeless:
			return &rpc.CommitReply{NoTable: r.failed.Error()}
		}
		return &rpc.CommitReply{Error: r.failed.Error()}
	case <-r.t.ctx.Done():
		return &rpc.CommitReply{Head: rpc.Head{NotLeader: true}}
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		return &rpc.CommitReply{Error: fmt.Sprintf("the table is not open yet: %v", r.status.Err)}
	}
}

// Lease gives an epoch.
func (n *Node) Lease(ctx context.Context, q *rpc.LeaseRequest) (*rpc.LeaseReply, error) {
	t := n.leading()
	if t == nil {
		return &rpc.LeaseReply{Head: n.redirect()}, nil
	}
	r := t.table(q.Table)
	if r == nil {
		return &rpc.LeaseReply{Head: n.redirect()}, nil
	}
	if reply := r.ready(ctx); reply != nil {
		if reply.NotLeader {
			return &rpc.LeaseReply{Head: n.redirect()}, nil
		}
		return &rpc.LeaseReply{Error: reply.Error, NoTable: reply.NoTable}, nil
	}
	res, err := t.apply(&fsm.Lease{Table: q.Table, App: q.App, Partitions: q.Partitions, Owner: q.Owner}).wait()
	if err == nil && !res.Applied {
		err = errors.New(res.Text)
	}
	if err != nil {
		return &rpc.LeaseReply{Error: err.Error()}, nil
	}
	return &rpc.LeaseReply{Epoch: res.Epoch}, nil
}

// Status tells how the node is.
func (n *Node) Status(context.Context, *rpc.StatusRequest) (*rpc.StatusReply, error) {
	leader, _ := n.raft.LeaderWithID()
	out := &rpc.StatusReply{Head: rpc.Head{Leader: string(leader), NotLeader: n.raft.State() != hraft.Leader}, ID: n.cfg.ID, Addr: n.Addr(),
		Term: n.raft.CurrentTerm(), Commit: n.raft.CommitIndex(), Applied: n.raft.AppliedIndex()}
	switch n.raft.State() {
	case hraft.Leader:
		out.State = "leader"
	case hraft.Candidate:
		out.State = "candidate"
	case hraft.Follower:
		out.State = "follower"
	default:
		out.State = "stopped"
	}
	conf := n.raft.GetConfiguration()
	if err := conf.Error(); err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	for _, s := range conf.Configuration().Servers {
		out.Members = append(out.Members, rpc.Member{ID: string(s.ID), Addr: string(s.Address), Voter: s.Suffrage == hraft.Voter})
	}
	out.Tables = n.tables()
	return out, nil
}

func (n *Node) tables() []rpc.TableStatus {
	n.replica.mu.RLock()
	var out []rpc.TableStatus
	for _, name := range n.replica.state.Tables() {
		t := n.replica.state.Table(name)
		v, _ := t.Version()
		out = append(out, rpc.TableStatus{Table: name, Version: v, Pending: len(t.Pending())})
	}
	bad := n.replica.bad
	n.replica.mu.RUnlock()
	t := n.leading()
	for i := range out {
		if bad != nil {
			out[i].Error = bad.Error()
		}
		if t == nil {
			continue
		}
		t.mu.Lock()
		r := t.tables[out[i].Table]
		t.mu.Unlock()
		if r == nil {
			continue
		}
		r.mu.Lock()
		out[i].Waiting = r.status.Waiting
		if r.status.Version >= out[i].Version { // what it has seen in the store, and is about to tell the log
			out[i].Version, out[i].Pending = r.status.Version, int(r.status.Pending)
		}
		if r.status.Err != nil {
			out[i].Error = r.status.Err.Error()
		}
		r.mu.Unlock()
	}
	return out
}

// memberLimit bounds how long a change of the group may take.
const memberLimit = 10 * time.Second

// Member changes the group.
func (n *Node) Member(_ context.Context, q *rpc.MemberRequest) (*rpc.MemberReply, error) {
	if n.raft.State() != hraft.Leader {
		return &rpc.MemberReply{Head: n.redirect()}, nil
	}
	id, address := hraft.ServerID(q.ID), hraft.ServerAddress(q.Addr)
	var err error
	switch q.Op {
	case "add":
		if q.ID == "" || q.Addr == "" {
			err = errors.New("add needs the id and the address of the node")
			break
		}
		err = n.join(id, address, true)
	case "standby":
		if q.ID == "" || q.Addr == "" {
			err = errors.New("standby needs the id and the address of the node")
			break
		}
		err = n.join(id, address, false)
	case "promote":
		err = n.promote(id)
	case "remove":
		err = n.await(n.raft.RemoveServer(id, 0, memberLimit))
	case "transfer":
		err = n.transfer(id)
	default:
		err = fmt.Errorf("unknown operation %q", q.Op)
	}
	if errors.Is(err, hraft.ErrNotLeader) || errors.Is(err, hraft.ErrLeadershipLost) {
		return &rpc.MemberReply{Head: n.redirect()}, nil
	}
	if err != nil {
		return &rpc.MemberReply{Error: err.Error()}, nil
	}
	return &rpc.MemberReply{}, nil
}

// join takes a node in, with a vote or without. A member that has a vote stays as it is: the library would answer a
// repeated call with success, and put the given address in the place of the one under which it is reached.
func (n *Node) join(id hraft.ServerID, address hraft.ServerAddress, voter bool) error {
	conf := n.raft.GetConfiguration()
	if err := conf.Error(); err != nil {
		return err
	}
	for _, s := range conf.Configuration().Servers {
		switch {
		case s.ID != id || s.Suffrage != hraft.Voter:
		case voter && s.Address == address:
			return nil
		default:
			return fmt.Errorf("%s is a member with a vote, at %s: remove it first; a node with an empty directory needs a new id", id, s.Address)
		}
	}
	if voter { // only when the members are still those that were looked at
		return n.await(n.raft.AddVoter(id, address, conf.Index(), memberLimit))
	}
	return n.await(n.raft.AddNonvoter(id, address, conf.Index(), memberLimit))
}

// promote gives a member a vote.
func (n *Node) promote(id hraft.ServerID) error {
	s, err := n.member(id)
	if err != nil {
		return err
	}
	return n.await(n.raft.AddVoter(s.ID, s.Address, 0, memberLimit))
}

func (n *Node) member(id hraft.ServerID) (hraft.Server, error) {
	conf := n.raft.GetConfiguration()
	if err := conf.Error(); err != nil {
		return hraft.Server{}, err
	}
	for _, s := range conf.Configuration().Servers {
		if s.ID == id {
			return s, nil
		}
	}
	return hraft.Server{}, fmt.Errorf("no member %q", id)
}

// transfer lets another node lead: a named one, or the one that is furthest.
func (n *Node) transfer(id hraft.ServerID) error {
	if id == "" {
		return n.await(n.raft.LeadershipTransfer())
	}
	s, err := n.member(id)
	if err != nil {
		return err
	}
	if s.Suffrage != hraft.Voter {
		return fmt.Errorf("%s is a standby and cannot lead: promote it first", id)
	}
	if leader, _ := n.raft.LeaderWithID(); leader == s.Address {
		return nil
	}
	return n.await(n.raft.LeadershipTransferToServer(s.ID, s.Address))
}
