package table

import (
	"errors"
	"strings"
	"testing"
	"time"
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
