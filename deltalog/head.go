package deltalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
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

// suspect is a commit that must still be what it was (I5): the newest version of a state that was dropped, or one of our
// own that no state could take.
type suspect struct {
	version Version
	head    head
	table   string // metaData.id
	now     []byte // what was found in its place
}

// suspectOf gives the zero value for a state whose newest file cannot be known again by its content.
func suspectOf(s *state) suspect {
	if h := s.head; h.key != commitName(s.version) || h.sum == [sha256.Size]byte{} || s.metadata == nil {
		return suspect{}
	}
	return suspect{version: s.version, head: s.head, table: s.metadata.ID}
}

// doubt adds a suspect. It takes the place of one of the same version: what we put there counts more than what a look found
// there later. The caller holds l.io.
func (l *Log) doubt(x suspect) {
	if x.table == "" {
		return
	}
	i, found := slices.BinarySearchFunc(l.suspects, x.version, func(s suspect, v Version) int { return cmp.Compare(s.version, v) })
	if found {
		l.suspects[i] = x
		return
	}
	l.suspects = slices.Insert(l.suspects, i, x)
}

// saidBy says whether version v, as it was replayed, is the commit with a txnId. The caller holds l.io.
func (l *Log) saidBy(v Version, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.recent.get(v)
	return w != nil && w.txnID == id
}

// changed gives the suspects in whose place something else is now, not those that are as they were or not there (the log was
// cleaned up, or the table dropped). While the store does not say, nothing must go on: the suspicion stays. The caller holds l.io.
func (l *Log) changed(ctx context.Context) ([]suspect, error) {
	var out []suspect
	for _, x := range l.suspects {
		data, err := l.store.Get(ctx, x.head.key)
		switch {
		case errors.Is(err, objstore.ErrNotFound):
		case err != nil:
			return nil, fmt.Errorf("read commit %s again, which may have been replaced: %w", x.head.key, err)
		case sha256.Sum256(data) != x.head.sum:
			x.now = data
			out = append(out, x)
		}
	}
	return out, nil
}

// replacedOf gives the *ReplacedError of the oldest version that changed gave, nil when a table that was made again explains
// them. The state must have been loaded after that, so that it is of the table that the data is of, or of a later one.
func replacedOf(changed []suspect, now *state) *ReplacedError {
	for _, x := range changed {
		if now.metadata.ID != x.table {
			continue
		}
		out := &ReplacedError{Version: x.version}
		if a, err := parseCommit(x.now, x.head.key); err == nil && a.info != nil {
			out.By = a.info.EngineInfo
		}
		return out
	}
	return nil
}

// owe keeps what a look at the table has noticed until a commit says it: that look may be one whose error nobody hears.
func (l *Log) owe(e *ReplacedError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.untold = e
}

// owed gives what the next commit has to say instead of being made.
func (l *Log) owed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.untold == nil {
		return nil
	}
	return l.untold
}

// told takes note of the error of a commit.
func (l *Log) told(err error) {
	var e *ReplacedError
	if !errors.As(err, &e) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.untold == e {
		l.untold = nil
	}
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
