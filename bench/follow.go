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
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("table %s stands at %v, to come to %v: %w", f.dir, f.at, ends, context.Cause(ctx))
		}
	}
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
		f.at[p] = max(a.Txn.Version, from-1)
	}
	return nil
}
