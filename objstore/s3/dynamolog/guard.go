package dynamolog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/s3"
)

// markKey holds the mark of a table under a lock table. Other engines pass over names that begin with a dot.
const markKey = logDir + ".ledgerlake-log-store"

// mark says which lock table orders the versions.
type mark struct {
	LogStore  string `json:"logStore"` // "dynamodb"
	LockTable string `json:"lockTable"`
	TablePath string `json:"tablePath"`
}

func readMark(ctx context.Context, store objstore.Store) (m mark, ok bool, err error) {
	b, err := store.Get(ctx, markKey)
	if errors.Is(err, objstore.ErrNotFound) {
		return mark{}, false, nil
	}
	if err != nil {
		return mark{}, false, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return mark{}, false, fmt.Errorf("read %s: %w", markKey, err)
	}
	return m, true, nil
}

// claim marks the store, once, and refuses one that another lock table orders.
func (s *Store) claim(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claimed {
		return nil
	}
	ours := mark{LogStore: "dynamodb", LockTable: s.lock.Name(), TablePath: s.cfg.TablePath}
	found, ok, err := readMark(ctx, s.Store)
	if err != nil {
		return err
	}
	if !ok {
		if err := s.checkOtherScheme(ctx); err != nil {
			return err
		}
		if found, err = s.putMark(ctx, ours); err != nil {
			return known(err)
		}
	}
	if found != ours {
		return fmt.Errorf("the table is ordered by the lock table %s as %s, not by %s as %s: %w",
			found.LockTable, found.TablePath, ours.LockTable, ours.TablePath, ErrMixedWriters)
	}
	s.claimed = true
	return nil
}

// putMark marks the store, and gives the mark of whoever was first.
func (s *Store) putMark(ctx context.Context, ours mark) (mark, error) {
	b, err := json.Marshal(ours)
	if err != nil {
		return mark{}, err
	}
	err = s.Store.PutIfAbsent(ctx, markKey, b)
	switch {
	case errors.Is(err, s3.ErrNoConditionalPut):
		return ours, s.Store.Put(ctx, markKey, b)
	case errors.Is(err, objstore.ErrExists), errors.Is(err, objstore.ErrUnknownOutcome):
		found, ok, readErr := readMark(ctx, s.Store)
		if readErr != nil || ok {
			return found, readErr
		}
	}
	return ours, err
}

// checkOtherScheme refuses a table whose entries stand under s3a:// while we say s3://, or the other way.
func (s *Store) checkOtherScheme(ctx context.Context) error {
	scheme, rest, _ := strings.Cut(s.cfg.TablePath, "://")
	other := "s3a://" + rest
	if scheme == "s3a" {
		other = "s3://" + rest
	}
	e, ok, err := s.lock.Latest(ctx, other)
	if err != nil {
		return known(err)
	}
	if ok {
		return fmt.Errorf("the lock table %s has %s of this table as %s: open it by that URL: %w", s.lock.Name(), e.File, other, ErrMixedWriters)
	}
	return nil
}

// Guard gives store without a lock table, refusing to commit versions of a table that has one.
func Guard(store objstore.Store) objstore.Store { return &guarded{Store: store} }

type guarded struct {
	objstore.Store
	mu   sync.Mutex
	free bool // no lock table was seen
}

func (g *guarded) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if _, ok := parseKey(key); ok {
		if err := g.check(ctx); err != nil {
			return fmt.Errorf("put %s: %w", key, err)
		}
	}
	return g.Store.PutIfAbsent(ctx, key, data)
}

// check looks for our mark and for the temporary files that Spark leaves, once.
func (g *guarded) check(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free {
		return nil
	}
	m, ok, err := readMark(ctx, g.Store)
	if err != nil {
		return err
	}
	if ok {
		return fmt.Errorf("versions of this table are ordered by the DynamoDB table %s as %s; open it with that lock table: %w",
			m.LockTable, m.TablePath, ErrMixedWriters)
	}
	for info, err := range g.Store.List(ctx, objstore.ListOptions{Prefix: logDir + ".tmp/"}) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%s shows that versions of this table are ordered by a lock table in DynamoDB; open it with that one: %w",
			info.Key, ErrMixedWriters)
	}
	g.free = true
	return nil
}
