package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, f File, s string, off int64) {
	t.Helper()
	if n, err := f.WriteAt([]byte(s), off); err != nil || n != len(s) {
		t.Fatalf("write: %d %v", n, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fsys FS, name string) File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	return f
}

func content(fsys FS, name string) string {
	b, err := ReadFile(fsys, name)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(b)
}

// TestFS holds both file systems to the same behaviour.
func TestFS(t *testing.T) {
	for name, c := range map[string]struct {
		fs  FS
		dir string
	}{"os": {OS(), t.TempDir()}, "mem": {NewMem(), "/"}, "inject": {NewInject(NewMem()), "/"}} {
		t.Run(name, func(t *testing.T) {
			p := func(s string) string { return path.Join(c.dir, s) }
			if _, err := c.fs.Create(p("no/file")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("create without a directory: %v", err)
			}
			must(t, c.fs.MkdirAll(p("a/b")))
			must(t, c.fs.MkdirAll(p("a/b")))
			f := create(t, c.fs, p("a/b/x"))
			if _, err := f.Write([]byte("hello ")); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("world")); err != nil {
				t.Fatal(err)
			}
			write(t, f, "W", 6)
			write(t, f, "!", 13)
			if got := content(c.fs, p("a/b/x")); got != "hello World\x00\x00!" {
				t.Errorf("content %q", got)
			}
			buf := make([]byte, 5)
			if n, err := f.ReadAt(buf, 11); n != 3 || err != io.EOF {
				t.Errorf("short read: %d %v", n, err)
			}
			must(t, f.Truncate(5))
			must(t, f.Preallocate(8))
			must(t, f.Preallocate(2))
			must(t, f.Sync())
			must(t, f.SyncData())
			must(t, f.SyncPaced())
			if n, err := f.Size(); n != 8 || err != nil {
				t.Errorf("size %d %v", n, err)
			}
			must(t, c.fs.Link(p("a/b/x"), p("a/link")))
			if err := c.fs.Link(p("a/b/x"), p("a/link")); !errors.Is(err, fs.ErrExist) {
				t.Errorf("link twice: %v", err)
			}
			write(t, f, "J", 0)
			must(t, f.Close())
			if err := f.Sync(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("sync of a closed file: %v", err)
			}
			must(t, c.fs.Rename(p("a/b/x"), p("a/y")))
			must(t, c.fs.SyncDir(p("a")))
			entries, err := c.fs.ReadDir(p("a"))
			must(t, err)
			var names []string
			for _, e := range entries {
				names = append(names, fmt.Sprint(e.Name(), e.IsDir()))
			}
			if got := strings.Join(names, " "); got != "btrue linkfalse yfalse" {
				t.Errorf("entries %s", got)
			}
			if content(c.fs, p("a/link")) != "Jello\x00\x00\x00" || content(c.fs, p("a/y")) != content(c.fs, p("a/link")) {
				t.Errorf("content %q", content(c.fs, p("a/link")))
			}
			if err := c.fs.Remove(p("a")); err == nil {
				t.Error("a full directory was removed")
			}
			must(t, WriteFileAtomic(c.fs, p("a"), "y", []byte("new")))
			if st, err := c.fs.Stat(p("a/y")); err != nil || st.Size() != 3 || st.IsDir() {
				t.Errorf("stat %v %v", st, err)
			}
			if s, err := c.fs.Space(p("a")); errors.Is(err, errors.ErrUnsupported) {
				if runtime.GOOS == "linux" {
					t.Error(err)
				}
			} else if err != nil || s.Free < 0 || s.Free > s.Total || s.Total < 1<<20 {
				t.Errorf("space %+v %v", s, err)
			}
			lock, err := c.fs.Lock(p("lock"))
			must(t, err)
			if _, err := c.fs.Lock(p("lock")); !errors.Is(err, ErrLocked) {
				t.Errorf("second lock: %v", err)
			}
			must(t, lock.Close())
			lock, err = c.fs.Lock(p("lock"))
			must(t, err)
			must(t, lock.Close())
			must(t, c.fs.RemoveAll(p("a")))
			must(t, c.fs.RemoveAll(p("a")))
			if _, err := c.fs.OpenRead(p("a/y")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("open of a removed file: %v", err)
			}
		})
	}
}

// TestCrashKeeps shows what each mode may and must keep.
func TestCrashKeeps(t *testing.T) {
	results := map[string]map[string]bool{}
	for seed := range uint64(400) {
		m := NewMem()
		must(t, m.MkdirAll("/d"))
		must(t, m.SyncDir("/"))
		f := create(t, m, "/d/f")
		write(t, f, strings.Repeat("a", 1000), 0)
		must(t, f.Sync())
		must(t, m.SyncDir("/d"))
		write(t, f, strings.Repeat("b", 1000), 500)
		write(t, f, strings.Repeat("c", 1000), 1500)
		g := create(t, m, "/d/g")
		write(t, g, "synced, but without a name", 0)
		must(t, g.Sync())
		must(t, m.Rename("/d/f", "/d/h"))
		rng := rand.New(rand.NewPCG(seed, 0))
		a, b, c := m.Crash(rng, KeepNothing), m.Crash(rng, KeepAll), m.Crash(rng, KeepSome)
		if got := content(a, "/d/f"); got != strings.Repeat("a", 1000) {
			t.Fatalf("seed %d: nothing: %d bytes", seed, len(got))
		}
		if _, err := a.Stat("/d/g"); err == nil {
			t.Fatal("an unsynced name survived")
		}
		if got := content(b, "/d/h"); got != strings.Repeat("a", 500)+strings.Repeat("b", 1000)+strings.Repeat("c", 1000) {
			t.Fatalf("seed %d: all: %d bytes", seed, len(got))
		}
		_, ferr := c.Stat("/d/f")
		_, herr := c.Stat("/d/h")
		if (ferr == nil) == (herr == nil) {
			t.Fatalf("seed %d: a rename was split: %v, %v", seed, ferr, herr)
		}
		name := "/d/f"
		if herr == nil {
			name = "/d/h"
		}
		got := content(c, name)
		if !strings.HasPrefix(got, strings.Repeat("a", 500)) || len(got) < 1000 || len(got) > 2500 {
			t.Fatalf("seed %d: some: %d bytes", seed, len(got))
		}
		for k, hit := range map[string]bool{"old": got == strings.Repeat("a", 1000), "torn": len(got) > 1000 && len(got) < 1500,
			"hole": strings.Contains(got, "\x00"), "full": len(got) == 2500, "second without first": strings.Contains(got, "c") && strings.Contains(got, "\x00c")} {
			if results[k] == nil {
				results[k] = map[string]bool{}
			}
			results[k][fmt.Sprint(hit)] = true
		}
	}
	for k, seen := range results {
		if !seen["true"] || !seen["false"] {
			t.Errorf("%s: always the same: %v", k, seen)
		}
	}
}

// TestLimit: a disk takes what it has room for, and a crash keeps its size.
func TestLimit(t *testing.T) {
	m := NewMem()
	free := func(want int64) {
		t.Helper()
		if s, err := m.Space("/"); err != nil || s.Total != 1000 || s.Free != want {
			t.Errorf("space %+v %v, want %d free", s, err, want)
		}
	}
	m.Limit(1000)
	f, g := create(t, m, "/f"), create(t, m, "/g")
	must(t, f.Preallocate(600))
	write(t, f, strings.Repeat("f", 600), 0) // takes no more
	free(400)
	must(t, m.Link("/f", "/link"))
	free(400)
	if err := g.Preallocate(401); !errors.Is(err, ErrNoSpace) {
		t.Errorf("preallocate: %v", err)
	}
	if n, err := g.Write([]byte(strings.Repeat("g", 500))); n != 400 || !errors.Is(err, ErrNoSpace) {
		t.Errorf("write: %d %v", n, err)
	}
	if n, err := f.WriteAt([]byte("ff"), 599); n != 1 || !errors.Is(err, ErrNoSpace) {
		t.Errorf("write over the end: %d %v", n, err)
	}
	if n, err := f.WriteAt([]byte("ff"), 700); n != 0 || !errors.Is(err, ErrNoSpace) {
		t.Errorf("write behind the end: %d %v", n, err)
	}
	free(0)
	must(t, errors.Join(g.Truncate(100), g.Sync(), m.SyncDir("/")))
	free(300)
	must(t, m.Remove("/f"))
	free(300)
	m = m.Crash(nil, KeepAll)
	free(300)
	must(t, m.Remove("/link"))
	free(900)
	if s, err := NewMem().Space("/"); err != nil || s.Free != s.Total {
		t.Errorf("without a limit: %+v %v", s, err)
	}
	i := NewInject(m)
	i.Fail(Rule{Op: AnyOp, K: 1, Err: syscall.EIO, Forever: true})
	if s, err := i.Space("/"); err != nil || s.Free != 900 || i.Count(AnyOp) != 0 { // it changes nothing
		t.Errorf("%+v %v", s, err)
	}
	i.Fail(Rule{Op: OpSpace, K: 1, Err: syscall.EIO})
	if _, err := i.Space("/"); !errors.Is(err, syscall.EIO) || i.Count(OpSpace) != 2 {
		t.Errorf("%v", err)
	}
}

func TestInject(t *testing.T) {
	i := NewInject(NewMem())
	f := create(t, i, "/x.wal")
	i.Fail(Rule{Op: OpWrite, Pattern: "*.wal", K: 2, Err: ErrNoSpace, Short: 3})
	i.Fail(Rule{Op: OpSync, K: 2, Err: syscall.EIO, Forever: true})
	write(t, f, "abcdef", 0)
	if n, err := f.WriteAt([]byte("uvwxyz"), 0); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("short write: %d %v", n, err)
	}
	write(t, f, "!", 5)
	if got := content(i, "/x.wal"); got != "uvwde!" {
		t.Errorf("content %q", got)
	}
	must(t, f.Sync())
	for range 3 {
		if err := f.SyncData(); !errors.Is(err, syscall.EIO) {
			t.Errorf("sync: %v", err)
		}
	}
	if i.Count(OpWrite) != 3 || i.Count(OpSync) != 4 || i.Count(AnyOp) != 8 || i.Fired() != 4 {
		t.Errorf("counts %d %d %d %d", i.Count(OpWrite), i.Count(OpSync), i.Count(AnyOp), i.Fired())
	}
	i.Heal()
	must(t, f.Sync())
}

// I1: directories are there after a power loss, and those that a process left which ended before their names were durable.
func TestMakeDirs(t *testing.T) {
	m := NewMem()
	for _, folders := range [][]string{nil, {"log", "data"}} {
		if folders != nil {
			must(t, m.MkdirAll("a/b/c/log"))
		}
		must(t, MakeDirs(m, "a/b/c", folders...))
		m = m.Crash(nil, KeepNothing)
		for _, f := range append(folders, "") {
			if _, err := m.Stat(path.Join("a/b/c", f)); err != nil {
				t.Error(err)
			}
		}
	}
}

// What could not be written whole leaves no room behind: on a full disk it would keep the last bytes.
func TestFailedAtomicWriteGivesItsRoomBack(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/d"))
	must(t, WriteFileAtomic(m, "/d", "x", []byte("old")))
	m.Limit(10)
	if err := WriteFileAtomic(m, "/d", "x", make([]byte, 100)); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	space, err := m.Space("/d")
	must(t, err)
	if space.Free != 7 {
		t.Errorf("%d bytes are free", space.Free)
	}
}
