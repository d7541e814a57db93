package deltalog

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"
)

const (
	ictSetting     = "delta.enableInCommitTimestamps"
	ictFromVersion = "delta.inCommitTimestampEnablementVersion"
	ictFromTime    = "delta.inCommitTimestampEnablementTimestamp"
)

// SnapshotAtTime gives the newest version that was committed at or before t. The time of a commit is its in-commit
// timestamp where the table has them, else the time of its file, moved forward where that does not grow with the
// version. A time before the oldest version that the log can give is ErrTimestampTooEarly; one after the newest
// commit is ErrTimestampTooLate, because its answer would change with the next commit.
func (l *Log) SnapshotAtTime(ctx context.Context, t time.Time) (*Snapshot, error) {
	v, err := l.VersionAt(ctx, t)
	if err != nil {
		return nil, err
	}
	return l.SnapshotAt(ctx, v)
}

// VersionAt gives the version that SnapshotAtTime loads.
func (l *Log) VersionAt(ctx context.Context, t time.Time) (Version, error) {
	c, err := l.clock(ctx)
	if err != nil {
		return -1, fmt.Errorf("version at %s: %w", t.UTC().Format(time.RFC3339Nano), err)
	}
	v, err := c.versionAt(ctx, t.UnixMilli())
	if err != nil {
		return -1, fmt.Errorf("version at %s: %w", t.UTC().Format(time.RFC3339Nano), err)
	}
	return v, nil
}

// Earliest gives the oldest version that SnapshotAt can give: log cleanup moves it on.
func (l *Log) Earliest(ctx context.Context) (Version, error) {
	found, err := list(ctx, l.store, 0)
	if err != nil {
		return -1, fmt.Errorf("earliest version: %w", err)
	}
	if found.newest < 0 {
		return -1, ErrNotTable
	}
	v := found.earliest()
	if v < 0 {
		return -1, fmt.Errorf("earliest version: %w: no complete checkpoint and no commit 0", ErrVersionNotFound)
	}
	return v, nil
}

// earliest is the oldest version from which a replay can start, -1 when there is none.
func (l *listing) earliest() Version {
	if _, ok := l.commits[0]; ok {
		return 0
	}
	if n := len(l.checkpoints); n > 0 {
		return l.checkpoints[n-1].version
	}
	if len(l.compactions[0]) > 0 {
		return slices.MinFunc(l.compactions[0], func(a, b logFile) int { return int(a.end - b.end) }).end
	}
	return -1
}

// commitClock tells when each commit of the log was made.
type commitClock struct {
	log     *Log
	files   []logFile // commits, ascending, from the earliest version that can be given
	times   []int64   // their files' times, growing
	ictFrom Version   // first version with an in-commit timestamp
	ictTime int64     // of that version
	seen    map[Version]int64
}

// clock reads what times there are: a listing and the newest metadata.
func (l *Log) clock(ctx context.Context) (*commitClock, error) {
	snap, err := l.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	found, err := list(ctx, l.store, 0)
	if err != nil {
		return nil, err
	}
	c := &commitClock{log: l, ictFrom: found.newest + 1, seen: map[Version]int64{}}
	first := found.earliest()
	for v, f := range found.commits {
		if v >= first {
			c.files = append(c.files, f)
		}
	}
	sort.Slice(c.files, func(i, j int) bool { return c.files[i].version < c.files[j].version })
	c.times = make([]int64, len(c.files))
	for i, f := range c.files {
		c.times[i] = f.modTime
		if i > 0 { // copies of tables and clocks that go back: times must grow with versions
			c.times[i] = max(f.modTime, c.times[i-1]+1)
		}
	}
	if conf := snap.metadata.Configuration; isOn(conf, ictSetting) {
		c.ictFrom, c.ictTime = 0, 0
		if v, err := strconv.ParseInt(conf[ictFromVersion], 10, 64); err == nil && v >= 0 {
			c.ictFrom = Version(v)
		}
		if t, err := strconv.ParseInt(conf[ictFromTime], 10, 64); err == nil {
			c.ictTime = t
		}
	}
	return c, nil
}

// at gives the time of files[i] in ms.
func (c *commitClock) at(ctx context.Context, i int) (int64, error) {
	f := c.files[i]
	if f.version < c.ictFrom {
		return c.times[i], nil
	}
	if t, ok := c.seen[f.version]; ok {
		return t, nil
	}
	info, err := readInfo(ctx, c.log.store, f)
	if err != nil {
		return 0, err
	}
	if info == nil || info.InCommitTimestamp == nil {
		return 0, &CorruptError{File: f.key, Err: fmt.Errorf("no inCommitTimestamp, which the table has from version %d on", c.ictFrom)}
	}
	c.seen[f.version] = *info.InCommitTimestamp
	return *info.InCommitTimestamp, nil
}

// versionAt finds the newest commit at or before ms. Commits with in-commit timestamps are a range of their own:
// their times and those of files before them need not fit together.
func (c *commitClock) versionAt(ctx context.Context, ms int64) (Version, error) {
	if len(c.files) == 0 {
		return -1, fmt.Errorf("%w: the log holds no commits, only checkpoints", ErrVersionNotFound)
	}
	split := sort.Search(len(c.files), func(i int) bool { return c.files[i].version >= c.ictFrom })
	lo, hi := 0, split
	if split < len(c.files) && (ms >= c.ictTime || split == 0) {
		lo, hi = split, len(c.files)
	}
	var failed error
	n := lo + sort.Search(hi-lo, func(i int) bool {
		t, err := c.at(ctx, lo+i)
		if err != nil && failed == nil {
			failed = err
		}
		return t > ms
	})
	if failed != nil {
		return -1, failed
	}
	if n == lo {
		t, err := c.at(ctx, lo)
		if err != nil {
			return -1, err
		}
		return -1, fmt.Errorf("%w: the oldest is version %d of %s", ErrTimestampTooEarly, c.files[lo].version, formatMillis(t))
	}
	if last := len(c.files) - 1; n-1 == last {
		if t, err := c.at(ctx, last); err != nil || ms > t {
			if err != nil {
				return -1, err
			}
			return -1, fmt.Errorf("%w: the newest is version %d of %s; ask for that version instead", ErrTimestampTooLate, c.files[last].version, formatMillis(t))
		}
	}
	return c.files[n-1].version, nil
}

func formatMillis(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
