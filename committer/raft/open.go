package raft

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/raft/publish"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// open opens store and log of the table and makes it known to the group. It tries until it can or the term ends;
// when there is no such table it gives up, and says why to whoever waits.
func (r *runner) open() bool {
	for try := 0; r.t.ctx.Err() == nil; try++ {
		err := r.openOnce()
		if err == nil {
			return true
		}
		var unsupported *deltalog.UnsupportedError
		hopeless := errors.Is(err, deltalog.ErrNotTable) || errors.As(err, &unsupported)
		if hopeless || r.store == nil && len(r.view.Pending()) == 0 {
			r.failed, r.hopeless = err, hopeless
			close(r.opened)
			return false
		}
		r.t.n.cfg.Logger.Warn("open table", "table", r.name, "error", err)
		r.mu.Lock()
		r.status.Err = err
		r.mu.Unlock()
		pause(r.t.ctx, min(time.Second, 20*time.Millisecond<<min(try, 10)))
	}
	return false
}

func (r *runner) openOnce() error {
	ctx, cancel := context.WithTimeout(r.t.ctx, r.t.n.cfg.StoreLimit)
	defer cancel()
	var err error
	if r.store == nil {
		if r.store, err = r.t.n.cfg.OpenStore(ctx, r.name); err != nil {
			r.store = nil
			return err
		}
	}
	if r.log == nil {
		if r.log, err = deltalog.Open(ctx, r.store, deltalog.Config{Engine: r.t.n.cfg.Engine, Logger: r.t.n.cfg.Logger}); err != nil {
			r.log = nil
			return err
		}
	}
	if r.view.known() {
		return nil
	}
	c, err := r.describe(ctx, -1, "")
	if err != nil {
		return err
	}
	res, err := r.t.apply(c).wait()
	if err == nil && !res.Applied {
		err = errors.New(res.Text)
	}
	return err
}

// describe makes the command that takes the table as it is in the store.
func (r *runner) describe(ctx context.Context, replace int64, hash string) (*fsm.Open, error) {
	snap, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := snap.CheckWritable(snap.RowRules()...); err != nil { // each request says which rules its rows keep
		return nil, err
	}
	c := &fsm.Open{Table: r.name, Version: int64(snap.Version()), Positions: map[string]int64{}, Replace: replace, ReplaceHash: hash}
	for id, v := range snap.Txns() {
		c.Positions[id] = v + 1
	}
	p := snap.Protocol()
	if c.Shape, err = fsm.ShapeOf(snap.Metadata(), &p); err != nil {
		return nil, err
	}
	if c.Shape.Stamped {
		c.Stamp = snap.Timestamp().UnixMilli()
	}
	data, err := r.store.Get(ctx, deltalog.CommitKey(snap.Version()))
	switch {
	case err == nil:
		c.Hash = fsm.HashOf(data)
	case !errors.Is(err, objstore.ErrNotFound): // a version that is only in a checkpoint has no file
		return nil, fmt.Errorf("read version %d: %w", snap.Version(), err)
	}
	return c, nil
}

// reopen takes the table anew when its newest version is not in the store any more.
func (r *runner) reopen(e publish.Reopen) error {
	ctx, cancel := context.WithTimeout(r.t.ctx, r.t.n.cfg.StoreLimit)
	defer cancel()
	r.t.n.cfg.Logger.Warn("the table was replaced in the store; it is taken as it is now", "table", r.name, "version", e.Version)
	c, err := r.describe(ctx, e.Version, e.Hash)
	if err != nil {
		return fmt.Errorf("open the replaced table: %w", err)
	}
	if err := r.compare(ctx, e, c); err != nil {
		return err
	}
	if _, err = r.t.apply(c).wait(); err != nil {
		return err
	}
	r.mu.Lock()
	r.snap = nil
	r.mu.Unlock()
	return nil
}

// compare tells a version that was replaced from a table that was made again, or lost its newest version.
func (r *runner) compare(ctx context.Context, e publish.Reopen, now *fsm.Open) error {
	if r.view.shape().Incarnation != now.Shape.Incarnation {
		return nil
	}
	key := deltalog.CommitKey(deltalog.Version(e.Version))
	data, err := r.store.Get(ctx, key)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read version %d: %w", e.Version, err)
	case fsm.HashOf(data) == e.Hash:
		return nil
	}
	replaced := &deltalog.ReplacedError{Version: deltalog.Version(e.Version)}
	if c, err := deltalog.ParseCommit(data, key); err == nil {
		replaced.By = c.Info.EngineInfo
	}
	r.noteReplaced(replaced)
	return nil
}

// prepare checks a request against the newest metadata and encodes its actions. What is wrong with it goes into the
// log as a refusal: an earlier try of it may be in the table, and only the log knows.
func (r *runner) prepare(ctx context.Context, q *rpc.CommitRequest) (fsm.Request, error) {
	out := fsm.Request{ID: q.ID, App: q.App, Ranges: q.Ranges, Incarnation: q.Incarnation, Schema: q.Schema,
		Parameters: q.Parameters, Metrics: q.Metrics, Operation: q.Operation, Planned: q.Planned, Read: q.Read, Moves: q.Moves, All: q.All, Early: q.Early}
	snap, shape, err := r.snapshot(ctx)
	if err != nil {
		return out, err
	}
	out.Meta, out.Proto = shape.Meta, shape.Proto
	if out.All == fsm.AllFiles && snap.Metadata().Configuration["delta.isolationLevel"] == "Serializable" {
		out.All = fsm.AllCommits // new files count as well
	}
	if len(q.Ranges) > 0 {
		if err := committer.CheckFiller(snap.Metadata(), q.App); err != nil {
			out.Reject = err.Error()
			return out, nil
		}
	}
	if q.Staged.Key != "" { // a store that hangs must not keep the memory of all tables' requests
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.t.n.cfg.StoreLimit)
		defer cancel()
	}
	done, err := r.room(ctx, &out, q)
	if err != nil || out.Unread {
		return out, err
	}
	defer done()
	body, err := r.body(ctx, q)
	if err != nil {
		return out, err
	}
	c := deltalog.Commit{Adds: body.Adds, Removes: body.Removes, Metadata: q.Metadata, Protocol: q.Protocol, BlindAppend: !q.Planned, RowRules: q.RowRules}
	if c.Metadata == nil {
		c.Metadata = withProperties(snap.Metadata(), q.Properties)
	}
	for i := range body.Removes {
		out.Removes = append(out.Removes, fsm.SumOf(deltalog.CanonicalPath(body.Removes[i].Path)))
	}
	lines, err := snap.EncodeActions(c)
	if err != nil {
		out.Reject = err.Error()
		out.Change, out.Removes = nil, nil
		return out, nil
	}
	if c.Metadata != nil || c.Protocol != nil {
		if out.Change, err = reshape(snap, lines); err != nil {
			return out, err
		}
	}
	return out, r.actions(ctx, &out, lines)
}

// reshape gives the shape of the table after actions that change metadata or protocol: from their text, as whoever finds
// it in the store will see it.
func reshape(snap *deltalog.Snapshot, lines []byte) (*fsm.Shape, error) {
	c, err := deltalog.ParseCommit(lines, "the request")
	if err != nil {
		return nil, err
	}
	meta, p := snap.Metadata(), snap.Protocol()
	if c.Metadata != nil {
		meta = c.Metadata
	}
	if c.Protocol != nil {
		p = *c.Protocol
	}
	s, err := fsm.ShapeOf(meta, &p)
	return &s, err
}

// snapshot gives a snapshot with the shape that the group has decided, or the newest there is.
func (r *runner) snapshot(ctx context.Context) (*deltalog.Snapshot, fsm.Shape, error) {
	want := r.view.shape()
	r.mu.Lock()
	snap, shape := r.snap, r.shape
	r.mu.Unlock()
	if snap != nil && shape.Meta == want.Meta && shape.Proto == want.Proto {
		return snap, shape, nil
	}
	snap, err := r.look(ctx)
	if err != nil {
		return nil, fsm.Shape{}, err
	}
	p := snap.Protocol()
	if shape, err = fsm.ShapeOf(snap.Metadata(), &p); err != nil {
		return nil, fsm.Shape{}, err
	}
	r.mu.Lock()
	r.snap, r.shape = snap, shape
	r.mu.Unlock()
	return snap, shape, nil
}

// withProperties gives the metadata with the properties set; nil when they stand so already.
func withProperties(meta *deltalog.Metadata, props map[string]string) *deltalog.Metadata {
	all := maps.Clone(meta.Configuration)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, props)
	if len(props) == 0 || maps.Equal(all, meta.Configuration) {
		return nil
	}
	changed := *meta
	changed.Configuration = all
	return &changed
}
