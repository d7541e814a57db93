package table

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// I6: a lease counts until it is released or runs out; what cannot be read is not taken for nothing.
func TestLease(t *testing.T) {
	now := time.Now()
	tb := newTestTable(t, Config{Clock: func() time.Time { return now }})
	active := func(at time.Time) int {
		t.Helper()
		leases, err := tb.Leases(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		return len(leases)
	}
	a, err := tb.Lease(t.Context(), 0, "replay on host 1", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tb.Lease(t.Context(), 0, "replay on host 2", 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if n := active(now); n != 2 {
		t.Fatal(n)
	}
	if n := active(now.Add(90 * time.Minute)); n != 1 {
		t.Fatal(n)
	}
	if err := a.Renew(t.Context(), 3*time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := active(now.Add(150 * time.Minute)); n != 1 {
		t.Fatal(n)
	}
	if err := errors.Join(a.Release(t.Context()), b.Release(t.Context()), b.Release(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := active(now); n != 0 {
		t.Fatal(n)
	}
	for _, ttl := range []time.Duration{0, -1, MaxLease + 1} {
		if _, err := tb.Lease(t.Context(), 0, "x", ttl); err == nil {
			t.Errorf("a lease of %v is given", ttl)
		}
	}
	for name, text := range map[string]string{"torn": `{"id":"x","ver`, "empty": ``, "other": `{}`, "large": strings.Repeat(" ", 1<<17)} {
		key := leaseDir + name + ".json"
		if err := tb.Store.Put(t.Context(), key, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := tb.Leases(t.Context(), now); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := tb.Leases(t.Context(), now.Add(MaxLease+time.Hour)); err != nil { // it has run out whatever it was
			t.Errorf("%s: %v", name, err)
		}
		if err := tb.Store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}

// I6, from the other side: a reader that gives up while its lease is on the way leaves none behind, which would keep
// files from vacuums that nobody reads; nor does one whose answer was lost.
func TestLeaseGivenUp(t *testing.T) {
	lost := errors.New("the answer is lost")
	for name, fault := range map[string]func(ctx context.Context, cancel func()) mem.Fault{
		"cancelled under way": func(ctx context.Context, cancel func()) mem.Fault {
			cancel()
			return mem.Fault{After: ctx.Err()} // as a request that was cut off when the server had it already
		},
		"answer lost": func(context.Context, func()) mem.Fault { return mem.Fault{After: lost} },
	} {
		store := mem.New()
		tb, err := Create(t.Context(), store, nil, Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		puts := 0
		store.SetHook(func(ctx context.Context, c mem.Call) mem.Fault {
			if c.Op != mem.OpPut || !strings.HasPrefix(c.Key, leaseDir) {
				return mem.Fault{}
			}
			puts++
			return fault(ctx, cancel)
		})
		l, err := tb.Lease(ctx, 0, "hasty", time.Hour)
		if err == nil { // it was there before it was given up: who has it gives it back
			err = l.Release(t.Context())
		} else if l != nil {
			t.Errorf("%s: a lease beside the error %v", name, err)
		} else {
			err = nil
		}
		if err != nil || puts != 1 {
			t.Fatalf("%s: %d puts, %v", name, puts, err)
		}
		if left, err := tb.Leases(t.Context(), time.Now()); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left behind, %v", name, left, err)
		}
		cancel()
		if l, err := tb.Lease(ctx, 0, "late", time.Hour); err == nil || puts != 1 {
			t.Errorf("%s: a lease %v for who has given up already, %d puts", name, l, puts)
		}
		if err := tb.Close(); err != nil {
			t.Error(err)
		}
	}
}
