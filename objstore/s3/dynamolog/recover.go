package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// fixTries bounds the attempts to finish another writer's commit.
const fixTries = 4

// fix finishes a commit that its writer left, or is about to finish itself.
func (s *Store) fix(ctx context.Context, e Entry) error {
	var err error
	for try := range fixTries {
		if try > 0 {
			var ok bool
			if err := pause(ctx, time.Duration(try)*50*time.Millisecond); err != nil {
				return err
			}
			var getErr error
			if e, ok, getErr = s.lock.Get(ctx, s.cfg.TablePath, e.File); getErr != nil {
				return fmt.Errorf("recover %s: %w", e.File, known(getErr))
			}
			if !ok || e.Complete {
				return nil // finished, or taken back by its writer
			}
		}
		if err = s.fixOnce(ctx, e); err == nil || errors.Is(err, ErrMixedWriters) {
			// Complete only saves others the work: without it, as with a reader that may not write to the
			// lock table, the version is there all the same.
			_ = s.complete(ctx, e)
			break
		}
	}
	if err != nil {
		return fmt.Errorf("recover %s, which another writer left incomplete: %w", e.File, known(err))
	}
	return nil
}

func (s *Store) fixOnce(ctx context.Context, e Entry) error {
	data, err := s.Store.Get(ctx, logDir+e.Temp)
	if err == nil {
		return s.publish(ctx, e, data)
	}
	if !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	// delta-rs moves the temporary file, and we remove it, after the version is there.
	_, err = s.Store.Head(ctx, e.key())
	if errors.Is(err, objstore.ErrNotFound) {
		return ErrLostVersion
	}
	return err
}

// fixLatest finishes the newest version, if its writer did not. Older ones were finished by their successor.
func (s *Store) fixLatest(ctx context.Context) error {
	e, ok, err := s.lock.Latest(ctx, s.cfg.TablePath)
	if err != nil {
		return err
	}
	if ok && !e.Complete {
		return s.fix(ctx, e)
	}
	return nil
}

// again says whether a read that found nothing should be repeated, since the lock table has the version.
func (s *Store) again(ctx context.Context, key string, err error) (bool, error) {
	version, ok := parseKey(key)
	if !ok || !errors.Is(err, objstore.ErrNotFound) {
		return false, err
	}
	e, ok, getErr := s.lock.Get(ctx, s.cfg.TablePath, fileName(version))
	if getErr != nil {
		return false, fmt.Errorf("read %s: %w", key, getErr)
	}
	if !ok {
		return false, err
	}
	if !e.Complete {
		if err := s.fix(ctx, e); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Get reads the whole object.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	b, err := s.Store.Get(ctx, key)
	if err == nil {
		return b, nil
	}
	if more, err := s.again(ctx, key, err); !more {
		return nil, err
	}
	return s.Store.Get(ctx, key)
}

// GetRange reads length bytes at off.
func (s *Store) GetRange(ctx context.Context, key string, off, length int64) ([]byte, error) {
	b, err := s.Store.GetRange(ctx, key, off, length)
	if err == nil {
		return b, nil
	}
	if more, err := s.again(ctx, key, err); !more {
		return nil, err
	}
	return s.Store.GetRange(ctx, key, off, length)
}

// Head describes the object.
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	info, err := s.Store.Head(ctx, key)
	if err == nil {
		return info, nil
	}
	if more, err := s.again(ctx, key, err); !more {
		return objstore.Info{}, err
	}
	return s.Store.Head(ctx, key)
}

// List lists objects; before those of the log, the newest version is finished if its writer did not do so.
func (s *Store) List(ctx context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Info, error] {
	if !strings.HasPrefix(opts.Prefix, logDir) && !strings.HasPrefix(logDir, opts.Prefix) {
		return s.Store.List(ctx, opts)
	}
	return func(yield func(objstore.Info, error) bool) {
		if err := s.fixLatest(ctx); err != nil {
			yield(objstore.Info{}, fmt.Errorf("list %s: %w", opts.Prefix, err))
			return
		}
		for info, err := range s.Store.List(ctx, opts) {
			if !yield(info, err) {
				return
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d/2 + rand.N(d)):
		return nil
	}
}
