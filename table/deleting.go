package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// A lease that begins while files are being deleted comes too late for those. So who deletes puts a mark first and
// looks at the leases then; who takes a lease puts that first and waits then for the marks that it finds. Whichever
// is first, the other sees it: the files of a lease stay, or are gone before the lease is given (I6). A mark that
// its owner left behind, by a crash or a failure with deletes under way, runs out.

const (
	deletingDir = "_ledgerlake/deleting/"
	// deletingTime is how long one mark lasts, and the work under it.
	deletingTime = 2 * time.Minute
)

// ErrDeletingOver means that the time of one mark was not enough for the work under it.
var ErrDeletingOver = errors.New("deleting took too long for one step")

type deletingMark struct {
	Owner   string    `json:"owner"`
	Expires time.Time `json:"expires"`
}

// Deleting runs work, which deletes what no lease needs, so that no lease begins in the middle of it. Work must look
// at Leases, and then at the newest version, before it deletes. Its context ends after two minutes, with an error
// that wraps ErrDeletingOver: work goes in steps of less.
func (t *Table) Deleting(ctx context.Context, owner string, work func(context.Context) error) error {
	key := deletingDir + uuid.NewString() + ".json"
	ctx, cancel := context.WithTimeoutCause(ctx, deletingTime, ErrDeletingOver) // runs from before the mark's own time
	defer cancel()
	raw, err := json.Marshal(deletingMark{Owner: owner, Expires: t.cfg.Clock().Add(deletingTime).UTC()})
	if err == nil {
		err = t.Store.Put(ctx, key, raw)
	}
	if err != nil {
		return fmt.Errorf("announce deletes: %w", err)
	}
	if err := work(ctx); err != nil { // deletes may be under way still: the mark stays until it runs out
		if cause := context.Cause(ctx); errors.Is(cause, ErrDeletingOver) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return err
	}
	if err := t.Store.Delete(context.WithoutCancel(ctx), key); err != nil {
		t.cfg.Logger.Warn("new leases wait until a mark runs out", "table", t.Store.URL(), "mark", key, "error", err)
	}
	return nil
}

// awaitDeletes waits until those who delete now are done. Those who begin later see our lease.
func (t *Table) awaitDeletes(ctx context.Context) error {
	var keys []string
	for info, err := range t.Store.List(ctx, objstore.ListOptions{Prefix: deletingDir, Flat: true}) {
		if err != nil {
			return fmt.Errorf("list deletes under way: %w", err)
		}
		keys = append(keys, info.Key)
	}
	for _, key := range keys {
		for logged := false; ; {
			on, err := t.deleting(ctx, key)
			if err != nil {
				return err
			}
			if !on {
				break
			}
			if !logged {
				t.cfg.Logger.Info("a lease waits for deletes under way", "table", t.Store.URL(), "mark", key)
				logged = true
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for deletes under way (%s): %w", key, ctx.Err())
			case <-time.After(t.cfg.LeasePoll):
			}
		}
	}
	return nil
}

// deleting says whether a mark still counts, and removes one that has run out. One that cannot be read counts until
// its age is too high.
func (t *Table) deleting(ctx context.Context, key string) (bool, error) {
	var m deletingMark
	info, err := t.Store.Head(ctx, key)
	if err == nil && info.Size <= 1<<16 {
		var raw []byte
		if raw, err = t.Store.Get(ctx, key); err == nil && json.Unmarshal(raw, &m) != nil {
			m = deletingMark{}
		}
	}
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	if m.Expires.IsZero() {
		m.Expires = info.ModTime.Add(deletingTime)
	}
	if t.cfg.Clock().Before(m.Expires.Add(leaseSlack)) {
		return true, nil
	}
	_ = t.Store.Delete(ctx, key) // if not, the next lease tries
	return false, nil
}
