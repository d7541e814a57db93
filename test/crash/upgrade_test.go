package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A group of an older build becomes one of this build, node by node as docs/committer.md says, while writers go on: each
// acknowledged row is in the table once (I3, I5). The last old node meets entries of the new program: it stops before them, says so,
// keeps the log for the others, and goes on from there as the new program.
//
// LEDGERLAKE_OLD=path names the older binary, one whose entries of the group's log have an older format; without it there is
// nothing to upgrade from.
func TestRollingUpgradeOfCommitters(t *testing.T) {
	old := os.Getenv("LEDGERLAKE_OLD")
	if old == "" {
		t.Skip("LEDGERLAKE_OLD=path names an older binary")
	}
	url := filepath.Join(t.TempDir(), "events")
	store := newPlainTable(t, url)
	g := harness.CommittersOf(t, old, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writers := make([]*plainWriter, 8)
	var wg sync.WaitGroup
	for i := range writers {
		w := &plainWriter{id: int32(i), store: store, tab: g.Client(t).Table(url).Staging(store), large: i == 0, early: i == 1}
		writers[i] = w
		wg.Go(func() { w.run(ctx) })
	}
	goOn := func(when string) {
		t.Helper()
		var before record.Offset
		for _, w := range writers {
			before += w.at()
		}
		harness.Eventually(t, time.Minute, func() error {
			n := -before
			for _, w := range writers {
				n += w.at()
			}
			if n < 200 {
				return fmt.Errorf("%s: %d rows", when, n)
			}
			return nil
		})
	}
	goOn("all are old")
	g.Program = ""
	last, _ := g.Leader(t)
	for i := range 3 {
		if i == last {
			continue
		}
		g.Nodes[i].Stop(t)
		g.Start(t, i)
		g.Caught(t, i)
		goOn(fmt.Sprintf("node %d is new", i))
	}
	g.Transfer(t, (last+1)%3)
	goOn("a new one leads")
	harness.Eventually(t, time.Minute, func() error {
		out, _ := harness.TryRun(t, nil, "committer", "status", "--json", "--committer", g.Addrs[last])
		if !strings.Contains(string(out), "upgrade this node") {
			return errors.New("the old node does not say that it is old: " + string(out))
		}
		return nil
	})
	g.Nodes[last].Stop(t)
	g.Start(t, last)
	g.Caught(t, last)
	goOn("all are new")
	g.Transfer(t, last)
	goOn("the last one leads")
	cancel()
	wg.Wait()
	for _, w := range writers {
		if w.err != nil {
			t.Errorf("writer %d: %v", w.id, w.err)
		}
		w.settle(t)
	}
	harness.Eventually(t, time.Minute, func() error {
		if _, s := g.Leader(t); len(s.Tables) != 1 || s.Tables[0].Pending > 0 {
			return fmt.Errorf("%+v", s.Tables)
		}
		return nil
	})
	wantPlainRows(t, url, writers, nil)
	harness.Run(t, nil, "check", url)
}
