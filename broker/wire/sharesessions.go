package wire

import (
	"context"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	maxShareSessions = 10_000

	epochFinal = -1 // ends a share session
)

// shareSessions remembers which partitions each member of a share group reads. ShareFetch and ShareAcknowledge count one
// epoch. A session ends with its connection.
type shareSessions struct {
	kept *held

	mu sync.Mutex // guards what follows, and the sessions
	by map[shareReader]*shareSession
}

// shareReader is who has a session: a member of a group, whether the group knows it or not.
type shareReader struct{ group, member string }

type shareSession struct {
	conn   context.Context // of the connection that it was used on last
	epoch  int32           // of the next request
	parts  []shareKey
	told   map[shareKey]bool // they stood in an answer without an error
	turn   int               // which of the parts is the first the next time
	weight int64
}

func newShareSessions(kept *held) *shareSessions {
	return &shareSessions{kept: kept, by: map[shareReader]*shareSession{}}
}

// open makes a session anew; one that the reader had is over, and what it has stays with it.
func (f *shareSessions) open(r *request, who shareReader, topics []kmsg.ShareFetchRequestTopic) (*shareSession, int16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(who)
	s := &shareSession{conn: r.ctx, epoch: 1, told: map[shareKey]bool{}, weight: int64(512 + len(who.group) + len(who.member))}
	if len(f.by) >= maxShareSessions || !f.kept.take(s.weight) {
		return nil, codeShareSessionLimit
	}
	f.by[who] = s
	if !f.add(s, topics) {
		f.drop(who)
		return nil, codeShareSessionLimit
	}
	return s, codeNone
}

// next is a further request of a session, which has the epoch that it must have.
func (f *shareSessions) next(r *request, who shareReader, epoch int32, topics []kmsg.ShareFetchRequestTopic, forgotten []kmsg.ShareFetchRequestForgottenTopicsData) (*shareSession, int16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.by[who]
	switch {
	case s == nil:
		return nil, codeShareSessionNotFound
	case s.epoch != epoch:
		return nil, codeInvalidShareSessionEpoch
	case !f.add(s, topics):
		return nil, codeShareSessionLimit
	}
	for _, t := range forgotten {
		for _, p := range t.Partitions {
			f.remove(s, shareKey{t.TopicID, p})
		}
	}
	s.conn = r.ctx
	s.turn++
	if s.epoch++; s.epoch < 0 {
		s.epoch = 1
	}
	return s, codeNone
}

const sharePartCost = 128

func (f *shareSessions) add(s *shareSession, topics []kmsg.ShareFetchRequestTopic) bool {
	for _, t := range topics {
		for _, p := range t.Partitions {
			k := shareKey{t.TopicID, p.Partition}
			if _, has := s.told[k]; has {
				continue
			}
			if !f.kept.take(sharePartCost) {
				return false
			}
			s.weight += sharePartCost
			s.told[k], s.parts = false, append(s.parts, k)
		}
	}
	return true
}

func (f *shareSessions) remove(s *shareSession, k shareKey) {
	if i := slices.Index(s.parts, k); i >= 0 {
		s.parts = slices.Delete(s.parts, i, i+1)
		delete(s.told, k)
		s.weight -= sharePartCost
		f.kept.add(-sharePartCost)
	}
}

// partitions gives those of a session, another one first each time, so that all have their turn.
func (f *shareSessions) partitions(s *shareSession) []shareKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(s.parts) == 0 {
		return nil
	}
	at := s.turn % len(s.parts)
	return slices.Concat(s.parts[at:], s.parts[:at])
}

// news says whether a partition has to be in the answer though there is nothing to say of it: it is new in the session,
// or had an error. ok is what is said of it now.
func (f *shareSessions) news(s *shareSession, k shareKey, ok bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	told, has := s.told[k]
	if has {
		s.told[k] = ok
	}
	return has && !told
}

// end ends the session of a reader and gives its partitions; false when there is none.
func (f *shareSessions) end(who shareReader) ([]shareKey, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.by[who]
	if s == nil {
		return nil, false
	}
	f.drop(who)
	return s.parts, true
}

// of gives the readers whose sessions are on a connection.
func (f *shareSessions) of(conn context.Context) (out []shareReader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for who, s := range f.by {
		if s.conn == conn {
			out = append(out, who)
		}
	}
	return out
}

func (f *shareSessions) drop(who shareReader) {
	if s := f.by[who]; s != nil {
		delete(f.by, who)
		f.kept.add(-s.weight)
	}
}
