package dir_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
)

// TestCrash proves I1 for objects: what was acknowledged is whole after a power loss at any operation, and what
// was not is whole or absent. An object that was put if absent keeps its content for ever (I5).
func TestCrash(t *testing.T) {
	seeds := 1000
	if testing.Short() {
		seeds = 200
	}
	seedtest.Each(t, seeds, crashOnce)
}

func crashOnce(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	disk := vfs.NewMem()
	inject := vfs.NewInject(disk)
	s := open(t, dir.Config{Root: "/lake/table", FS: inject})
	left, mode := rng.IntN(40), vfs.CrashMode(rng.IntN(3))
	var after *vfs.Mem
	cut := func() {
		if after == nil {
			after = disk.Crash(rng, mode)
		}
	}
	inject.Observe(func(vfs.Op, string) {
		if left--; left < 0 {
			cut()
		}
	})
	acked, tried := map[string]string{}, map[string][]string{}
	for i := range 8 {
		key := fmt.Sprintf("_delta_log/%02d", rng.IntN(6))
		data := strings.Repeat(fmt.Sprint(i, ","), 1+rng.IntN(2000))
		if after == nil {
			tried[key] = append(tried[key], data)
		}
		var err error
		switch _, there := acked[key]; {
		case rng.IntN(3) == 0:
			if err = s.PutIfAbsent(t.Context(), key, []byte(data)); there && errors.Is(err, objstore.ErrExists) {
				continue
			}
		case rng.IntN(2) == 0:
			err = s.Put(t.Context(), key, []byte(data))
		default:
			err = create(t, s, key, data)
		}
		if err != nil && (after == nil || !errors.Is(err, objstore.ErrExists)) {
			t.Fatal(err)
		}
		if after == nil {
			acked[key] = data
		}
	}
	cut()
	wantObjects(t, open(t, dir.Config{Root: "/lake/table", FS: after}), acked, tried)
}

// wantObjects looks at what a power cut left: each object is the last acknowledged one of its key, or a whole
// one of a later try.
func wantObjects(t *testing.T, s objstore.Store, acked map[string]string, tried map[string][]string) {
	t.Helper()
	seen := map[string]bool{}
	for info, err := range s.List(t.Context(), objstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), info.Key)
		if err != nil {
			t.Fatal(err)
		}
		seen[info.Key] = true
		later := tried[info.Key]
		if i := slices.Index(later, acked[info.Key]); i > 0 {
			later = later[i:]
		}
		if !slices.Contains(later, string(got)) {
			t.Errorf("%s holds %d bytes that are not of the last acknowledged try or a later one", info.Key, len(got))
		}
	}
	for key := range acked {
		if !seen[key] {
			t.Errorf("%s was acknowledged and is gone", key)
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
