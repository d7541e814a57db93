package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/rpc"
)

// CommitterGroup is a group of `ledgerlake committer` processes.
type CommitterGroup struct {
	Addrs []string
	Nodes []*Process
	dir   string
	conn  *rpc.Client

	Flags   []string // more flags of each node
	Program string   // that nodes are started with from now on; empty: the binary under test
}

// Committers starts a group of n.
func Committers(t testing.TB, n int, flags ...string) *CommitterGroup {
	t.Helper()
	return CommittersOf(t, "", n, flags...)
}

// CommittersOf starts a group of another program; empty: of the binary under test.
func CommittersOf(t testing.TB, program string, n int, flags ...string) *CommitterGroup {
	t.Helper()
	g := &CommitterGroup{dir: t.TempDir(), Nodes: make([]*Process, n), Flags: flags, Program: program}
	for range n {
		g.Addrs = append(g.Addrs, fmt.Sprintf("127.0.0.1:%d", FreePort(t, 0)))
	}
	for i := range n {
		g.Start(t, i)
	}
	g.conn = g.Client(t)
	return g
}

// List is what --committer takes.
func (g *CommitterGroup) List() string { return strings.Join(g.Addrs, ",") }

// Start starts a node, again after it was killed.
func (g *CommitterGroup) Start(t testing.TB, i int) {
	t.Helper()
	var members []string
	for j, a := range g.Addrs {
		members = append(members, fmt.Sprintf("n%d=%s", j, a))
	}
	id := fmt.Sprint("n", i)
	program := g.Program
	if program == "" {
		program = Binary(t)
	}
	g.Nodes[i] = StartProgram(t, program, append([]string{"committer", "--id", id, "--dir", g.Dir(i), "--listen", g.Addrs[i],
		"--members", strings.Join(members, ","), "--log-level", "warn"}, g.Flags...)...)
}

// Dir is the directory of a node.
func (g *CommitterGroup) Dir(i int) string { return filepath.Join(g.dir, fmt.Sprint("n", i)) }

// Caught waits until a node follows and has applied all that is committed.
func (g *CommitterGroup) Caught(t testing.TB, i int) {
	t.Helper()
	Eventually(t, time.Minute, func() error {
		replies, errs := g.conn.Status(t.Context())
		var newest uint64
		for _, r := range replies {
			if r != nil {
				newest = max(newest, r.Commit)
			}
		}
		if r := replies[i]; r == nil || r.State == "candidate" || r.Applied < newest {
			return errors.Join(append(errs, fmt.Errorf("node %d is %+v, the newest entry is %d", i, r, newest))...)
		}
		return nil
	})
}

// Transfer makes a node the leader.
func (g *CommitterGroup) Transfer(t testing.TB, i int) {
	t.Helper()
	Eventually(t, time.Minute, func() error {
		if lead, _ := g.Leader(t); lead == i {
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := g.conn.Member(ctx, rpc.MemberRequest{Op: "transfer", ID: fmt.Sprint("n", i)}); err != nil {
			return err
		}
		return errors.New("asked for")
	})
}

// Client connects to the group.
func (g *CommitterGroup) Client(t testing.TB) *rpc.Client {
	t.Helper()
	c, err := rpc.NewClient(rpc.Config{Addrs: g.Addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Leader waits until a node leads, and gives its number and what it says of itself.
func (g *CommitterGroup) Leader(t testing.TB) (int, *rpc.StatusReply) {
	t.Helper()
	leader, status := -1, (*rpc.StatusReply)(nil)
	Eventually(t, time.Minute, func() error {
		replies, errs := g.conn.Status(t.Context())
		for i, r := range replies {
			if r != nil && r.State == "leader" {
				leader, status = i, r
				return nil
			}
		}
		return errors.Join(append(errs, errors.New("no node leads"))...)
	})
	return leader, status
}
