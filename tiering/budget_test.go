package tiering

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		if err := b.acquire(t.Context(), 500); err != nil { // alone, it gets through
			t.Fatal(err)
		}
		b.release(500)
		if err := b.acquire(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- b.acquire(t.Context(), 50) }()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("110 of 100 were given: %v", err)
		default:
		}
		b.release(20)
		if err := <-got; err != nil || b.used != 90 {
			t.Fatalf("after a release: %v, used %d", err, b.used)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.acquire(ctx, 50); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire = %v, want Canceled", err)
		}
		b.release(-30) // a response that was larger than what was reserved
		if b.used != 120 || b.peak != 500 {
			t.Errorf("used %d, peak %d", b.used, b.peak)
		}
	})
}
