package dir_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
)

// TestCrash proves I1 for objects: what was acknowledged is whole after a power loss at any moment, and what
// was not is whole or absent.
func TestCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 60 {
		disk := vfs.NewMem()
		s := open(t, dir.Config{Root: "/lake/table", FS: disk})
		data := map[string]string{}
		for i := range rng.IntN(6) {
			key := fmt.Sprintf("_delta_log/%02d", i)
			data[key] = strings.Repeat(key, 1+rng.IntN(2000))
			var err error
			switch rng.IntN(3) {
			case 0:
				err = s.PutIfAbsent(t.Context(), key, []byte(data[key]))
			case 1:
				err = s.Put(t.Context(), key, []byte(data[key]))
			default:
				err = create(t, s, key, data[key])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		w, err := s.Create(t.Context(), "unfinished")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("half of it")); err != nil {
			t.Fatal(err)
		}
		mode := []vfs.CrashMode{vfs.KeepNothing, vfs.KeepSome, vfs.KeepAll}[round%3]
		after := open(t, dir.Config{Root: "/lake/table", FS: disk.Crash(rng, mode)})
		n := 0
		for info, err := range after.List(t.Context(), objstore.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			got, err := after.Get(t.Context(), info.Key)
			if err != nil || string(got) != data[info.Key] {
				t.Fatalf("round %d: %s has %d bytes after the crash, want %d (%v)", round, info.Key, len(got), len(data[info.Key]), err)
			}
			n++
		}
		if n != len(data) {
			t.Fatalf("round %d, mode %d: %d objects after the crash, %d were acknowledged", round, mode, n, len(data))
		}
	}
}

func create(t *testing.T, s objstore.Store, key, data string) error {
	w, err := s.Create(t.Context(), key)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(data)); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// TestInjectedErrors fails every file operation in turn: the answer of the store must hold.
func TestInjectedErrors(t *testing.T) {
	writes := map[string]func(s objstore.Store) error{
		"put":           func(s objstore.Store) error { return s.Put(t.Context(), "a/b/k", []byte("data")) },
		"put-if-absent": func(s objstore.Store) error { return s.PutIfAbsent(t.Context(), "a/b/k", []byte("data")) },
		"create":        func(s objstore.Store) error { return create(t, s, "a/b/k", "data") },
	}
	for name, write := range writes {
		for k := 1; ; k++ {
			disk := vfs.NewMem()
			faulty := vfs.NewInject(disk)
			faulty.Fail(vfs.Rule{K: k, Err: syscall.EIO, Short: 1})
			err := write(open(t, dir.Config{Root: "/lake", FS: faulty}))
			if faulty.Fired() == 0 {
				if err != nil || k < 6 {
					t.Errorf("%s: without a fault %v after %d operations", name, err, k)
				}
				break
			}
			clean := open(t, dir.Config{Root: "/lake", FS: disk})
			got, getErr := clean.Get(t.Context(), "a/b/k")
			there := getErr == nil && string(got) == "data"
			absent := errors.Is(getErr, objstore.ErrNotFound)
			switch {
			case !there && !absent:
				t.Errorf("%s, fault %d: the object is neither whole nor absent: %q, %v", name, k, got, getErr)
			case err == nil && !there:
				t.Errorf("%s, fault %d: acknowledged and not there", name, k)
			case err != nil && there && !errors.Is(err, objstore.ErrUnknownOutcome):
				t.Errorf("%s, fault %d: there in spite of %v", name, k, err)
			}
			for info := range clean.List(t.Context(), objstore.ListOptions{}) {
				if info.Key != "a/b/k" {
					t.Errorf("%s, fault %d: %s is listed", name, k, info.Key)
				}
			}
		}
	}
}
