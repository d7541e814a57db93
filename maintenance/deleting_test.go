package maintenance

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

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
