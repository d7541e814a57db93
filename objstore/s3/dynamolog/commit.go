package dynamolog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/s3"
)

// PutIfAbsent publishes data unless key exists; a version of the table by way of the lock table.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	version, ok := parseKey(key)
	if !ok {
		return s.Store.PutIfAbsent(ctx, key, data)
	}
	if err := s.commit(ctx, version, data); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

func (s *Store) commit(ctx context.Context, version int64, data []byte) error {
	if err := s.claim(ctx); err != nil {
		return err
	}
	file := fileName(version)
	if _, err := s.Store.Head(ctx, logDir+file); err == nil {
		return objstore.ErrExists
	} else if !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	if err := s.checkBefore(ctx, version); err != nil {
		return err
	}
	e := Entry{File: file, Temp: ".tmp/" + file + "." + uuid.NewString()}
	if err := s.Store.Put(ctx, logDir+e.Temp, data); err != nil {
		return known(err) // without an entry it is nothing, whatever became of it
	}
	if err := s.reserve(ctx, e); err != nil {
		if !errors.Is(err, objstore.ErrUnknownOutcome) {
			s.dropTemp(ctx, e)
		}
		return err
	}
	return s.settle(ctx, e, data)
}

// checkBefore makes sure that the version before this one is in the store, so that no gap is made.
func (s *Store) checkBefore(ctx context.Context, version int64) error {
	if version == 0 {
		return s.checkFirst(ctx)
	}
	file := fileName(version - 1)
	e, ok, err := s.lock.Get(ctx, s.cfg.TablePath, file)
	if err != nil {
		return known(err)
	}
	if ok && !e.Complete {
		return s.fix(ctx, e)
	}
	info, err := s.Store.Head(ctx, logDir+file)
	if errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("the version before it, %s, is not in the store, so this one would leave a gap", file)
	}
	if err != nil || ok || s.cfg.Now().Sub(info.ModTime) >= s.cfg.TTL {
		return err
	}
	// It is too young to have expired from the lock table. Either the table was not under the lock then, or...
	latest, ok, err := s.lock.Latest(ctx, s.cfg.TablePath)
	if err != nil {
		return known(err)
	}
	if ok && latest.File < file {
		return fmt.Errorf("%s is in the store, while the lock table %s ends with %s: %w", file, s.lock.Name(), latest.File, ErrMixedWriters)
	}
	return nil
}

func (s *Store) checkFirst(ctx context.Context) error {
	e, ok, err := s.lock.Get(ctx, s.cfg.TablePath, fileName(0))
	if err != nil || !ok {
		return known(err)
	}
	if e.Complete {
		return fmt.Errorf("%w: %s in %s", ErrStaleEntries, s.cfg.TablePath, s.lock.Name())
	}
	if err := s.fix(ctx, e); err != nil {
		return err
	}
	return objstore.ErrExists
}

// reserve adds the entry: the commit point. An answer that was lost is read back.
func (s *Store) reserve(ctx context.Context, e Entry) error {
	err := s.lock.Add(ctx, s.cfg.TablePath, e)
	taken, unknown := errors.Is(err, ErrTaken), errors.Is(err, objstore.ErrUnknownOutcome)
	if err == nil || !taken && !unknown {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Settle)
	defer cancel()
	got, ok, getErr := s.lock.Get(ctx, s.cfg.TablePath, e.File)
	switch {
	case getErr == nil && ok && got.Temp == e.Temp:
		return nil
	case taken, getErr == nil && ok:
		return objstore.ErrExists
	}
	return errors.Join(err, getErr)
}

// settle does what follows the commit point. Its failures are no failures of the commit: whoever comes next
// finishes the work.
func (s *Store) settle(ctx context.Context, e Entry, data []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Settle)
	defer cancel()
	err := s.publish(ctx, e, data)
	if errors.Is(err, ErrMixedWriters) {
		_ = s.complete(ctx, e) // the version is decided, against us
		return err
	}
	if err == nil && s.complete(ctx, e) == nil {
		s.dropTemp(ctx, e)
	}
	return nil
}

// publish makes the version's file. Whoever does it for the same entry writes the same content.
func (s *Store) publish(ctx context.Context, e Entry, data []byte) error {
	err := s.Store.PutIfAbsent(ctx, e.key(), data)
	if errors.Is(err, s3.ErrNoConditionalPut) { // the lock table alone must do, as it does for Spark
		if _, err = s.Store.Head(ctx, e.key()); errors.Is(err, objstore.ErrNotFound) {
			return s.Store.Put(ctx, e.key(), data)
		} else if err == nil {
			err = objstore.ErrExists
		}
	}
	if !errors.Is(err, objstore.ErrExists) && !errors.Is(err, objstore.ErrUnknownOutcome) {
		return err
	}
	got, getErr := s.Store.Get(ctx, e.key())
	switch {
	case getErr != nil:
		return errors.Join(err, getErr)
	case !bytes.Equal(got, data):
		return fmt.Errorf("%s has other content than its entry in %s points to: %w", e.File, s.lock.Name(), ErrMixedWriters)
	}
	return nil
}

func (s *Store) complete(ctx context.Context, e Entry) error {
	e.Complete, e.Expire = true, s.cfg.Now().Add(s.cfg.TTL)
	return s.lock.Complete(ctx, s.cfg.TablePath, e)
}

// dropTemp removes a temporary file that no one needs any more. One that stays is hidden and harmless.
func (s *Store) dropTemp(ctx context.Context, e Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Settle)
	defer cancel()
	_ = s.Store.Delete(ctx, logDir+e.Temp)
}

// known hides ErrUnknownOutcome of a request before the commit point.
func known(err error) error {
	if errors.Is(err, objstore.ErrUnknownOutcome) {
		return errors.New(err.Error())
	}
	return err
}
