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
// while a vacuum deletes, seconds as a rule, and some minutes after one that died.
func (t *Table) Lease(ctx context.Context, v deltalog.Version, owner string, ttl time.Duration) (*Lease, error) {
	now := t.cfg.Clock()
	l := &Lease{t: t, LeaseInfo: LeaseInfo{ID: uuid.NewString(), Version: v, Owner: owner, Created: now.UTC()}}
	if err := l.Renew(ctx, ttl); err != nil {
		return l, err
	}
	if err := t.awaitDeletes(ctx); err != nil {
		_ = l.Release(context.WithoutCancel(ctx)) // it runs out by itself
		return l, fmt.Errorf("lease on version %d: %w", v, err)
	}
	return l, nil
}

// Renew makes the lease last for ttl from now on.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	if ttl <= 0 || ttl > MaxLease {
		return fmt.Errorf("lease on version %d: %v is too short or too long, at most %v", l.Version, ttl, MaxLease)
	}
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

// Release ends the lease. A lease that is not released runs out.
func (l *Lease) Release(ctx context.Context) error {
	if err := l.t.Store.Delete(ctx, leaseDir+l.ID+".json"); err != nil {
		return fmt.Errorf("release lease %s: %w", l.ID, err)
	}
	return nil
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
