package table

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// I6: a lease that begins while files are deleted is given when that is over; one that was there is seen.
func TestLeaseWaitsForDeletes(t *testing.T) {
	store := mem.New()
	tb, err := Create(t.Context(), store, nil, Config{LeasePoll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	looked := make(chan struct{}, 1)
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpHead && strings.HasPrefix(c.Key, deletingDir) {
			select {
			case looked <- struct{}{}:
			default:
			}
		}
		return mem.Fault{}
	})
	var over atomic.Bool
	given := make(chan error, 1)
	err = tb.Deleting(t.Context(), "test", func(ctx context.Context) error {
		go func() {
			_, err := tb.Lease(t.Context(), 0, "late", time.Hour)
			if err == nil && !over.Load() {
				err = errors.New("the lease was given while files were deleted")
			}
			given <- err
		}()
		<-looked
		<-looked
		over.Store(true)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-given; err != nil {
		t.Fatal(err)
	}
	err = tb.Deleting(t.Context(), "test", func(ctx context.Context) error {
		if leases, err := tb.Leases(ctx, time.Now()); err != nil || len(leases) != 1 {
			t.Errorf("%v %v", leases, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := marks(t, store); n != 0 {
		t.Fatalf("%d marks are left", n)
	}
}

func marks(t *testing.T, store objstore.Store) (n int) {
	t.Helper()
	for _, err := range store.List(t.Context(), objstore.ListOptions{Prefix: deletingDir}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// A mark that was left behind, whatever it holds, holds up leases until it runs out. Who gives up waiting has none.
func TestDeletesLeftBehind(t *testing.T) {
	failed := errors.New("the store is gone")
	for name, leave := range map[string]func(*Table) error{
		"failed": func(tb *Table) error {
			if err := tb.Deleting(t.Context(), "test", func(context.Context) error { return failed }); !errors.Is(err, failed) {
				return errors.Join(errors.New("no failure"), err)
			}
			return nil
		},
		"torn":  func(tb *Table) error { return tb.Store.Put(t.Context(), deletingDir+"x.json", []byte(`{"own`)) },
		"empty": func(tb *Table) error { return tb.Store.Put(t.Context(), deletingDir+"x.json", nil) },
		"large": func(tb *Table) error { return tb.Store.Put(t.Context(), deletingDir+"x.json", make([]byte, 1<<17)) },
	} {
		store, now := mem.New(), time.Now()
		tb, err := Create(t.Context(), store, nil, Config{LeasePoll: time.Millisecond, Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		if err := leave(tb); err != nil {
			t.Fatal(name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, err := tb.Lease(ctx, 0, "early", time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if leases, err := tb.Leases(t.Context(), now); err != nil || len(leases) != 0 {
			t.Errorf("%s: %v %v", name, leases, err)
		}
		now = now.Add(deletingTime + leaseSlack + time.Minute)
		if _, err := tb.Lease(t.Context(), 0, "later", time.Hour); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := marks(t, store); n != 0 {
			t.Errorf("%s: %d marks are left", name, n)
		}
		if err := tb.Close(); err != nil {
			t.Error(err)
		}
	}
}
