package reader

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// hold keeps a lease on the version that is being read, so that vacuums leave its files alone however long the
// read takes or rests (I6). A short read never gets so far: it writes nothing into the table. Until the lease is
// there the files are safe because they were live a moment ago, and a vacuum keeps what was removed within its
// retention time; with a retention shorter than Config.LeaseAfter the cursor may have to plan again (I4).
type hold struct {
	cfg     Config
	version deltalog.Version
	cancel  context.CancelFunc
	done    chan struct{}
}

const (
	// endTimeout bounds how long the end of a read waits for the store. The lease is given back behind it then.
	endTimeout = 3 * time.Second
	// releaseTimeout bounds how long it is tried to give a lease back. One that stays runs out.
	releaseTimeout = 10 * time.Second
	// leaseRetry is the pause after a failure.
	leaseRetry = 5 * time.Second
)

// newHold starts to hold a version; nil when leases are switched off.
func newHold(cfg Config, v deltalog.Version) *hold {
	if cfg.LeaseTime < 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background()) // lives until the lake has been read, over many calls
	h := &hold{cfg: cfg, version: v, cancel: cancel, done: make(chan struct{})}
	go h.run(ctx)
	return h
}

// end gives the lease back. A store that hangs does not hold up who ends the read for longer than endTimeout.
func (h *hold) end() {
	if h == nil {
		return
	}
	h.cancel()
	late := time.NewTimer(endTimeout)
	defer late.Stop()
	select {
	case <-h.done:
	case <-late.C:
	}
}

func (h *hold) run(ctx context.Context) {
	defer close(h.done)
	var lease *table.Lease
	wait := h.cfg.LeaseAfter
	for rest(ctx, wait) {
		var err error
		if lease == nil {
			lease, err = h.cfg.Table.Lease(ctx, h.version, owner(), h.cfg.LeaseTime)
		} else {
			err = lease.Renew(ctx, h.cfg.LeaseTime)
		}
		switch wait = h.cfg.LeaseTime / 3; {
		case err == nil:
		case ctx.Err() != nil:
		default:
			// A store that may not be written is no reason to stop reading: the cursor plans again when a file is gone.
			h.cfg.Logger.Warn("a read of the table has no lease", "table", h.cfg.Table.Store.URL(), "version", int64(h.version), "error", err)
			wait = min(wait, leaseRetry)
		}
	}
	if lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := lease.Release(ctx); err != nil {
		h.cfg.Logger.Warn("a lease stays until it runs out", "table", h.cfg.Table.Store.URL(), "lease", lease.ID, "expires", lease.Expires, "error", err)
	}
}

// owner says to people who look at leases where a reader runs.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return "reader, process " + strconv.Itoa(os.Getpid()) + " on " + host
}

// rest waits; false when the context ended first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// discard is the logger of who asks for none.
func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
