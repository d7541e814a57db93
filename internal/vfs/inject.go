package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"syscall"
)

// Op is a kind of operation that Inject counts and fails.
type Op string

// The kinds of operations. AnyOp in a Rule stands for all of them.
const (
	AnyOp         Op = ""
	OpCreate      Op = "create"
	OpOpen        Op = "open"
	OpRead        Op = "read"
	OpWrite       Op = "write"
	OpTruncate    Op = "truncate"
	OpPreallocate Op = "preallocate"
	OpSync        Op = "sync" // fsync and fdatasync
	OpSyncDir     Op = "syncdir"
	OpRemove      Op = "remove"
	OpRename      Op = "rename"
	OpLink        Op = "link"
	OpMkdir       Op = "mkdir"
	OpReadDir     Op = "readdir"
	OpStat        Op = "stat"
	OpLock        Op = "lock"
	OpSpace       Op = "space"
)

// ErrNoSpace is what a full disk answers.
var ErrNoSpace error = syscall.ENOSPC

// NoSpace says whether an error is for want of room: the disk is full, or what a user may have of it is used up.
func NoSpace(err error) bool { return errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.EDQUOT) }

// Rule says which operation fails and how.
type Rule struct {
	Op      Op     // AnyOp: each one that changes something (reads, listings and opens are left alone)
	Pattern string // path.Match on the base name; empty matches all
	K       int    // the K-th match fails, from 1
	Forever bool   // and all later ones too
	Err     error  // what it returns
	Short   int    // a write: so many bytes are written before the error
}

// Inject wraps a file system and fails the operations that its rules name.
type Inject struct {
	fs    FS
	mu    sync.Mutex
	rules []*activeRule
	count map[Op]int
	fired int
	hook  func(Op, string)
}

type activeRule struct {
	Rule
	seen int
}

var _ FS = (*Inject)(nil)

// NewInject wraps fsys. Without a rule it only counts.
func NewInject(fsys FS) *Inject { return &Inject{fs: fsys, count: map[Op]int{}} }

// Fail adds a rule.
func (i *Inject) Fail(r Rule) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = append(i.rules, &activeRule{Rule: r})
}

// Observe has f called before each operation that changes something, by the goroutine that does it and with
// no lock held: a place to crash the file system below.
func (i *Inject) Observe(f func(op Op, name string)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hook = f
}

// Heal drops all rules.
func (i *Inject) Heal() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = nil
}

// Count gives how many operations of a kind were called; AnyOp: all that change something.
func (i *Inject) Count(op Op) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if op != AnyOp {
		return i.count[op]
	}
	n := 0
	for k, c := range i.count {
		if k.mutates() {
			n += c
		}
	}
	return n
}

// Fired gives how many operations were failed.
func (i *Inject) Fired() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fired
}

func (o Op) mutates() bool {
	switch o {
	case OpOpen, OpRead, OpReadDir, OpStat, OpLock, OpSpace:
		return false
	}
	return true
}

// hit counts an operation and gives the rule that fails it, if any.
func (i *Inject) hit(op Op, name string) *Rule {
	i.mu.Lock()
	hook := i.hook
	i.mu.Unlock()
	if hook != nil && op.mutates() {
		hook(op, name)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.count[op]++
	var out *Rule
	for _, r := range i.rules {
		if r.Op == AnyOp && !op.mutates() || r.Op != AnyOp && r.Op != op {
			continue
		}
		if r.Pattern != "" {
			if ok, err := path.Match(r.Pattern, path.Base(name)); err != nil || !ok {
				continue
			}
		}
		r.seen++
		if out == nil && (r.seen == r.K || r.Forever && r.seen > r.K) {
			out = &r.Rule
			i.fired++
		}
	}
	return out
}

func (i *Inject) check(op Op, name string) error {
	if r := i.hit(op, name); r != nil {
		return r.error(op, name)
	}
	return nil
}

func (r *Rule) error(op Op, name string) error {
	return fmt.Errorf("injected: %w", pathError(string(op), name, r.Err))
}

func (i *Inject) wrap(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &injectFile{File: f, i: i}, nil
}

// Create calls the wrapped file system unless a rule fails it, as do all methods below.
func (i *Inject) Create(name string) (File, error) {
	if err := i.check(OpCreate, name); err != nil {
		return nil, err
	}
	return i.wrap(i.fs.Create(name))
}

// Open opens a file.
func (i *Inject) Open(name string) (File, error) {
	if err := i.check(OpOpen, name); err != nil {
		return nil, err
	}
	return i.wrap(i.fs.Open(name))
}

// OpenRead opens a file for reading.
func (i *Inject) OpenRead(name string) (File, error) {
	if err := i.check(OpOpen, name); err != nil {
		return nil, err
	}
	return i.wrap(i.fs.OpenRead(name))
}

// Remove removes a file.
func (i *Inject) Remove(name string) error {
	if err := i.check(OpRemove, name); err != nil {
		return err
	}
	return i.fs.Remove(name)
}

// RemoveAll removes a tree.
func (i *Inject) RemoveAll(name string) error {
	if err := i.check(OpRemove, name); err != nil {
		return err
	}
	return i.fs.RemoveAll(name)
}

// Rename moves a file; patterns match the new name.
func (i *Inject) Rename(oldName, newName string) error {
	if err := i.check(OpRename, newName); err != nil {
		return err
	}
	return i.fs.Rename(oldName, newName)
}

// Link links a file; patterns match the new name.
func (i *Inject) Link(oldName, newName string) error {
	if err := i.check(OpLink, newName); err != nil {
		return err
	}
	return i.fs.Link(oldName, newName)
}

// MkdirAll makes directories.
func (i *Inject) MkdirAll(name string) error {
	if err := i.check(OpMkdir, name); err != nil {
		return err
	}
	return i.fs.MkdirAll(name)
}

// ReadDir lists a directory.
func (i *Inject) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := i.check(OpReadDir, name); err != nil {
		return nil, err
	}
	return i.fs.ReadDir(name)
}

// Stat describes a file.
func (i *Inject) Stat(name string) (fs.FileInfo, error) {
	if err := i.check(OpStat, name); err != nil {
		return nil, err
	}
	return i.fs.Stat(name)
}

// SyncDir syncs a directory.
func (i *Inject) SyncDir(name string) error {
	if err := i.check(OpSyncDir, name); err != nil {
		return err
	}
	return i.fs.SyncDir(name)
}

// Space says what is left.
func (i *Inject) Space(name string) (Space, error) {
	if err := i.check(OpSpace, name); err != nil {
		return Space{}, err
	}
	return i.fs.Space(name)
}

// Lock takes a lock.
func (i *Inject) Lock(name string) (io.Closer, error) {
	if err := i.check(OpLock, name); err != nil {
		return nil, err
	}
	return i.fs.Lock(name)
}

type injectFile struct {
	File
	i *Inject
}

func (f *injectFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.i.check(OpRead, f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// short writes what a failing write still gets onto the disk.
func (f *injectFile) short(r *Rule, p []byte, write func([]byte) (int, error)) (int, error) {
	n := 0
	if r.Short > 0 {
		var err error
		if n, err = write(p[:min(r.Short, len(p))]); err != nil {
			return n, err
		}
	}
	return n, r.error(OpWrite, f.Name())
}

func (f *injectFile) WriteAt(p []byte, off int64) (int, error) {
	if r := f.i.hit(OpWrite, f.Name()); r != nil {
		return f.short(r, p, func(b []byte) (int, error) { return f.File.WriteAt(b, off) })
	}
	return f.File.WriteAt(p, off)
}

func (f *injectFile) Write(p []byte) (int, error) {
	if r := f.i.hit(OpWrite, f.Name()); r != nil {
		return f.short(r, p, f.File.Write)
	}
	return f.File.Write(p)
}

func (f *injectFile) Truncate(size int64) error {
	if err := f.i.check(OpTruncate, f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *injectFile) Preallocate(size int64) error {
	if err := f.i.check(OpPreallocate, f.Name()); err != nil {
		return err
	}
	return f.File.Preallocate(size)
}

func (f *injectFile) Sync() error {
	if err := f.i.check(OpSync, f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *injectFile) SyncData() error {
	if err := f.i.check(OpSync, f.Name()); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *injectFile) SyncPaced() error {
	if err := f.i.check(OpSync, f.Name()); err != nil {
		return err
	}
	return f.File.SyncPaced()
}
