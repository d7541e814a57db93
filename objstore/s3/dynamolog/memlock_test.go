package dynamolog_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/objstore/s3/dynamolog"
)

const tablePath = "s3://lake/t"

// memLock is a lock table in memory. fault is asked before every call: an error before the effect, or one after it.
type memLock struct {
	mu    sync.Mutex
	items map[string]dynamolog.Entry // by table path and file
	fault func(op string) mem.Fault
}

func newLock() *memLock { return &memLock{items: map[string]dynamolog.Entry{}} }

func (l *memLock) Name() string { return "delta_log" }

func (l *memLock) begin(op string) (mem.Fault, error) {
	l.mu.Lock()
	f := l.fault
	l.mu.Unlock()
	if f == nil {
		return mem.Fault{}, nil
	}
	got := f(op)
	return got, got.Before
}

func (l *memLock) setFault(f func(op string) mem.Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

func (l *memLock) Get(_ context.Context, path, file string) (dynamolog.Entry, bool, error) {
	f, err := l.begin("Get")
	if err != nil {
		return dynamolog.Entry{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.items[path+"|"+file]
	return e, ok, f.After
}

func (l *memLock) Latest(_ context.Context, path string) (dynamolog.Entry, bool, error) {
	f, err := l.begin("Latest")
	if err != nil {
		return dynamolog.Entry{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var latest dynamolog.Entry
	for _, k := range slices.Sorted(maps.Keys(l.items)) {
		if e := l.items[k]; k == path+"|"+e.File {
			latest = e
		}
	}
	return latest, latest.File != "", f.After
}

func (l *memLock) Add(_ context.Context, path string, e dynamolog.Entry) error {
	f, err := l.begin("Add")
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.items[path+"|"+e.File]; ok {
		return dynamolog.ErrTaken
	}
	l.items[path+"|"+e.File] = e
	if f.After != nil {
		return fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, f.After)
	}
	return nil
}

func (l *memLock) Complete(_ context.Context, path string, e dynamolog.Entry) error {
	f, err := l.begin("Complete")
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.items[path+"|"+e.File]; ok && old.Temp == e.Temp {
		l.items[path+"|"+e.File] = e
	}
	return f.After
}

func (l *memLock) entry(t testing.TB, path, file string) (dynamolog.Entry, bool) {
	t.Helper()
	e, ok, err := l.Get(t.Context(), path, file)
	if err != nil {
		t.Fatal(err)
	}
	return e, ok
}
