package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/objstore"
)

const (
	stageAbove = 1 << 20 // bytes of a request that are sent as they are
	stageRate  = 4 << 20 // bytes a second that a leader may take for a staged request, at least
)

// Staging lets requests that are too large for a message lie in the table's store until they are answered. The
// nodes open the same store by the table's location.
func (t *Table) Staging(store objstore.Store) *Table {
	t.store = store
	return t
}

// stage moves the files of a request into an object of the store, under the id of the request: what is sent again
// after a lost answer writes the same object again. One that is left behind goes with a vacuum.
func (t *Table) stage(ctx context.Context, r *CommitRequest, size int) error {
	if t.store == nil || size > fsm.MaxStaged {
		return fmt.Errorf("%w: it has %d bytes, the group takes %d: commit fewer files at a time", committer.ErrInvalidRequest, size, t.limit())
	}
	raw, err := json.Marshal(CommitBody{Adds: r.Adds, Removes: r.Removes})
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	s := fsm.Staged{Key: fsm.StagedFolder + r.ID + ".request", Hash: fsm.HashOf(raw), Size: int64(len(raw))}
	if err := t.store.Put(ctx, s.Key, raw); err != nil {
		return fmt.Errorf("stage a request of %d bytes: %w: %w", size, objstore.ErrUnknownOutcome, err) // an earlier try may be in
	}
	r.Adds, r.Removes, r.Staged = nil, nil, s
	return nil
}

func (t *Table) limit() int {
	if t.store == nil {
		return stageAbove
	}
	return fsm.MaxStaged
}

// unstage removes the object of a request that has its answer.
func (t *Table) unstage(ctx context.Context, r *CommitRequest) {
	if r.Staged.Key == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = t.store.Delete(ctx, r.Staged.Key)
}

// attempt is how long one try of a request may take: a leader reads and writes what is staged before it decides. A commit that
// is sent again goes on waiting where the try before did. Anything else is done anew each time, so tries that were too short
// get longer: else a slow group would only have more and more to do, and nobody would ever be there for an answer.
func (c *Client) attempt(req any, slow int) time.Duration {
	d := c.cfg.Attempt
	if r, ok := req.(*CommitRequest); ok {
		return d + time.Duration(r.Staged.Size)*(time.Second/stageRate)
	}
	return d << min(slow, maxSlow)
}

const maxSlow = 5 // doublings
