package dir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/objstore/objstoretest"
)

func open(t *testing.T, cfg dir.Config) *dir.Store {
	t.Helper()
	s, err := dir.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		return open(t, dir.Config{Root: filepath.Join(t.TempDir(), "made", "later"), FS: vfs.OS()})
	})
}

func TestOpenTouchesNothing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "none")
	s := open(t, dir.Config{Root: root, FS: vfs.OS()})
	for range s.List(t.Context(), objstore.ListOptions{}) {
		t.Error("a store without a folder lists something")
	}
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Open(dir.Config{Root: file, FS: vfs.OS()}); err == nil {
		t.Error("a file was opened as a store")
	}
}

func TestLeftovers(t *testing.T) {
	root := t.TempDir()
	temp := filepath.Join(root, ".ledgerlake-tmp")
	if err := os.MkdirAll(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "young": time.Hour} {
		file := filepath.Join(temp, name)
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir.Config{Root: root, FS: vfs.OS()})
	for info := range s.List(t.Context(), objstore.ListOptions{}) {
		t.Errorf("a leftover is listed: %s", info.Key)
	}
	if _, err := s.Get(t.Context(), ".ledgerlake-tmp/young"); !errors.Is(err, objstore.ErrInvalidKey) {
		t.Errorf("Get of a temporary file = %v", err)
	}
	if err := s.Put(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) != 1 || left[0].Name() != "young" {
		t.Errorf("temporary files after a write: %v, %v; want only young", left, err)
	}
}

// A link leads out of the folder: whoever deletes what it lists can say that it wants none of that.
func TestListNoLinks(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(root, "own"), filepath.Join(other, "foreign")} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(other, filepath.Join(root, "folder")), os.Symlink(filepath.Join(other, "foreign"), filepath.Join(root, "file"))); err != nil {
		t.Skipf("no links here: %v", err)
	}
	s := open(t, dir.Config{Root: root, FS: vfs.OS()})
	for noLinks, want := range map[bool]int{false: 3, true: 1} {
		n := 0
		for _, err := range s.List(t.Context(), objstore.ListOptions{NoLinks: noLinks}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Errorf("NoLinks %v: %d objects, want %d", noLinks, n, want)
		}
	}
}
