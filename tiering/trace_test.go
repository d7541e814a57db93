package tiering_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// TestTrace: each commit is told of with its version, its offsets and the times of its steps, one that failed too.
func TestTrace(t *testing.T) {
	r := newRig(t, 2)
	var told []tiering.CommitTrace
	r.cfg.Trace = func(c tiering.CommitTrace) { told = append(told, c) }
	r.fill(50, 10)
	r.log.append(t, 0, record.None, []byte("bad"))
	failed := false
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpCreate && !failed {
			failed = true
			return mem.Fault{Before: errors.New("injected")}
		}
		return mem.Fault{}
	})
	before := time.Now()
	r.mustRun()
	if !failed {
		t.Fatal("nothing failed: it proves nothing")
	}
	rows, letters, errs := int64(0), 0, 0
	for _, c := range told {
		if c.Err != nil {
			errs++
			if c.Version != -1 || !strings.Contains(c.Err.Error(), "injected") {
				t.Errorf("a commit that failed: %+v", c)
			}
			continue
		}
		rows, letters = rows+c.Rows, letters+c.DeadLetters
		for name, s := range map[string]tiering.Step{"fetch": c.Fetch, "decode": c.Decode, "upload": c.Upload, "letters": c.Letters, "commit": c.Commit} {
			if s.Start.Before(before) || s.End.Before(s.Start) || s.Busy < 0 {
				t.Errorf("step %s is %+v", name, s)
			}
		}
		if c.Topic != "orders" || c.Version < 1 || len(c.Ranges) == 0 || c.Upload.Start.After(c.Commit.Start) || c.Decode.Start.After(c.Upload.Start) {
			t.Errorf("commit %+v", c)
		}
	}
	if rows != 100 || letters != 1 {
		t.Errorf("%d rows, %d letters are told of", rows, letters)
	}
	t.Logf("%d commits, %d failed", len(told), errs)
}
