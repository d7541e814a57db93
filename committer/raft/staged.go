package raft

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/raft/publish"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// A request that is too large for the log lies in the table's store, twice: its body as the writer sent it, and the
// checked actions as the leader wrote them, which the log names by key and hash. If we stop after
//
//	the body                     nothing refers to it: a vacuum takes it when it is old
//	the actions, before the log  nothing refers to them; a repeated request writes them again, a later leader takes them away
//	the log's entry              the next leader reads the actions, compares the hash, and publishes
//	the put of the version       the next leader finds its own transaction id and needs no actions
//	the entry that says so       both are left: the body for the vacuum, the actions for a later leader
//
// So the actions are deleted only when the version is seen in the store, the request is refused in the log, or nothing can
// come to name them (sweep). A leader that misses them looks for the version itself.

// inline is the size up to which actions are in the log itself.
const inline = 1 << 20

// stagedBudget bounds the staged bytes that a node checks at a time, in all tables, and as many that it publishes: those of
// one request of the largest size each. Decoded they take a few times as much (I8).
const stagedBudget = fsm.MaxStaged

// room waits until the body of a staged request may be read; the caller calls what it gives when it is done with it. A
// request that will be refused whatever its body is goes into the log without, as Unread.
func (r *runner) room(ctx context.Context, out *fsm.Request, q *rpc.CommitRequest) (done func(), err error) {
	if q.Staged.Key == "" {
		return func() {}, nil
	}
	if err := checkStaged(q.Staged); err != nil {
		return nil, err
	}
	switch a := r.view.Check(out); a.Code {
	case fsm.Pending, fsm.Recheck, fsm.Published:
	default:
		out.Unread = true
		return nil, nil
	}
	return reserve(ctx, r.t.n.staged, q.Staged.Size)
}

func reserve(ctx context.Context, budget *semaphore.Weighted, n int64) (done func(), err error) {
	if err := budget.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("wait for memory for a staged request of %d bytes: %w", n, err)
	}
	return func() { budget.Release(n) }, nil
}

// body reads what a request has staged.
func (r *runner) body(ctx context.Context, q *rpc.CommitRequest) (*rpc.CommitBody, error) {
	if q.Staged.Key == "" {
		return &rpc.CommitBody{Adds: q.Adds, Removes: q.Removes}, nil
	}
	data, err := r.readStaged(ctx, q.Staged)
	if err != nil {
		return nil, err
	}
	b := &rpc.CommitBody{}
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("decode staged request %s: %w", q.Staged.Key, err)
	}
	return b, nil
}

// readStaged reads an object and compares its hash; never more of it than the limit (I8).
func (r *runner) readStaged(ctx context.Context, s fsm.Staged) ([]byte, error) {
	if err := checkStaged(s); err != nil {
		return nil, err
	}
	data, err := r.store.GetRange(ctx, s.Key, 0, s.Size)
	if err != nil {
		return nil, fmt.Errorf("read staged object %s: %w", s.Key, err)
	}
	if fsm.HashOf(data) != s.Hash {
		return nil, fmt.Errorf("staged object %s is not the one that was named", s.Key)
	}
	return data, nil
}

func checkStaged(s fsm.Staged) error {
	name, ok := strings.CutPrefix(s.Key, fsm.StagedFolder)
	if !ok || name == "" || strings.ContainsAny(name, "/\\") || s.Size <= 0 || s.Size > fsm.MaxStaged {
		return fmt.Errorf("staged object %q of %d bytes: want one in %s of at most %d bytes", s.Key, s.Size, fsm.StagedFolder, fsm.MaxStaged)
	}
	return nil
}

// stage puts actions into the store. The key names the term: what it is of earlier ones and no version names is litter.
func (r *runner) stage(ctx context.Context, id string, lines []byte) (fsm.Staged, error) {
	sum := sha256.Sum256([]byte(id))
	s := fsm.Staged{Hash: fsm.HashOf(lines), Size: int64(len(lines))}
	s.Key = fmt.Sprintf("%s%x-%s-%016x%s", fsm.StagedFolder, sum[:16], s.Hash, r.t.number, fsm.ActionsSuffix)
	if err := r.store.Put(ctx, s.Key, lines); err != nil {
		return fsm.Staged{}, fmt.Errorf("stage the actions of a large request: %w", err)
	}
	return s, nil
}

// actions puts checked actions into a request, by way of the store when they are many.
func (r *runner) actions(ctx context.Context, out *fsm.Request, lines []byte) error {
	switch {
	case len(lines) <= inline:
		out.Lines = bytes.Clone(lines)
	case len(lines) <= fsm.MaxStaged:
		var err error
		if out.Staged, err = r.stage(ctx, out.ID, lines); err != nil {
			return err
		}
		out.Early = false
	default:
		out.Reject = fmt.Sprintf("the request has %d bytes of actions, the group takes %d: commit fewer files at a time", len(lines), fsm.MaxStaged)
	}
	if n := out.Size(); n > fsm.MaxRequest && out.Reject == "" {
		out.Reject = fmt.Sprintf("the request has %d bytes in the group's log, which takes %d: commit fewer files at a time", n, fsm.MaxRequest)
	}
	if out.Reject != "" {
		out.Lines, out.Removes, out.Change = nil, nil, nil
	}
	return nil
}

func (r *runner) load(e publish.Load) {
	ctx, cancel := context.WithTimeout(r.t.ctx, r.t.n.cfg.StoreLimit)
	defer cancel()
	done, err := reserve(ctx, r.t.n.loads, max(0, min(e.Staged.Size, stagedBudget)))
	var data []byte
	if err == nil {
		data, err = r.readStaged(ctx, e.Staged)
	} else {
		done = func() {}
	}
	if err != nil {
		r.t.n.cfg.Logger.Warn("publish", "table", r.name, "version", e.Version, "error", err)
	}
	done = sync.OnceFunc(done)
	forget := context.AfterFunc(r.t.ctx, done) // nobody takes the event then
	r.post(func(m *publish.Machine, now time.Time) []publish.Effect {
		effects := m.LoadDone(now, e.Version, data, err)
		end := func() { forget(); done() }
		if slices.ContainsFunc(effects, func(x publish.Effect) bool { _, ok := x.(publish.Put); return ok }) {
			r.loaded = end // once the put is over
		} else {
			end()
		}
		return effects
	})
}

// sweep removes actions that leaders of earlier terms staged and no version will ever name. What was decided before this
// term is applied here, so the pending versions name all of theirs that are still needed; what later terms stage has other
// keys, so a leader that wakes late takes nothing from them. Names without a term are of programs of November 2026.
func (r *runner) sweep() error {
	ctx, cancel := context.WithTimeout(r.t.ctx, r.t.n.cfg.StoreLimit)
	defer cancel()
	needed := map[string]bool{}
	for _, v := range r.view.Pending() {
		if s, ok := v.Staged(); ok {
			needed[s.Key] = true
		}
	}
	for info, err := range r.store.List(ctx, objstore.ListOptions{Prefix: fsm.StagedFolder}) {
		if err != nil {
			return fmt.Errorf("look for actions that a crash left: %w", err)
		}
		name, ok := strings.CutSuffix(info.Key, fsm.ActionsSuffix)
		if !ok || needed[info.Key] {
			continue
		}
		if of, known := stagedTerm(name); known && of < r.t.number || !known && time.Since(info.ModTime) > oldActions {
			r.unstage(info.Key)
		}
	}
	return nil
}

// oldActions is the age from which on no leader works on actions whose name tells no term.
const oldActions = 24 * time.Hour

// stagedTerm reads the term out of a key without its suffix.
func stagedTerm(name string) (uint64, bool) {
	part := strings.Split(name, "-")
	if len(part) < 3 || len(part[len(part)-1]) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(part[len(part)-1], 16, 64)
	return n, err == nil
}

// unstage deletes an object that nobody needs any more; one that stays costs space alone.
func (r *runner) unstage(key string) {
	ctx, cancel := context.WithTimeout(r.t.ctx, r.t.n.cfg.StoreLimit)
	defer cancel()
	_ = r.store.Delete(ctx, key)
}
