package maintenance

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/table"
)

// I6: a restore that begins in the middle of a vacuum's batch waits for it, and so sees what is gone: it never makes
// a version of files that are about to go.
func TestRestoreAmidVacuumBatch(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(6, 0)
	old := r.snap()
	optimize(t, r.table, OptimizeOptions{})
	want := rows(t, r.table, r.snap())
	r.now = r.now.Add(8 * day)
	other := r.reopen()
	var once sync.Once
	waits, restored := make(chan struct{}, 1), make(chan error, 1)
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		switch {
		case c.Op == mem.OpHead && strings.HasPrefix(c.Key, "_ledgerlake/deleting/"):
			select {
			case waits <- struct{}{}:
			default:
			}
		case c.Op == mem.OpDelete && strings.HasSuffix(c.Key, ".parquet"):
			once.Do(func() {
				go func() {
					_, err := Restore(t.Context(), other, RestoreOptions{Version: old.Version(), HasVersion: true, Clock: r.clock})
					restored <- err
				}()
				<-waits
			})
		}
		return mem.Fault{}
	})
	report, err := Vacuum(t.Context(), r.table, VacuumOptions{Clock: r.clock})
	if err != nil || report.Deleted.Files != 6 {
		t.Fatal(report, err)
	}
	var missing *MissingFilesError
	if err := <-restored; !errors.As(err, &missing) {
		t.Fatalf("Restore = %v, want missing files", err)
	}
	r.store.SetHook(nil)
	r.same("after the restore that failed", want, nil)
}

// I6: the same for a lease that begins while the log is being cleaned: when it is given, the log's beginning is
// settled, and whether the version can be read does not change any more.
func TestLeaseAmidCleanLog(t *testing.T) {
	r := newRig(t, table.Config{Log: deltalog.Config{CheckpointInterval: 2}, Properties: map[string]string{"delta.logRetentionDuration": "interval 2 days"}})
	r.fill(4, 0)
	if err := r.table.Log.Checkpoint(t.Context(), r.snap()); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(10 * day)
	other := r.reopen()
	var once sync.Once
	waits, given := make(chan struct{}, 1), make(chan error, 1)
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		switch {
		case c.Op == mem.OpHead && strings.HasPrefix(c.Key, "_ledgerlake/deleting/"):
			select {
			case waits <- struct{}{}:
			default:
			}
		case c.Op == mem.OpDelete && strings.HasPrefix(c.Key, "_delta_log/"):
			once.Do(func() {
				go func() {
					_, err := other.Lease(t.Context(), 1, "late", day)
					if err == nil {
						for info := range r.store.List(context.Background(), objstore.ListOptions{Prefix: "_delta_log/00000000000000000003.json"}) {
							err = errors.New("given before the log was cleaned: " + info.Key)
						}
					}
					given <- err
				}()
				<-waits
			})
		}
		return mem.Fault{}
	})
	report, err := CleanLog(t.Context(), r.table, CleanLogOptions{Clock: r.clock})
	if err != nil || report.Earliest != 4 {
		t.Fatal(report, err)
	}
	if err := <-given; err != nil {
		t.Fatal(err)
	}
	if _, err := other.Log.SnapshotAt(t.Context(), 1); err == nil {
		t.Fatal("version 1 can be read: the test has not shown the case")
	}
}
