package dir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
)

const version = "_delta_log/00000000000000000001.json"

// hadoop publishes a file as Hadoop's FileContext does. between is called after the look and before the rename.
func hadoop(fsys vfs.FS, root, key, data string, between func()) error {
	name := filepath.Join(root, key)
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+uuid.NewString()+".tmp")
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(data)); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if _, err := fsys.Stat(name); err == nil {
		return errors.Join(fs.ErrExist, fsys.Remove(temp))
	}
	between()
	return fsys.Rename(temp, name)
}

// steps calls hooks before operations of a file system.
type steps struct {
	vfs.FS
	link, readDir func()
}

func (f *steps) Link(old, name string) error {
	f.link()
	return f.FS.Link(old, name)
}

func (f *steps) ReadDir(name string) ([]fs.DirEntry, error) {
	f.readDir()
	return f.FS.ReadDir(name)
}

// TestHadoopBetweenLookAndRename has a Hadoop writer stand between its look and its rename while we link. Whenever
// it goes on, at once or after we have looked for it for a while, what we acknowledge is what stays (I1, I5).
func TestHadoopBetweenLookAndRename(t *testing.T) {
	for look := 1; look <= 4; look++ {
		disk := vfs.NewMem()
		looked, rename, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		linked, looks := false, 0
		step := &steps{FS: disk, link: func() {
			linked = true
			go func() { done <- hadoop(disk, "/t", version, "Spark's", func() { close(looked); <-rename }) }()
			<-looked
		}}
		step.readDir = func() {
			if !linked {
				return
			}
			if looks++; looks == look {
				close(rename)
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		s := open(t, dir.Config{Root: "/t", FS: step})
		if err := s.Put(t.Context(), "_delta_log/x", nil); err != nil {
			t.Fatal(err)
		}
		if err := s.PutIfAbsent(t.Context(), version, []byte("ours")); !errors.Is(err, objstore.ErrExists) || looks < look {
			t.Errorf("PutIfAbsent = %v after %d looks, want ErrExists", err, looks)
		}
		if b, err := s.Get(t.Context(), version); err != nil || string(b) != "Spark's" {
			t.Errorf("the version is %q, %v", b, err)
		}
	}
}

// TestHadoopLeftover: a Hadoop writer that died between the two is waited for, then the outcome is unknown; one of
// long ago is nothing.
func TestHadoopLeftover(t *testing.T) {
	root := t.TempDir()
	s := open(t, dir.Config{Root: root, FS: vfs.OS(), HadoopWait: 10 * time.Millisecond})
	if err := s.Put(t.Context(), "_delta_log/x", nil); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(root, "_delta_log", ".00000000000000000001.json.uuid.tmp")
	if err := os.WriteFile(temp, []byte("Spark's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.PutIfAbsent(t.Context(), version, []byte("ours")); !errors.Is(err, objstore.ErrUnknownOutcome) || !errors.Is(err, objstore.ErrNotFinal) {
		t.Errorf("beside a fresh one: %v", err)
	}
	if err := s.Delete(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(temp, old, old); err != nil {
		t.Fatal(err)
	}
	if err := s.PutIfAbsent(t.Context(), version, []byte("ours")); err != nil {
		t.Errorf("beside an old one: %v", err)
	}
}

// TestHadoopRace races writers of both kinds for versions, on the real file system (I1, I5).
func TestHadoopRace(t *testing.T) {
	root := t.TempDir()
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	if err := os.MkdirAll(filepath.Join(root, "_delta_log"), 0o700); err != nil {
		t.Fatal(err)
	}
	seed := seedtest.New(t)
	rng := rand.New(rand.NewPCG(seed, seed))
	spin := func(d time.Duration) {
		for start := time.Now(); time.Since(start) < d; {
			runtime.Gosched()
		}
	}
	stores := make([]*dir.Store, 3)
	for w := range stores {
		stores[w] = open(t, dir.Config{Root: root, FS: vfs.OS()})
	}
	replaced := 0
	for round := range rounds {
		key := fmt.Sprintf("_delta_log/%020d.json", round)
		var wg sync.WaitGroup
		won := make([]bool, len(stores))
		before, between := time.Duration(rng.IntN(600))*time.Microsecond, time.Duration(rng.IntN(600))*time.Microsecond
		start := make(chan struct{})
		for w := range won {
			wg.Go(func() {
				<-start
				err := stores[w].PutIfAbsent(t.Context(), key, fmt.Appendf(nil, "ours %d", w))
				won[w] = err == nil
				if err != nil && !errors.Is(err, objstore.ErrExists) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() { // the processes of one Spark are one writer: it takes turns within its own
			<-start
			spin(before)
			if err := hadoop(vfs.OS(), root, key, "Spark's", func() { spin(between) }); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
		close(start)
		wg.Wait()
		got, err := os.ReadFile(filepath.Join(root, key))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) == "Spark's" {
			replaced++
		}
		for w, ok := range won {
			if is := string(got) == fmt.Sprint("ours ", w); ok != is {
				t.Fatalf("round %d: our writer %d won: %v, and the version is %q", round, w, ok, got)
			}
		}
	}
	t.Logf("Spark's won %d of %d", replaced, rounds)
}

// TestHadoopChecksum: a file that we publish does not keep the checksum of what Hadoop wrote under its name.
func TestHadoopChecksum(t *testing.T) {
	root := t.TempDir()
	s := open(t, dir.Config{Root: root, FS: vfs.OS()})
	crc := filepath.Join(root, "data", ".x.crc")
	create := func(key string) error {
		w, err := s.Create(t.Context(), key)
		return errors.Join(err, w.Close())
	}
	for name, publish := range map[string]func(key string) error{
		"Put": func(key string) error { return s.Put(t.Context(), key, nil) }, "Create": create,
		"PutIfAbsent": func(key string) error { return s.PutIfAbsent(t.Context(), key, nil) },
	} {
		if err := errors.Join(s.Put(t.Context(), "data/y", nil), os.WriteFile(crc, []byte("crc"), 0o600), s.Delete(t.Context(), "data/x")); err != nil {
			t.Fatal(err)
		}
		if err := publish("data/x"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(crc); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s keeps the checksum: %v", name, err)
		}
	}
}
