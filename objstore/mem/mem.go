// Package mem is an object store in memory, for tests and for tables that need not last.
//
// It is safe for concurrent use. A hook sees every call and can fail it before it does anything, lose the
// answer after it has taken effect, or make it slow, so that every failure of a real store can be played.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Op names a method of the store.
type Op string

// The operations that a hook sees. A Writer counts as one OpCreate when it is made and one OpClose.
const (
	OpGet         Op = "get"
	OpGetRange    Op = "get-range"
	OpHead        Op = "head"
	OpPut         Op = "put"
	OpPutIfAbsent Op = "put-if-absent"
	OpCreate      Op = "create"
	OpClose       Op = "close"
	OpList        Op = "list"
	OpDelete      Op = "delete"
)

// Call describes one operation to a hook.
type Call struct {
	N   int64 // 1 for the first operation of the store, growing
	Op  Op
	Key string // the prefix for OpList
}

// Fault is what a hook does to a call. The zero value lets it pass.
type Fault struct {
	Before error // fail with this; nothing is done
	// After: do it, then fail with this as if the answer was lost. An operation that writes wraps
	// objstore.ErrUnknownOutcome around it.
	After error
}

// Hook is called before every operation, without locks held. It may block to make the store slow.
type Hook func(ctx context.Context, c Call) Fault

// Store is an object store in memory. The zero value is not ready; use New.
type Store struct {
	mu      sync.RWMutex
	objects map[string]object
	hook    Hook
	n       int64
}

type object struct {
	data []byte
	mod  time.Time
}

var _ objstore.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store { return &Store{objects: map[string]object{}} }

// SetHook installs h for later calls; nil removes it.
func (s *Store) SetHook(h Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = h
}

// Calls says how many operations there were.
func (s *Store) Calls() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.n
}

// URL names the store.
func (s *Store) URL() string { return "mem://" }

// begin counts the call and asks the hook.
func (s *Store) begin(ctx context.Context, op Op, key string) (Fault, error) {
	if err := ctx.Err(); err != nil {
		return Fault{}, err
	}
	s.mu.Lock()
	s.n++
	c, h := Call{N: s.n, Op: op, Key: key}, s.hook
	s.mu.Unlock()
	if h == nil {
		return Fault{}, nil
	}
	f := h(ctx, c)
	if f.Before != nil {
		return f, fmt.Errorf("%s %s: %w", op, key, f.Before)
	}
	return f, nil
}

// written is the result of an operation that took effect.
func (f Fault) written(op Op, key string) error {
	if f.After == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w: %w", op, key, objstore.ErrUnknownOutcome, f.After)
}

func (s *Store) lookup(key string) (object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[key]
	if !ok {
		return object{}, fmt.Errorf("%s: %w", key, objstore.ErrNotFound)
	}
	return o, nil
}

// read does what the reading operations share.
func (s *Store) read(ctx context.Context, op Op, key string) (object, error) {
	if err := objstore.CheckKey(key); err != nil {
		return object{}, err
	}
	f, err := s.begin(ctx, op, key)
	if err != nil {
		return object{}, err
	}
	o, err := s.lookup(key)
	if err == nil && f.After != nil {
		err = fmt.Errorf("%s %s: %w", op, key, f.After)
	}
	return o, err
}

// Get gives the whole object.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	o, err := s.read(ctx, OpGet, key)
	return bytes.Clone(o.data), err
}

// GetRange gives length bytes at off.
func (s *Store) GetRange(ctx context.Context, key string, off, length int64) ([]byte, error) {
	o, err := s.read(ctx, OpGetRange, key)
	if err != nil {
		return nil, err
	}
	if off < 0 || length < 0 || off > int64(len(o.data)) || length > int64(len(o.data))-off {
		return nil, fmt.Errorf("%s: bytes [%d, %d+%d) of %d: %w", key, off, off, length, len(o.data), io.ErrUnexpectedEOF)
	}
	return bytes.Clone(o.data[off : off+length]), nil
}

// Head describes the object.
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	o, err := s.read(ctx, OpHead, key)
	if err != nil {
		return objstore.Info{}, err
	}
	return objstore.Info{Key: key, Size: int64(len(o.data)), ModTime: o.mod}, nil
}

// Put publishes data, replacing what is there.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, OpPut, key, data, false)
}

// PutIfAbsent publishes data unless key exists.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, OpPutIfAbsent, key, data, true)
}

func (s *Store) write(ctx context.Context, op Op, key string, data []byte, absent bool) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	f, err := s.begin(ctx, op, key)
	if err != nil {
		return err
	}
	if err := s.set(key, bytes.Clone(data), absent); err != nil {
		return err
	}
	return f.written(op, key)
}

func (s *Store) set(key string, data []byte, absent bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[key]; taken && absent {
		return fmt.Errorf("%s: %w", key, objstore.ErrExists)
	}
	s.objects[key] = object{data: data, mod: time.Now()}
	return nil
}

// Create starts a new object.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	if err := objstore.CheckKey(key); err != nil {
		return nil, err
	}
	f, err := s.begin(ctx, OpCreate, key)
	if err == nil && f.After != nil {
		err = fmt.Errorf("%s %s: %w", OpCreate, key, f.After)
	}
	if err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, store: s, key: key}, nil
}

type writer struct {
	ctx   context.Context //nolint:containedctx // Close has no other way to get it
	store *Store
	key   string
	buf   []byte
	done  bool
}

func (w *writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fmt.Errorf("write %s: the writer is closed", w.key)
	}
	w.buf = append(w.buf, p...)
	return len(p), nil
}

func (w *writer) Close() error {
	if w.done {
		return fmt.Errorf("close %s: the writer is closed", w.key)
	}
	w.done = true
	f, err := w.store.begin(w.ctx, OpClose, w.key)
	if err != nil {
		return err
	}
	if err := w.store.set(w.key, w.buf, false); err != nil {
		return err
	}
	return f.written(OpClose, w.key)
}

func (w *writer) Abort() error {
	w.done, w.buf = true, nil
	return nil
}

// List gives the objects in ascending order of keys, as they were when it began.
func (s *Store) List(ctx context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		f, err := s.begin(ctx, OpList, opts.Prefix)
		if err == nil && f.After != nil {
			err = fmt.Errorf("%s %s: %w", OpList, opts.Prefix, f.After)
		}
		if err != nil {
			yield(objstore.Info{}, err)
			return
		}
		for _, info := range s.matching(opts) {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (s *Store) matching(opts objstore.ListOptions) []objstore.Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var infos []objstore.Info
	for key, o := range s.objects {
		if opts.Match(key) {
			infos = append(infos, objstore.Info{Key: key, Size: int64(len(o.data)), ModTime: o.mod})
		}
	}
	slices.SortFunc(infos, func(a, b objstore.Info) int {
		switch {
		case a.Key < b.Key:
			return -1
		case a.Key > b.Key:
			return 1
		}
		return 0
	})
	return infos
}

// Delete removes key if it is there.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	f, err := s.begin(ctx, OpDelete, key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.objects, key)
	s.mu.Unlock()
	return f.written(OpDelete, key)
}
