package deltalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/objstore"
)

const fetchParallel = 8

// load builds the state at target, or at the newest version when target is negative.
func load(ctx context.Context, store objstore.Store, target Version) (*state, error) {
	from, err := readHint(ctx, store)
	if err != nil {
		return nil, err
	}
	if from > 0 && (target < 0 || from <= target) {
		l, err := list(ctx, store, from)
		if err != nil {
			return nil, err
		}
		// The hint is believed only when its checkpoint is there and readable; else everything is listed.
		if s, err := loadFrom(ctx, store, l, target); err == nil {
			return s, nil
		} else if ctx.Err() != nil {
			return nil, err
		}
	}
	l, err := list(ctx, store, 0)
	if err != nil {
		return nil, err
	}
	return loadFrom(ctx, store, l, target)
}

// loadFrom tries the checkpoints of a listing, newest first, and then the commits from version 0.
func loadFrom(ctx context.Context, store objstore.Store, l *listing, target Version) (*state, error) {
	if l.newest < 0 {
		return nil, ErrNotTable
	}
	if target < 0 {
		target = l.newest
	}
	if target > l.newest {
		return nil, fmt.Errorf("%w: %d, the newest is %d", ErrVersionNotFound, target, l.newest)
	}
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, c := range l.checkpoints {
		if c.version > target {
			continue
		}
		s, err := replay(ctx, store, l, &c, target)
		if err == nil {
			return s, nil
		}
		var u *UnsupportedError
		if ctx.Err() != nil || errors.As(err, &u) {
			return nil, err
		}
		keep(err)
	}
	if _, ok := l.commits[0]; ok || len(l.compactions[0]) > 0 {
		s, err := replay(ctx, store, l, nil, target)
		if err == nil {
			return s, nil
		}
		keep(err)
	} else {
		missing := fmt.Errorf("%w: %d: no complete checkpoint before it and no commit 0", ErrVersionNotFound, target)
		if oldest := l.earliest(); oldest > target {
			missing = fmt.Errorf("%w: %d was cleaned up, the log goes from %d to %d", ErrVersionNotFound, target, oldest, l.newest)
		}
		keep(missing)
	}
	return nil, first
}

// replay reads a checkpoint (nil: none) and the commits after it up to target.
func replay(ctx context.Context, store objstore.Store, l *listing, c *checkpoint, target Version) (*state, error) {
	base := Version(-1)
	if c != nil {
		base = c.version
	}
	files, err := l.commitsFrom(base, target)
	if err != nil {
		return nil, err
	}
	commits, err := readCommits(ctx, store, files)
	if err != nil {
		return nil, err
	}
	// The newest protocol decides, and it decides before anything else is interpreted.
	gated := false
	for i := len(commits) - 1; i >= 0 && !gated; i-- {
		if p := commits[i].protocol; p != nil {
			if err := checkRead(p); err != nil {
				return nil, err
			}
			gated = true
		}
	}
	s := newState()
	if c != nil {
		if err := s.applyCheckpoint(ctx, store, c, gated); err != nil {
			return nil, err
		}
		s.base = c.version
		s.timestamp = c.files[0].modTime
		s.head = headOf(c.files[0], [sha256.Size]byte{})
		if f, ok := l.commits[c.version]; ok {
			s.timestamp = f.modTime
			s.head = headOf(f, [sha256.Size]byte{})
		}
	}
	for i, a := range commits {
		if err := s.applyFile(files[i], a); err != nil {
			return nil, err
		}
		commits[i] = nil
	}
	if err := s.complete(); err != nil {
		return nil, err
	}
	if c != nil && len(files) == 0 {
		if err := s.readTimestamp(ctx, store, l.commits[c.version]); err != nil {
			return nil, err
		}
	}
	s.compact()
	return s, nil
}

// readTimestamp gets the in-commit timestamp of the version that the checkpoint stands for: checkpoints hold none.
func (s *state) readTimestamp(ctx context.Context, store objstore.Store, f logFile) error {
	if f.key == "" || !isOn(s.metadata.Configuration, ictSetting) {
		return nil
	}
	commits, err := readCommits(ctx, store, []logFile{f})
	if err != nil {
		return err
	}
	s.stamp(f, commits[0].info)
	return nil
}

// applyFile replays one commit or compaction.
func (s *state) applyFile(f logFile, a *actions) error {
	v := f.version
	if f.kind == kindCompacted {
		v = f.end
	}
	if err := a.checkDuplicates(); err != nil {
		return &CorruptError{File: f.key, Err: err}
	}
	if err := s.apply(v, a, false); err != nil {
		return &CorruptError{File: f.key, Err: err}
	}
	s.stamp(f, a.info)
	s.head = headOf(f, a.sum)
	return nil
}

func (s *state) stamp(f logFile, info *CommitInfo) {
	s.timestamp, s.ict = f.modTime, 0
	if info == nil {
		return
	}
	if info.InCommitTimestamp != nil && s.metadata != nil && isOn(s.metadata.Configuration, ictSetting) {
		s.timestamp, s.ict = *info.InCommitTimestamp, *info.InCommitTimestamp
	} else if s.timestamp <= 0 {
		s.timestamp = info.Timestamp
	}
}

// complete checks that the log gave what every table has.
func (s *state) complete() error {
	if s.protocol == nil {
		return &CorruptError{File: logDir, Err: errors.New("the log has no protocol action")}
	}
	if s.metadata == nil {
		return &CorruptError{File: logDir, Err: errors.New("the log has no metaData action")}
	}
	return checkRead(s.protocol)
}

// readCommits fetches and parses files in parallel, keeping their order.
func readCommits(ctx context.Context, store objstore.Store, files []logFile) ([]*actions, error) {
	out := make([]*actions, len(files))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchParallel)
	for i, f := range files {
		g.Go(func() error {
			b, err := store.Get(ctx, f.key)
			if err != nil {
				return fmt.Errorf("read commit %s: %w", f.key, err)
			}
			a, err := parseCommit(b, f.key)
			if err != nil {
				return err
			}
			if a.info != nil {
				a.info.Version = f.version
			}
			if i == len(files)-1 {
				a.sum = sha256.Sum256(b)
			}
			out[i] = a
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
