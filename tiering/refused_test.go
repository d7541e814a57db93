package tiering_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// TestARefusedStoreEndsABoundedRun: credentials that are back soon cost tries; those that stay bad end the run with what the
// store says, wherever they are met, and the table is as good as before (I3, I5).
func TestARefusedStoreEndsABoundedRun(t *testing.T) {
	for _, where := range []struct {
		name string
		hit  func(mem.Call) bool
	}{
		{"data files", func(c mem.Call) bool { return c.Op == mem.OpCreate || c.Op == mem.OpClose }},
		{"commits", func(c mem.Call) bool { return c.Op == mem.OpPutIfAbsent && strings.HasPrefix(c.Key, "_delta_log/") }},
	} {
		t.Run(where.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.fill(20, 5)
			var left atomic.Int64
			left.Store(1 << 40)
			r.store.SetHook(func(_ context.Context, c mem.Call) (f mem.Fault) {
				if where.hit(c) && left.Add(-1) >= 0 {
					f.Before = objstore.ErrCredentials
				}
				return f
			})
			if _, err := r.run(t.Context()); !errors.Is(err, objstore.ErrCredentials) {
				t.Fatalf("a run whose credentials stay bad ends with %v", err)
			}
			if tries := 1<<40 - left.Load(); where.name == "commits" && tries != 9 {
				t.Errorf("%d tries to commit, want 9: those of a session are none to be made again by the next", tries)
			}
			left.Store(3)
			if r.mustRun(); left.Load() > 0 {
				t.Errorf("%d failures are left: the test has not shown the case", left.Load())
			}
			r.check()
		})
	}
}
