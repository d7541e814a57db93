package reader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/table"
)

// A read that ends while its lease is on the way to the store, or whose store fails for a moment when it gives it back,
// leaves no lease behind: it would keep files for a quarter of an hour that nobody reads (I6).
func TestNoLeaseOutlivesItsRead(t *testing.T) {
	store := mem.New()
	tb, err := table.Create(t.Context(), store, nil, table.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	started, goOn := make(chan struct{}), make(chan struct{})
	refused := 0
	store.SetHook(func(ctx context.Context, c mem.Call) mem.Fault {
		if !strings.HasPrefix(c.Key, "_ledgerlake/leases/") {
			return mem.Fault{}
		}
		switch c.Op {
		case mem.OpPut:
			close(started)
			<-goOn
			return mem.Fault{After: ctx.Err()} // what a request gives that was cut off behind the server's back
		case mem.OpDelete:
			if refused++; refused < 3 {
				return mem.Fault{Before: errors.New("the store is away")}
			}
		}
		return mem.Fault{}
	})
	h := newHold(Config{Table: tb, LeaseAfter: time.Nanosecond, LeaseTime: time.Hour, Logger: discard()}, 0)
	<-started
	h.cancel()
	close(goOn)
	h.end()
	<-h.done // on a machine that is slow enough the end does not wait for it
	if left, err := tb.Leases(t.Context(), time.Now()); err != nil || len(left) > 0 || refused != 3 {
		t.Fatalf("leases %v are left, %d tries to give one back, %v", left, refused, err)
	}
}

// The end of a read does not wait for a store that hangs, and its lease is given back as soon as the store goes on (I6).
func TestEndOfReadDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		tb, err := table.Create(t.Context(), store, nil, table.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer tb.Close()
		started, hang := make(chan struct{}), make(chan struct{})
		store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
			if c.Op == mem.OpPut && strings.HasPrefix(c.Key, "_ledgerlake/leases/") {
				close(started)
				<-hang
			}
			return mem.Fault{}
		})
		h := newHold(Config{Table: tb, LeaseAfter: time.Nanosecond, LeaseTime: time.Hour, Logger: discard()}, 0)
		<-started
		began := time.Now()
		h.end()
		if took := time.Since(began); took != endTimeout {
			t.Errorf("the end took %v, want %v", took, endTimeout)
		}
		close(hang)
		<-h.done
		if left, err := tb.Leases(t.Context(), time.Now()); err != nil || len(left) > 0 {
			t.Errorf("leases %v are left, %v", left, err)
		}
	})
}
