package deltalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/ledgerlake/ledgerlake/objstore"
)

const fetchParallel = 8

// load builds the state at target, or at the newest version when target is negative.
func load(ctx context.Context, store objstore.Store, target Version, light bool) (*state, error) {
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
		if s, err := loadFrom(ctx, store, l, target, light); err == nil {
			return s, nil
		} else if ctx.Err() != nil {
			return nil, err
		}
	}
	l, err := list(ctx, store, 0)
	if err != nil {
		return nil, err
	}
	return loadFrom(ctx, store, l, target, light)
}

// loadFrom tries the checkpoints of a listing, newest first, and then the commits from version 0.
func loadFrom(ctx context.Context, store objstore.Store, l *listing, target Version, light bool) (*state, error) {
	if l.newest < 0 {
		return nil, ErrNotTable
	}
	if target < 0 {
		target = l.newest
	}
	if target > l.newest {
		return nil, fmt.Errorf("%w: there is no version %d: the newest is %d", ErrVersionNotFound, target, l.newest)
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
		s, err := replayFrom(ctx, store, l, &c, target, light)
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
		s, err := replayFrom(ctx, store, l, nil, target, light)
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

// replayFrom reads a checkpoint (nil: none) and the commits after it up to target.
func replayFrom(ctx context.Context, store objstore.Store, l *listing, c *checkpoint, target Version, light bool) (*state, error) {
	base := Version(-1)
	if c != nil {
		base = c.version
	}
	files, err := l.commitsFrom(base, target)
	if err != nil {
		return nil, err
	}
	s := newState(light)
	if c != nil {
		err = s.applyCheckpoint(ctx, store, c)
		s.base = c.version
		f := c.files[0]
		if commit, ok := l.commits[c.version]; ok {
			f = commit
		}
		s.timestamp, s.head = f.modTime, headOf(f, [sha256.Size]byte{})
	}
	if err == nil {
		err = s.replay(ctx, store, files, nil)
	}
	if err != nil {
		return nil, refusal(ctx, store, s, c, files, err)
	}
	if err := s.complete(); err != nil {
		return nil, err
	}
	if c != nil && len(files) == 0 {
		if err := s.readTimestamp(ctx, store, l.commits[c.version]); err != nil {
			return nil, err
		}
	}
	return s, s.compact()
}

// refusal gives the error to report for a replay that failed: when the newest protocol asks for what this package
// does not have, then that is why, whatever failed first.
func refusal(ctx context.Context, store objstore.Store, s *state, c *checkpoint, files []logFile, err error) error {
	if ctx.Err() != nil {
		return err
	}
	p := newestProtocol(ctx, store, files)
	if p == nil && c != nil {
		only := newState(true)
		if only.applyCheckpoint(ctx, store, c) == nil {
			p = only.protocol
		}
	}
	if p == nil {
		p = s.protocol
	}
	if p != nil {
		if refused := checkRead(p); refused != nil {
			return refused
		}
	}
	return err
}

// readTimestamp gets the in-commit timestamp of the version that the checkpoint stands for: checkpoints hold none.
func (s *state) readTimestamp(ctx context.Context, store objstore.Store, f logFile) error {
	if f.key == "" || !isOn(s.metadata.Configuration, ictSetting) {
		return nil
	}
	info, err := readInfo(ctx, store, f)
	if err != nil {
		return err
	}
	s.stamp(f, info)
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
	if f := s.metadata.Format.Provider; f != "" && !strings.EqualFold(f, "parquet") {
		return unsupported(false, []string{"data files of format " + f})
	}
	return checkRead(s.protocol)
}
