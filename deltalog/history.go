package deltalog

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// infoHead is what is read of a commit to find its commitInfo, which most writers put first.
const infoHead = 64 << 10

// History gives what the newest n commits say about themselves, newest first; n <= 0 gives all that the log
// still holds. A commit without commitInfo gives only its version and times. Only the head of each commit is read.
func (l *Log) History(ctx context.Context, n int) ([]CommitInfo, error) {
	c, err := l.clock(ctx)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	files, times := c.files, c.times
	if n > 0 && n < len(files) {
		files, times = files[len(files)-n:], times[len(times)-n:]
	}
	out := make([]CommitInfo, len(files))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchParallel)
	for i, f := range files {
		g.Go(func() error {
			info, err := readInfo(ctx, l.store, f)
			if err != nil {
				return fmt.Errorf("history: %w", err)
			}
			if info != nil {
				out[i] = *info
			}
			at := times[i]
			if info != nil && info.InCommitTimestamp != nil && f.version >= c.ictFrom {
				at = *info.InCommitTimestamp
			}
			out[i].Version, out[i].Committed = f.version, time.UnixMilli(at).UTC()
			if out[i].Timestamp == 0 {
				out[i].Timestamp = f.modTime
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.Reverse(out)
	return out, nil
}

// readInfo gives a commit's commitInfo, nil when it has none.
func readInfo(ctx context.Context, store objstore.Store, f logFile) (*CommitInfo, error) {
	if f.size > infoHead {
		b, err := store.GetRange(ctx, f.key, 0, infoHead)
		if err != nil {
			return nil, fmt.Errorf("read commit %s: %w", f.key, err)
		}
		if info, err := findInfo(b[:bytes.LastIndexByte(b, '\n')+1], f.key); info != nil || err != nil {
			return info, err
		}
	}
	b, err := store.Get(ctx, f.key)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", f.key, err)
	}
	return findInfo(b, f.key)
}

// findInfo parses only the line that can hold the commitInfo.
func findInfo(b []byte, file string) (*CommitInfo, error) {
	line := 0
	for row := range bytes.Lines(b) {
		line++
		if !bytes.Contains(row[:min(len(row), 64)], []byte(`"commitInfo"`)) {
			continue
		}
		a, err := parseLines(row, file, line)
		if err != nil {
			return nil, err
		}
		if a.info != nil {
			return a.info, nil
		}
	}
	return nil, nil
}
