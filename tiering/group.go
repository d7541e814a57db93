package tiering

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ledgerlake/ledgerlake/broker"
)

// Assign adds partitions, in a Tierer with Config.Manual. It waits for those that are still being revoked.
func (t *Tierer) Assign(ctx context.Context, partitions []int32) {
	for _, p := range partitions {
		for {
			t.mu.Lock()
			old := t.assigned[p]
			if old == nil {
				t.assigned[p] = &assignment{released: make(chan struct{})}
			}
			t.mu.Unlock()
			if old == nil || !old.revoking {
				break
			}
			select {
			case <-old.released:
				continue
			case <-ctx.Done():
				return
			}
		}
	}
	t.nudge()
}

// Revoke commits what is buffered of the partitions and lets go of them. When ctx ends, or StopTimeout is over,
// before that is done, what is left of them is dropped; the next owner reads it again.
func (t *Tierer) Revoke(ctx context.Context, partitions []int32) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.StopTimeout)
	defer cancel()
	t.mu.Lock()
	var waits []chan struct{}
	for _, p := range partitions {
		if a := t.assigned[p]; a != nil {
			a.revoking = true
			waits = append(waits, a.released)
		}
	}
	running := t.running
	t.mu.Unlock()
	if !running {
		t.releaseRevoked()
		return
	}
	t.nudge()
	for _, done := range waits {
		select {
		case <-done:
		case <-ctx.Done():
			t.Lose(ctx, partitions)
			return
		}
	}
}

// Lose drops partitions and what is buffered of them: another process may own them already. What is buffered
// of the others is read again. A commit that is under way is safe: the table takes a range once.
func (t *Tierer) Lose(_ context.Context, partitions []int32) {
	t.mu.Lock()
	for _, p := range partitions {
		if a := t.assigned[p]; a != nil {
			delete(t.assigned, p)
			close(a.released)
			t.restart = true
		}
	}
	t.mu.Unlock()
	t.nudge()
}

func (t *Tierer) nudge() {
	select {
	case t.poke <- struct{}{}:
	default:
	}
}

// changes compares a session's partitions with the assigned ones.
func (t *Tierer) changes(have map[int32]member) (gone bool, leaving, joining []int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.cfg.Manual {
		return false, nil, nil
	}
	for p, a := range t.assigned {
		m, known := have[p]
		switch {
		case a.revoking && known && !m.leaving:
			leaving = append(leaving, p)
		case a.revoking && !known:
			delete(t.assigned, p)
			close(a.released)
		case !a.revoking && !known:
			joining = append(joining, p)
		}
	}
	return t.restart, leaving, joining
}

// release says that no buffer holds the partition any more.
func (t *Tierer) release(partition int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.assigned[partition]; a != nil && a.revoking {
		delete(t.assigned, partition)
		close(a.released)
	}
}

// releaseRevoked lets go of all revoked partitions: there is no session.
func (t *Tierer) releaseRevoked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, a := range t.assigned {
		if a.revoking {
			delete(t.assigned, p)
			close(a.released)
		}
	}
}

// reconcile follows what Assign, Revoke and Lose have asked for.
func (s *session) reconcile(ctx context.Context) error {
	gone, leaving, joining := s.t.changes(s.parts)
	if gone {
		return errRestart
	}
	for _, p := range leaving {
		m := s.parts[p]
		m.leaving = true
		s.parts[p] = m
		s.fetch.remove(p)
		delete(s.backlog, p) // nobody waits for it any more
		s.want = true
	}
	return s.joinNew(ctx, joining)
}

func (s *session) joinNew(ctx context.Context, parts []int32) error {
	if len(parts) == 0 {
		return nil
	}
	snap, err := s.t.cfg.Table.Log.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	for _, p := range parts {
		if err := s.join(ctx, p, snap); err != nil {
			return err
		}
	}
	return nil
}

// addNew looks for partitions that were added to the topic.
func (s *session) addNew(ctx context.Context) error {
	if s.t.cfg.Manual || s.t.cfg.Partitions != nil || s.t.cfg.UntilEnd {
		return nil
	}
	all, err := s.t.cfg.Source.Partitions(ctx, s.t.cfg.Topic)
	if errors.Is(err, broker.ErrUnknownTopic) {
		return fmt.Errorf("topic %s: %w", s.t.cfg.Topic, err)
	}
	if err != nil {
		return nil //nolint:nilerr // the next look may do better, and what is known goes on
	}
	return s.joinNew(ctx, slices.DeleteFunc(all, func(p int32) bool { _, known := s.parts[p]; return known }))
}
