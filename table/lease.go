package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

const (
	leaseDir = "_ledgerlake/leases/"
	// MaxLease bounds how long a lease may last without a renewal, so that a reader that died does not keep
	// files for ever.
	MaxLease = 30 * 24 * time.Hour
	// leaseSlack is how far the clocks of two machines may be apart.
	leaseSlack = 5 * time.Minute
	maxLeases  = 10_000
	// leaseWrite bounds how long one change of a lease's file may take.
	leaseWrite   = 10 * time.Second
	releaseTries = 4
	releaseRetry = 250 * time.Millisecond
)

// LeaseInfo says that a reader needs the files of a version until a time. It is what a lease's file holds.
type LeaseInfo struct {
	ID      string           `json:"id"`
	Version deltalog.Version `json:"version"`
	Owner   string           `json:"owner"` // for people: what reads, and where
	Created time.Time        `json:"created"`
	Expires time.Time        `json:"expires"`
}

// String gives the line that people read.
func (l LeaseInfo) String() string {
	return fmt.Sprintf("lease %s of %s on version %d until %s", l.ID, l.Owner, l.Version, l.Expires.UTC().Format(time.RFC3339))
}

// Lease is a promise of vacuums: they keep the files of its version until it is released or runs out (I6). A vacuum
// that is under way looks at the leases before each step, and a new lease waits for the step under way, so a lease on
// a version whose files are all there after it was taken is safe. Its methods are for one goroutine.
type Lease struct {
	LeaseInfo
	t *Table
}

// Lease takes a lease on a version for a time, at most MaxLease. Renew it in good time before it runs out. It waits
// while a vacuum deletes, seconds as a rule, and some minutes after one that died. After an error there is no lease:
// what it may have written is deleted again, or runs out where the store does not answer.
func (t *Table) Lease(ctx context.Context, v deltalog.Version, owner string, ttl time.Duration) (*Lease, error) {
	now := t.cfg.Clock()
	l := &Lease{t: t, LeaseInfo: LeaseInfo{ID: uuid.NewString(), Version: v, Owner: owner, Created: now.UTC()}}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("lease on version %d: %w", v, err)
	}
	err := l.Renew(ctx, ttl)
	if err == nil {
		if err = t.awaitDeletes(ctx); err == nil {
			return l, nil
		}
		err = fmt.Errorf("lease on version %d: %w", v, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseWrite)
	defer cancel()
	if gone := l.Release(ctx); gone != nil {
		t.cfg.Logger.Warn("a lease that was given up may stay until it runs out", "table", t.Store.URL(), "lease", l.ID, "error", gone)
	}
	return nil, err
}

// Renew makes the lease last for ttl from now on. A write under way is seen to its end, within ten seconds, also when
// ctx ends: one that was given up could arrive behind the Release that follows, and keep files that nobody reads.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	if ttl <= 0 || ttl > MaxLease {
		return fmt.Errorf("lease on version %d: %v is too short or too long, at most %v", l.Version, ttl, MaxLease)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseWrite)
	defer cancel()
	next := l.LeaseInfo
	next.Expires = l.t.cfg.Clock().Add(ttl).UTC()
	raw, err := json.Marshal(next)
	if err == nil {
		err = l.t.Store.Put(ctx, leaseDir+l.ID+".json", raw)
	}
	if err != nil {
		return fmt.Errorf("lease on version %d: %w", l.Version, err)
	}
	l.LeaseInfo = next
	return nil
}

// Release ends the lease. A store that fails for a moment is tried again; a lease that is not released all the same runs
// out, and keeps its files until then.
func (l *Lease) Release(ctx context.Context) error {
	var err error
	for n := range releaseTries {
		if n > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(releaseRetry):
			}
		}
		if err = l.t.Store.Delete(ctx, leaseDir+l.ID+".json"); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("release lease %s: %w", l.ID, err)
}

// Leases gives the leases that count at a time. One that cannot be read counts as an error, until its file is so
// old that it must have run out: whatever it protects is not known.
func (t *Table) Leases(ctx context.Context, now time.Time) ([]LeaseInfo, error) {
	var out []LeaseInfo
	for info, err := range t.Store.List(ctx, objstore.ListOptions{Prefix: leaseDir, Flat: true}) {
		if err != nil {
			return nil, fmt.Errorf("list leases: %w", err)
		}
		if !strings.HasSuffix(info.Key, ".json") || now.Sub(info.ModTime) > MaxLease+leaseSlack {
			continue
		}
		if len(out) == maxLeases {
			return nil, fmt.Errorf("more than %d leases under %s: remove those that nobody needs", maxLeases, leaseDir)
		}
		l, err := t.readLease(ctx, info)
		if errors.Is(err, objstore.ErrNotFound) {
			continue // released meanwhile
		}
		if err != nil {
			return nil, err
		}
		if now.Before(l.Expires.Add(leaseSlack)) {
			out = append(out, l)
		}
	}
	return out, nil
}

func (t *Table) readLease(ctx context.Context, info objstore.Info) (LeaseInfo, error) {
	var l LeaseInfo
	if info.Size > 1<<16 {
		return l, fmt.Errorf("lease %s has %d bytes: it is no lease, remove the file", info.Key, info.Size)
	}
	raw, err := t.Store.Get(ctx, info.Key)
	if err != nil {
		return l, fmt.Errorf("read lease %s: %w", info.Key, err)
	}
	if err := json.Unmarshal(raw, &l); err != nil || l.Expires.IsZero() || l.Version < 0 {
		return l, fmt.Errorf("lease %s cannot be read, so what it protects is not known: remove the file if its reader is gone: %w", info.Key, errors.Join(err, errBadLease))
	}
	return l, nil
}

var errBadLease = errors.New("broken lease")
