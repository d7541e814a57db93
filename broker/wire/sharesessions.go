package wire

import (
	"context"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	maxShareSessions   = 10_000
	maxSharePartitions = 16_384 // of one session, and of one request that acknowledges

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
	f.remove(s, forgotten)
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
			if len(s.parts) >= maxSharePartitions || !f.kept.take(sharePartCost) {
				return false
			}
			s.weight += sharePartCost
			s.told[k], s.parts = false, append(s.parts, k)
		}
	}
	return true
}

func (f *shareSessions) remove(s *shareSession, forgotten []kmsg.ShareFetchRequestForgottenTopicsData) {
	for _, t := range forgotten {
		for _, p := range t.Partitions {
			delete(s.told, shareKey{t.TopicID, p})
		}
	}
	if less := int64(sharePartCost * (len(s.parts) - len(s.told))); less > 0 { // walked once, however many it forgets
		s.parts = slices.DeleteFunc(s.parts, func(k shareKey) bool { _, has := s.told[k]; return !has })
		s.weight -= less
		f.kept.add(-less)
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

// untold gives the partitions that have to be in the answer though there is nothing to say of them: they are new in the
// session, or had an error.
func (f *shareSessions) untold(s *shareSession) (out []shareKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range s.parts {
		if !s.told[k] {
			out = append(out, k)
		}
	}
	return out
}

// tell remembers what an answer says of the partitions of a session.
func (f *shareSessions) tell(s *shareSession, a *shareAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, p := range a.at {
		if _, has := s.told[k]; has {
			s.told[k] = p.ErrorCode == codeNone
		}
	}
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
