package raft

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	hraft "github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Member is a node of a group that starts for the first time.
type Member struct{ ID, Addr string }

// Config says what a node is.
type Config struct {
	ID        string // unique in the group, the same for ever
	Dir       string // of log, snapshots and vote
	Listen    string // address for nodes and writers
	Advertise string // where others reach it; default: Listen
	// Members start a new group, this node among them; each of them is started with the same list. Ignored when the
	// directory holds a group already. Empty: the node waits until it is added to a group.
	Members []Member
	// ServerTLS and ClientTLS secure the port: of nodes to each other, and of writers. nil: plain TCP.
	ServerTLS, ClientTLS *tls.Config
	// OpenStore opens the store of a table by its path or URL.
	OpenStore func(ctx context.Context, location string) (objstore.Store, error)
	Engine    string // commitInfo.engineInfo; default "ledgerlake"

	Linger     time.Duration // how long the first request of a version waits for company; default 2 ms, negative: none
	MaxWaiting int           // requests that may wait for one table; default 8192
	Verify     time.Duration // look at the newest version before a put when the last look is older; default 1 s
	StoreLimit time.Duration // of one call to a store; default 30 s

	Heartbeat         time.Duration // a leader that is silent for this long is replaced; default 400 ms
	SnapshotInterval  time.Duration // how often it is looked whether a snapshot is due; default 30 s
	SnapshotThreshold uint64        // log entries between snapshots; default 4096

	Logger     *slog.Logger          // default: discarded
	Registerer prometheus.Registerer // nil: no metrics

	stable func(hraft.StableStore) hraft.StableStore // of tests: what term and vote are written to
}

func (c Config) withDefaults() Config {
	if c.Advertise == "" {
		c.Advertise = c.Listen
	}
	if c.Engine == "" {
		c.Engine = "ledgerlake"
	}
	if c.Linger == 0 {
		c.Linger = 2 * time.Millisecond
	}
	c.Linger = max(c.Linger, 0)
	setDefault(&c.StoreLimit, 30*time.Second)
	setDefault(&c.Heartbeat, 400*time.Millisecond)
	setDefault(&c.SnapshotInterval, 30*time.Second)
	if c.SnapshotThreshold == 0 {
		c.SnapshotThreshold = 4096
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

func (c Config) validate() error {
	var errs []error
	if c.ID == "" {
		errs = append(errs, errors.New("no node id"))
	}
	if c.Dir == "" {
		errs = append(errs, errors.New("no directory"))
	}
	if c.Listen == "" {
		errs = append(errs, errors.New("no address to listen on"))
	}
	if c.OpenStore == nil {
		errs = append(errs, errors.New("no way to open stores"))
	}
	if (c.ServerTLS == nil) != (c.ClientTLS == nil) {
		errs = append(errs, errors.New("TLS is needed for both sides of the port, or for none"))
	}
	if c.Heartbeat < 50*time.Millisecond {
		errs = append(errs, fmt.Errorf("a heartbeat of %v is below 50 ms", c.Heartbeat))
	}
	seen := map[string]bool{}
	for _, m := range c.Members {
		if m.ID == "" || m.Addr == "" || seen[m.ID] {
			errs = append(errs, fmt.Errorf("members: id %q, address %q: want both, and each id once", m.ID, m.Addr))
		}
		seen[m.ID] = true
	}
	if len(c.Members) > 0 && !seen[c.ID] {
		errs = append(errs, fmt.Errorf("this node, %s, is not among the members", c.ID))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("committer config: %w", err)
	}
	return nil
}
