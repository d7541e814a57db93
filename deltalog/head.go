package deltalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// head identifies the newest file that a state was replayed from. Version numbers do not tell a table from one
// that was made in its place: this does.
type head struct {
	key     string
	size    int64
	modTime int64             // ms; 0 while no listing has shown the file: it is our own commit
	sum     [sha256.Size]byte // of its content; zero when that was not read
	settled bool              // size and time alone identify it: nothing written since can have the same time
}

// settleAfter is how old a file must be before its time identifies it. It is far more than the granularity of
// any store's clock and allows for one that goes behind ours.
const settleAfter = 10 * time.Second

func headOf(f logFile, sum [sha256.Size]byte) head {
	return head{key: f.key, size: f.size, modTime: f.modTime, sum: sum}
}

// look lists the log from the state's version on, and makes sure that the state's newest file is still the one
// that it was replayed from; errMoved when it is not. A young file is read again: its time proves nothing, since
// a table can be dropped and made again within one tick of the store's clock. The caller holds l.io.
func (l *Log) look(ctx context.Context) (*listing, error) {
	h := &l.state.head
	var data []byte
	var readErr error
	var wg sync.WaitGroup
	read := !h.settled && h.sum != [sha256.Size]byte{}
	if read { // together with the listing: it costs no time of its own
		wg.Go(func() { data, readErr = l.store.Get(ctx, h.key) })
	}
	found, err := list(ctx, l.store, l.state.version)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	f, ok := found.file(h.key)
	if !ok || f.size != h.size || h.modTime != 0 && f.modTime != h.modTime {
		return nil, errMoved
	}
	if read && errors.Is(readErr, objstore.ErrNotFound) {
		return nil, errMoved
	}
	if readErr != nil {
		return nil, fmt.Errorf("read commit %s: %w", h.key, readErr)
	}
	if read && sha256.Sum256(data) != h.sum {
		return nil, errMoved
	}
	h.modTime = f.modTime
	h.settled = l.cfg.Clock().Sub(time.UnixMilli(f.modTime)) > settleAfter
	return found, nil
}

// replaced says, as a *ReplacedError, that the newest version of a state, a commit, is still there with other content. A
// table that was made again, or cleaned up behind our back, is no such case.
func (l *Log) replaced(ctx context.Context, was *state) error {
	h := was.head
	if h.key != commitName(was.version) || h.sum == [sha256.Size]byte{} || was.metadata == nil {
		return nil
	}
	data, err := l.store.Get(ctx, h.key)
	if err != nil || sha256.Sum256(data) == h.sum {
		return nil
	}
	now, err := load(ctx, l.store, was.version, true)
	if err != nil || now.metadata.ID != was.metadata.ID {
		return nil
	}
	out := &ReplacedError{Version: was.version}
	if a, err := parseCommit(data, h.key); err == nil && a.info != nil {
		out.By = a.info.EngineInfo
	}
	return out
}

// file finds a commit or a part of a complete checkpoint by its key.
func (l *listing) file(key string) (logFile, bool) {
	for _, f := range l.commits {
		if f.key == key {
			return f, true
		}
	}
	for _, c := range l.checkpoints {
		for _, f := range c.files {
			if f.key == key {
				return f, true
			}
		}
	}
	return logFile{}, false
}
