package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// blockSize is the unit in which a crash keeps or loses unsynced data: what disks write at once.
const blockSize = 512

// Mem is a file system in memory that knows what is durable. Crash gives what a power cut leaves of it.
type Mem struct {
	mu      sync.Mutex
	live    map[string]*node
	durable map[string]*node
	pending []nameOp // since the last SyncDir of their directories, oldest first
	locks   map[string]bool
	size    int64 // of all files together, at most; 0: no limit
}

var _ FS = (*Mem)(nil)

// node is a file or a directory; names point to nodes.
type node struct {
	dir        bool
	data       []byte
	syncedSize int64
	old        map[int64][]byte // blocks written since the last sync -> what was durable there
	spans      []span           // the writes since the last sync, in order
	modified   time.Time
}

type span struct{ off, end int64 }

// nameOp is one change of names that a crash keeps or loses as a whole (a rename changes two).
type nameOp struct {
	dirs  []string
	names []string
	nodes []*node // nil: the name goes away
}

// NewMem makes an empty file system; its root directory is durable.
func NewMem() *Mem {
	m := &Mem{live: map[string]*node{}, durable: map[string]*node{}, locks: map[string]bool{}}
	for _, root := range []string{"/", "."} {
		n := &node{dir: true}
		m.live[root], m.durable[root] = n, n
	}
	return m
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// boundless is the size that a Mem without a limit has.
const boundless = 1 << 50

// Limit makes it a disk of so many bytes: files take what they are long. Writes get as far as they can, and then ErrNoSpace. A
// crash keeps the limit.
func (m *Mem) Limit(size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size = size
}

// Space says what is left.
func (m *Mem) Space(string) (Space, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size == 0 {
		return Space{Total: boundless, Free: boundless}, nil
	}
	return Space{Total: m.size, Free: m.free()}, nil
}

func (m *Mem) free() int64 {
	free, seen := m.size, map[*node]bool{}
	for _, n := range m.live {
		if !seen[n] {
			seen[n] = true
			free -= int64(len(n.data))
		}
	}
	return max(free, 0)
}

// fit gives how far a file may grow, at most to end.
func (m *Mem) fit(n *node, end int64) int64 {
	size := int64(len(n.data))
	if m.size == 0 || end <= size {
		return end
	}
	return min(end, size+m.free())
}

// apply changes names and remembers that this is not durable yet.
func (m *Mem) apply(names []string, nodes []*node) {
	op := nameOp{names: names, nodes: nodes}
	for i, name := range names {
		setName(m.live, name, nodes[i])
		if d := path.Dir(name); !slices.Contains(op.dirs, d) {
			op.dirs = append(op.dirs, d)
		}
	}
	m.pending = append(m.pending, op)
}

func setName(m map[string]*node, name string, n *node) {
	if n == nil {
		delete(m, name)
	} else {
		m[name] = n
	}
}

func (m *Mem) parent(op, name string) error {
	p := m.live[path.Dir(name)]
	if p == nil {
		return pathError(op, name, fs.ErrNotExist)
	}
	if !p.dir {
		return pathError(op, name, errors.New("not a directory"))
	}
	return nil
}

// Create makes a file, empty, and opens it.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if err := m.parent("create", name); err != nil {
		return nil, err
	}
	n := m.live[name]
	switch {
	case n == nil:
		n = &node{modified: time.Now()}
		m.apply([]string{name}, []*node{n})
	case n.dir:
		return nil, pathError("create", name, errors.New("is a directory"))
	default:
		n.truncate(0)
	}
	return &memFile{m: m, n: n, name: name}, nil
}

// Open opens a file that exists.
func (m *Mem) Open(name string) (File, error) { return m.open(name, false) }

// OpenRead opens a file for reading.
func (m *Mem) OpenRead(name string) (File, error) { return m.open(name, true) }

func (m *Mem) open(name string, readOnly bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	n := m.live[name]
	if n == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	if n.dir {
		return nil, pathError("open", name, errors.New("is a directory"))
	}
	return &memFile{m: m, n: n, name: name, readOnly: readOnly}, nil
}

// Remove removes a file or an empty directory.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	n := m.live[name]
	if n == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if n.dir && len(m.below(name)) > 0 {
		return pathError("remove", name, errors.New("directory not empty"))
	}
	m.apply([]string{name}, []*node{nil})
	return nil
}

// below gives the names in a directory tree, deepest first.
func (m *Mem) below(name string) []string {
	prefix := name + "/"
	if name == "/" {
		prefix = "/"
	}
	var out []string
	for k := range m.live {
		if k != name && strings.HasPrefix(k, prefix) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

// RemoveAll removes a tree; a missing one is no error.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	for _, k := range append(m.below(name), name) {
		if m.live[k] != nil {
			m.apply([]string{k}, []*node{nil})
		}
	}
	return nil
}

// Rename moves a file over newName. Directories are not moved: no format of this project needs it.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldName, newName = path.Clean(oldName), path.Clean(newName)
	n := m.live[oldName]
	if n == nil {
		return pathError("rename", oldName, fs.ErrNotExist)
	}
	if n.dir {
		return pathError("rename", oldName, errors.ErrUnsupported)
	}
	if err := m.parent("rename", newName); err != nil {
		return err
	}
	if d := m.live[newName]; d != nil && d.dir {
		return pathError("rename", newName, fs.ErrExist)
	}
	if oldName != newName {
		m.apply([]string{oldName, newName}, []*node{nil, n})
	}
	return nil
}

// Link gives a file a second name.
func (m *Mem) Link(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldName, newName = path.Clean(oldName), path.Clean(newName)
	n := m.live[oldName]
	if n == nil || n.dir {
		return pathError("link", oldName, fs.ErrNotExist)
	}
	if err := m.parent("link", newName); err != nil {
		return err
	}
	if m.live[newName] != nil {
		return pathError("link", newName, fs.ErrExist)
	}
	m.apply([]string{newName}, []*node{n})
	return nil
}

// MkdirAll makes a directory and its parents.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	var missing []string
	for d := name; ; d = path.Dir(d) {
		if n := m.live[d]; n != nil {
			if !n.dir {
				return pathError("mkdir", d, errors.New("not a directory"))
			}
			break
		}
		missing = append(missing, d)
	}
	for _, d := range slices.Backward(missing) {
		m.apply([]string{d}, []*node{{dir: true, modified: time.Now()}})
	}
	return nil
}

// ReadDir lists a directory by name.
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if n := m.live[name]; n == nil || !n.dir {
		return nil, pathError("readdir", name, fs.ErrNotExist)
	}
	var out []fs.DirEntry
	for _, k := range slices.Backward(m.below(name)) {
		if path.Dir(k) == name {
			out = append(out, fs.FileInfoToDirEntry(m.info(k)))
		}
	}
	return out, nil
}

func (m *Mem) info(name string) memInfo {
	n := m.live[name]
	return memInfo{name: path.Base(name), dir: n.dir, size: int64(len(n.data)), modified: n.modified}
}

// Stat describes a file.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if m.live[name] == nil {
		return nil, pathError("stat", name, fs.ErrNotExist)
	}
	return m.info(name), nil
}

// SyncDir makes the names in a directory durable.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if n := m.live[name]; n == nil || !n.dir {
		return pathError("syncdir", name, fs.ErrNotExist)
	}
	m.pending = slices.DeleteFunc(m.pending, func(op nameOp) bool {
		if !slices.Contains(op.dirs, name) {
			return false
		}
		for i, k := range op.names {
			setName(m.durable, k, op.nodes[i])
		}
		return true
	})
	return nil
}

// Lock takes the lock of a name within this file system. A crash frees it.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = m.Create(name)
	}
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if m.locks[name] {
		return nil, pathError("lock", name, ErrLocked)
	}
	m.locks[name] = true
	return &memLock{File: f, m: m, name: name}, nil
}

type memLock struct {
	File
	m    *Mem
	name string
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	delete(l.m.locks, l.name)
	l.m.mu.Unlock()
	return l.File.Close()
}

type memInfo struct {
	name     string
	dir      bool
	size     int64
	modified time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.modified }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
