package mem_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/objstore/objstoretest"
)

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store { return mem.New() })
}

func TestHook(t *testing.T) {
	broken := errors.New("broken")
	s := mem.New()
	var fault mem.Fault
	var calls []mem.Call
	s.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		calls = append(calls, c)
		return fault
	})
	fault = mem.Fault{Before: broken}
	if err := s.PutIfAbsent(t.Context(), "k", nil); !errors.Is(err, broken) || errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Fatalf("failed before = %v", err)
	}
	fault = mem.Fault{After: broken}
	if err := s.PutIfAbsent(t.Context(), "k", []byte("x")); !errors.Is(err, broken) || !errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Fatalf("lost answer = %v", err)
	}
	fault = mem.Fault{}
	if err := s.PutIfAbsent(t.Context(), "k", nil); !errors.Is(err, objstore.ErrExists) {
		t.Fatalf("after a lost answer = %v, want ErrExists", err)
	}
	if len(calls) != 3 || calls[2] != (mem.Call{N: 3, Op: mem.OpPutIfAbsent, Key: "k"}) || s.Calls() != 3 {
		t.Fatalf("calls = %+v", calls)
	}
}
