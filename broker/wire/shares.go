package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/wire/share"
	"github.com/ledgerlake/ledgerlake/record"
)

// shareKey is a partition that share groups read. A topic made again is another one.
type shareKey struct {
	Topic     uuid.UUID `json:"topic"`
	Partition int32     `json:"partition"`
}

// shareStore keeps what the share groups know of their partitions: in memory, and as records of ShareTopic for the next
// start. What is with a member after it is so still, until its lock runs out.
type shareStore struct {
	topic *stateTopic
	kept  *held

	mu     sync.Mutex // guards what follows
	groups map[string]*shareState
}

// shareState is what one group knows.
type shareState struct {
	parts map[shareKey]*sharePart // guarded by the store
	begun int                     // parts that are on disk
	bell  bell                    // guarded by the store
}

// sharePart is one partition of a group. Its lock is held over an append: the topic has changes in their order.
type sharePart struct {
	mu   sync.Mutex
	p    *share.Partition // nil: nobody has begun. Guarded by the store as well
	gone bool             // forgotten: look it up again
	cost int64
	turn chan struct{} // full while somebody reads the log for it, and will acquire; the others queue
}

// shareRecord is the key of a record of ShareTopic. Its JSON is part of the format: never change, add.
type shareRecord struct {
	Group string `json:"group"`
	shareKey
}

func newShareStore(log broker.Log, kept *held) *shareStore {
	return &shareStore{topic: newStateTopic(log, ShareTopic), kept: kept, groups: map[string]*shareState{}}
}

func (k shareKey) record(group string, p *share.Partition) (r stateRecord, err error) {
	if r.key, err = json.Marshal(shareRecord{group, k}); err == nil && p != nil {
		r.value, err = json.Marshal(p)
	}
	return r, err
}

// load replays the topic.
func (s *shareStore) load(ctx context.Context) error {
	return s.topic.load(ctx, func(rec *record.Record) error {
		var key shareRecord
		if err := json.Unmarshal(rec.Key, &key); err != nil {
			return fmt.Errorf("%s, offset %d: no key of a share partition; a topic of that name from before share groups were built has to be deleted with the build that made it: %w", ShareTopic, rec.Offset, err)
		}
		part := s.part(key.Group, key.shareKey)
		var p *share.Partition
		if rec.Value != nil {
			if err := json.Unmarshal(rec.Value, &p); err != nil {
				return fmt.Errorf("offset %d: %w", rec.Offset, err)
			}
		}
		s.put(key.Group, key.shareKey, part, p)
		return nil
	})
}

// bell gives a context that ends when there is more to give to a group; false when the group knows nothing yet.
func (s *shareStore) bell(group string) (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.groups[group]
	if st == nil {
		return context.Background(), false
	}
	return st.bell.next(), true
}

func (s *shareStore) ring(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.groups[group]; st != nil {
		st.bell.ring()
	}
}

func (s *shareStore) stateLocked(group string) *shareState {
	st := s.groups[group]
	if st == nil {
		st = &shareState{parts: map[shareKey]*sharePart{}}
		s.groups[group] = st
	}
	return st
}

func (s *shareStore) part(group string, k shareKey) *sharePart {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stateLocked(group)
	part := st.parts[k]
	if part == nil {
		part = &sharePart{turn: make(chan struct{}, 1)}
		st.parts[k] = part
	}
	return part
}

func shareCost(group string, p *share.Partition) int64 { return int64(512 + len(group) + 80*p.Runs()) }

// put makes what is durable, or is no change of it, visible. The caller has the lock of the part.
func (s *shareStore) put(group string, k shareKey, part *sharePart, p *share.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stateLocked(group)
	cost := int64(0)
	if p != nil {
		cost = shareCost(group, p)
	}
	switch {
	case p != nil && part.p == nil:
		st.begun++
	case p == nil:
		if part.p != nil {
			st.begun--
		}
		part.gone = true
		if delete(st.parts, k); len(st.parts) == 0 {
			delete(s.groups, group)
		}
	}
	s.kept.add(cost - part.cost)
	part.p, part.cost = p, cost
}

// lock gives a partition with its lock, to be unlocked.
func (s *shareStore) lock(group string, k shareKey) *sharePart {
	for {
		part := s.part(group, k)
		part.mu.Lock()
		if !part.gone {
			return part
		}
		part.mu.Unlock()
	}
}

// find gives a partition that has begun, with its lock, to be unlocked; nil when it has not. It makes none: what clients name
// may be anything.
func (s *shareStore) find(group string, k shareKey) *sharePart {
	for {
		s.mu.Lock()
		var part *sharePart
		if st := s.groups[group]; st != nil {
			part = st.parts[k]
		}
		s.mu.Unlock()
		if part == nil {
			return nil
		}
		part.mu.Lock()
		switch {
		case part.p != nil:
			return part
		case !part.gone:
			part.mu.Unlock()
			return nil
		}
		part.mu.Unlock()
	}
}

// begin makes a partition start at an offset, unless it has begun; anew, it forgets what it knew.
func (s *shareStore) begin(ctx context.Context, group string, k shareKey, anew bool, at func() (record.Offset, error)) error {
	part := s.lock(group, k)
	defer part.mu.Unlock()
	if part.p != nil && !anew {
		return nil
	}
	from, err := at()
	if err == nil {
		p := share.New(from)
		if err = errNoMemory; s.kept.room(shareCost(group, p)) {
			err = s.write(ctx, group, k, part, p)
		}
	}
	if part.p == nil {
		s.put(group, k, part, nil) // nothing is kept of who failed
	}
	return err
}

// write makes a partition durable and then visible.
func (s *shareStore) write(ctx context.Context, group string, k shareKey, part *sharePart, p *share.Partition) error {
	rec, err := k.record(group, p)
	if err == nil {
		err = s.topic.append(ctx, []stateRecord{rec}) // COMMIT POINT
	}
	if err != nil {
		return err
	}
	s.put(group, k, part, p)
	return nil
}

// change changes a partition that has begun: durably, where do changes anything, and not at all after an error; false when it has
// not begun. Locks that have run out are taken back before, which needs no record: the next start would do the same. What has no
// room is refused, unless it leaves fewer records open. Those who wait are told when there is more to give.
func (s *shareStore) change(ctx context.Context, group string, k shareKey, l share.Limits, do func(p *share.Partition, now int64) error) (ok bool, err error) {
	part := s.find(group, k)
	if part == nil {
		return false, nil
	}
	defer part.mu.Unlock()
	now := time.Now().UnixMilli()
	was := part.p.Clone()
	was.Expire(now, l)
	next := was.Clone()
	if err := do(next, now); err != nil {
		return true, err
	}
	if grown := shareCost(group, next) - part.cost; grown > 0 && next.Open() >= was.Open() && !s.kept.room(grown) {
		return true, errNoMemory
	}
	before, could := part.p.Next(l)
	if next.Equal(was) {
		s.put(group, k, part, next)
	} else if err := s.write(ctx, group, k, part, next); err != nil {
		return true, err
	}
	if at, can := next.Next(l); can && (!could || at < before) {
		s.ring(group)
	}
	return true, nil
}

// see looks at a partition that has begun; false when it has not.
func (s *shareStore) see(group string, k shareKey, l share.Limits, look func(*share.Partition)) (ok bool) {
	part := s.find(group, k)
	if part == nil {
		return false
	}
	defer part.mu.Unlock()
	p := part.p.Clone()
	p.Expire(time.Now().UnixMilli(), l)
	look(p)
	return true
}

// turn gives the right to read the log for a partition that has begun: who puts something in has it, until it takes it out.
func (s *shareStore) turn(group string, k shareKey) (chan struct{}, bool) {
	part := s.find(group, k)
	if part == nil {
		return nil, false
	}
	defer part.mu.Unlock()
	return part.turn, true
}

// has says whether a group knows anything.
func (s *shareStore) has(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.groups[group]
	return st != nil && st.begun > 0
}

// names gives the groups that know something, sorted.
func (s *shareStore) names() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, st := range s.groups {
		if st.begun > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// keys gives the partitions that a group has begun.
func (s *shareStore) keys(group string) (out []shareKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.groups[group]; st != nil {
		for k, part := range st.parts {
			if part.p != nil {
				out = append(out, k)
			}
		}
	}
	slices.SortFunc(out, func(a, b shareKey) int {
		if c := slices.Compare(a.Topic[:], b.Topic[:]); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	return out
}

// forget removes what a group knows of the partitions that which names.
func (s *shareStore) forget(ctx context.Context, group string, which func(shareKey) bool) error {
	for _, k := range s.keys(group) {
		if !which(k) {
			continue
		}
		part := s.find(group, k)
		if part == nil {
			continue
		}
		err := s.write(ctx, group, k, part, nil)
		part.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetTopic removes what all groups know of a deleted topic.
func (s *shareStore) forgetTopic(ctx context.Context, id [16]byte) error {
	for _, group := range s.names() {
		if err := s.forget(ctx, group, func(k shareKey) bool { return k.Topic == id }); err != nil {
			return err
		}
	}
	return nil
}

// bell wakes those who wait for something to be given. The zero value is one that nobody waits for.
type bell struct {
	rung context.Context
	pull func()
}

// next gives a context that ends when the bell is rung.
func (b *bell) next() context.Context {
	if b.rung == nil {
		b.rung, b.pull = context.WithCancel(context.Background())
	}
	return b.rung
}

func (b *bell) ring() {
	if b.rung != nil {
		b.pull()
		b.rung = nil
	}
}
