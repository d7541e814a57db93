package raft

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	hraft "github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
)

// logStore is the node's log and vote: a raft-wal in a numbered folder.
//
// A follower that has entries which no majority has must remove them. raft-wal 0.4.0 does that in a way that it
// cannot open afterwards (its issue 31), so it is never asked to: the entries that stay are copied into the next
// folder, which takes the place of the old one by a rename. It is rare, and the log between snapshots is short.
//
// A crash leaves a folder "next" (ignored and removed) or two numbered folders (the higher one counts).
type logStore struct {
	dir  string
	hlog hclog.Logger
	fail func(error) // is told of a write that failed: the node must not go on

	mu   sync.RWMutex // held for writing only while the folder changes
	n    int          // number of the folder
	wal  *wal.WAL
	meta *metadb.BoltMetaDB // of wal, which leaves it open
}

var (
	_ hraft.LogStore          = (*logStore)(nil)
	_ hraft.StableStore       = (*logStore)(nil)
	_ hraft.MonotonicLogStore = (*logStore)(nil)
)

const (
	logPrefix = "log-"
	nextName  = "next"
)

func (l *logStore) folder(n int) string {
	return filepath.Join(l.dir, fmt.Sprintf("%s%06d", logPrefix, n))
}

func openLogStore(dir string, hlog hclog.Logger, fail func(error)) (*logStore, error) {
	l := &logStore{dir: dir, hlog: hlog, fail: fail, n: 1}
	if err := os.RemoveAll(filepath.Join(dir, nextName)); err != nil {
		return nil, fmt.Errorf("remove what a crash left: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read directory: %w", err)
	}
	var found []int
	for _, e := range entries {
		var n int
		if rest, ok := strings.CutPrefix(e.Name(), logPrefix); ok && e.IsDir() {
			if _, err := fmt.Sscanf(rest, "%06d", &n); err == nil && n > 0 {
				found = append(found, n)
			}
		}
	}
	sort.Ints(found)
	for i, n := range found {
		if l.n = n; i < len(found)-1 {
			if err := os.RemoveAll(l.folder(n)); err != nil {
				return nil, fmt.Errorf("remove the log before: %w", err)
			}
		}
	}
	if l.wal, l.meta, err = openWAL(l.folder(l.n), hlog); err != nil {
		return nil, err
	}
	return l, nil
}

func openWAL(dir string, hlog hclog.Logger) (*wal.WAL, *metadb.BoltMetaDB, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("make directory: %w", err)
	}
	meta := &metadb.BoltMetaDB{}
	w, err := wal.Open(dir, wal.WithLogger(hlog), wal.WithMetaStore(meta))
	if err != nil {
		return nil, nil, fmt.Errorf("open the log in %s: %w", dir, errors.Join(err, meta.Close()))
	}
	return w, meta, nil
}

// Close closes the log.
func (l *logStore) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.wal.Close(), l.meta.Close())
}

// FirstIndex is the oldest entry, 0 when there is none.
func (l *logStore) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.wal.FirstIndex()
}

// LastIndex is the newest entry, 0 when there is none.
func (l *logStore) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.wal.LastIndex()
}

// GetLog reads an entry.
func (l *logStore) GetLog(index uint64, out *hraft.Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.wal.GetLog(index, out)
}

// StoreLog appends an entry.
func (l *logStore) StoreLog(e *hraft.Log) error { return l.StoreLogs([]*hraft.Log{e}) }

// StoreLogs appends entries; they are durable when it returns.
func (l *logStore) StoreLogs(e []*hraft.Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	err := l.wal.StoreLogs(e)
	if err != nil && !errors.Is(err, wal.ErrClosed) {
		l.fail(fmt.Errorf("write the log in %s: %w", l.folder(l.n), err))
	}
	return err
}

// IsMonotonic says that entries cannot be overwritten in place.
func (l *logStore) IsMonotonic() bool { return true }

// Set keeps a value of the node: its term and its vote.
func (l *logStore) Set(key, value []byte) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.wal.Set(key, value)
}

// Get gives it back.
func (l *logStore) Get(key []byte) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.wal.Get(key)
}

// SetUint64 is Set for numbers.
func (l *logStore) SetUint64(key []byte, value uint64) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.wal.SetUint64(key, value)
}

// GetUint64 is Get for numbers.
func (l *logStore) GetUint64(key []byte) (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.wal.GetUint64(key)
}

// DeleteRange removes entries at either end.
func (l *logStore) DeleteRange(first, last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest, err := l.wal.FirstIndex()
	if err != nil {
		return err
	}
	newest, err := l.wal.LastIndex()
	if err != nil {
		return err
	}
	if first <= oldest || last < newest || first > newest {
		return l.wal.DeleteRange(first, last)
	}
	if err = l.cutTail(oldest, first-1); err != nil {
		// The next folder may stand in place already, with the vote of before: what this one is given from here on, a vote
		// among it, would be gone at the next start, and the node could vote twice in a term.
		l.fail(fmt.Errorf("cut the log in %s: %w", l.folder(l.n), err))
	}
	return err
}

// cutTail moves to a new folder with the entries from oldest to newest.
func (l *logStore) cutTail(oldest, newest uint64) error {
	next := filepath.Join(l.dir, nextName)
	if err := os.RemoveAll(next); err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	w, meta, err := openWAL(next, l.hlog)
	if err != nil {
		return err
	}
	if err := errors.Join(l.copyTo(w, oldest, newest), w.Close(), meta.Close()); err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	if err := errors.Join(os.Rename(next, l.folder(l.n+1)), syncDir(l.dir)); err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	if w, meta, err = openWAL(l.folder(l.n+1), l.hlog); err != nil {
		return err
	}
	err = errors.Join(l.wal.Close(), l.meta.Close(), os.RemoveAll(l.folder(l.n)))
	l.wal, l.meta, l.n = w, meta, l.n+1
	return err
}

// stableKeys are what the raft library keeps of a node.
var stableKeys = []string{"CurrentTerm", "LastVoteTerm", "LastVoteCand"}

func (l *logStore) copyTo(w *wal.WAL, oldest, newest uint64) error {
	var batch []*hraft.Log
	size := 0
	for i := oldest; i <= newest; i++ {
		e := &hraft.Log{}
		if err := l.wal.GetLog(i, e); err != nil {
			return fmt.Errorf("read entry %d: %w", i, err)
		}
		batch = append(batch, e)
		if size += len(e.Data); i == newest || len(batch) == 256 || size > 8<<20 {
			if err := w.StoreLogs(batch); err != nil {
				return fmt.Errorf("copy entries: %w", err)
			}
			batch, size = nil, 0
		}
	}
	for _, key := range stableKeys {
		v, err := l.wal.Get([]byte(key))
		if err != nil || len(v) == 0 {
			continue // not set yet; the library says so by an error
		}
		if err := w.Set([]byte(key), v); err != nil {
			return fmt.Errorf("copy %s: %w", key, err)
		}
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
