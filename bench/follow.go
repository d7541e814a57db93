package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// follower watches the log of a local Delta table from outside, as a reader would: when a version is there, and how far
// each partition of the topic has come with it.
type follower struct {
	dir      string
	next     deltalog.Version
	at       map[int32]int64 // last offset that is in the table
	versions int64
	files    int64
	bytes    int64
	advance  func(partition int32, from, to int64, at time.Time) // nil: nobody asks

	// How the table grew, for a side that stops growing before it is done.
	offsets int64                // of all partitions
	marks   []mark               // one a look that found versions
	cpu     func() time.Duration // of the side so far; nil: nobody asks
}

// mark is what a table had at a moment.
type mark struct {
	at      time.Time
	cpu     time.Duration
	offsets int64
}

// stall is the error of a side that goes on with next to nothing: in stallAfter less than a thousandth of its work.
type stall struct {
	until mark // the last that was no crawl
	end   mark
	total int64
}

const stallAfter = 30 * time.Second

func (s *stall) Error() string {
	return fmt.Sprintf("stands at %d of %d records: %d in the last %.0f s", s.end.offsets, s.total, s.end.offsets-s.until.offsets, s.end.at.Sub(s.until.at).Seconds())
}

const followPoll = 2 * time.Millisecond

func newFollower(dir string) *follower { return &follower{dir: dir, next: 1, at: map[int32]int64{}} }

// wait returns when the table has all offsets up to ends; check is asked now and then whether there is hope.
func (f *follower) wait(ctx context.Context, ends map[int32]int64, check func() error) error {
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	for looks := 0; ; looks++ {
		if err := f.look(); err != nil {
			return err
		}
		if f.reached(ends) {
			return nil
		}
		if looks%100 == 0 {
			if err := check(); err != nil {
				return err
			}
			if err := f.stalled(ends, time.Now()); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("table %s stands at %v, to come to %v: %w", f.dir, f.at, ends, context.Cause(ctx))
		}
	}
}

// stalled finds the moment from which on the table hardly grew, once that was long enough ago.
func (f *follower) stalled(ends map[int32]int64, now time.Time) error {
	if f.cpu == nil || len(f.marks) == 0 {
		return nil
	}
	var total int64
	for _, end := range ends {
		total += end + 1
	}
	i := slices.IndexFunc(f.marks, func(m mark) bool { return f.offsets-m.offsets < total/1000 })
	if i < 0 || now.Sub(f.marks[i].at) < stallAfter {
		return nil
	}
	return &stall{until: f.marks[i], end: mark{at: now, offsets: f.offsets}, total: total}
}

func (f *follower) reached(ends map[int32]int64) bool {
	for p, want := range ends {
		if at, ok := f.at[p]; !ok || at < want {
			return false
		}
	}
	return true
}

// look takes in the versions that are there since the last look.
func (f *follower) look() error {
	before := f.versions
	defer func() {
		if f.cpu != nil && f.versions > before {
			f.marks = append(f.marks, mark{at: time.Now(), cpu: f.cpu(), offsets: f.offsets})
		}
	}()
	for {
		b, err := os.ReadFile(filepath.Join(f.dir, deltalog.CommitKey(f.next)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.take(b, time.Now()); err != nil {
			return fmt.Errorf("version %d of %s: %w", f.next, f.dir, err)
		}
		f.next++
	}
}

func (f *follower) take(commit []byte, now time.Time) error {
	f.versions++
	for line := range bytes.Lines(commit) {
		var a struct {
			Txn *struct {
				AppID   string `json:"appId"`
				Version int64  `json:"version"`
			} `json:"txn"`
			Add *struct {
				Size int64 `json:"size"`
			} `json:"add"`
		}
		if err := json.Unmarshal(line, &a); err != nil {
			return err
		}
		if a.Add != nil {
			f.files++
			f.bytes += a.Add.Size
		}
		if a.Txn == nil {
			continue
		}
		app, p, ok := table.SplitAppID(a.Txn.AppID)
		if !ok || app != ingestApp {
			continue
		}
		from := int64(0)
		if at, ok := f.at[p]; ok {
			from = at + 1
		}
		if f.advance != nil && a.Txn.Version >= from {
			f.advance(p, from, a.Txn.Version, now)
		}
		f.offsets += max(0, a.Txn.Version-from+1)
		f.at[p] = max(a.Txn.Version, from-1)
	}
	return nil
}
