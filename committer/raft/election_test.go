package raft

import (
	"context"
	"fmt"
	"testing"
	"time"

	hraft "github.com/hashicorp/raft"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// slowStore is a disk that takes longer for the writes of one election than an election has at first.
type slowStore struct {
	hraft.StableStore
	write time.Duration
}

func (s slowStore) Set(key, value []byte) error {
	pause(context.Background(), s.write)
	return s.StableStore.Set(key, value)
}

func (s slowStore) SetUint64(key []byte, value uint64) error {
	pause(context.Background(), s.write)
	return s.StableStore.SetUint64(key, value)
}

// Nodes with slow disks elect a leader: without more time for each election no vote would ever come in time.
func TestElectionsOnSlowDisks(t *testing.T) {
	const heartbeat = 100 * time.Millisecond // an election has up to twice as long, and needs six writes
	var members []Member
	for i := range 3 {
		members = append(members, Member{ID: fmt.Sprint("n", i), Addr: FreeAddr(t)})
	}
	var nodes []*Node
	for _, m := range members {
		n, err := Open(t.Context(), Config{ID: m.ID, Dir: t.TempDir(), Listen: m.Addr, Members: members, Heartbeat: heartbeat,
			OpenStore: func(context.Context, string) (objstore.Store, error) { return mem.New(), nil },
			stable:    func(s hraft.StableStore) hraft.StableStore { return slowStore{s, heartbeat} }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, n)
	}
	waitFor(t, func() bool {
		for _, n := range nodes {
			if n.leading() != nil {
				t.Logf("%s leads term %d", n.cfg.ID, n.raft.CurrentTerm())
				return true
			}
		}
		return false
	})
}

func TestElectionTime(t *testing.T) {
	const beat = 400 * time.Millisecond
	for _, c := range []struct {
		last   time.Duration
		failed uint64
		want   time.Duration
	}{{beat, 0, beat}, {beat, 1, 2 * beat}, {beat, 3, 8 * beat}, {8 * beat, 1, 8 * beat}, {beat, 5, 32 * beat}, {beat, 1 << 40, 32 * beat}} {
		if got := electionTime(beat, c.last, c.failed); got != c.want {
			t.Errorf("after %d elections and %v: %v, want %v", c.failed, c.last, got, c.want)
		}
	}
}
