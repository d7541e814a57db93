package wire

import (
	"container/list"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Epochs of a Fetch request with a meaning of their own (KIP-227).
const (
	epochNoSession  = -1
	epochNewSession = 0
)

const (
	maxFetchSessions = 10_000
	sessionRest      = 2 * time.Minute // a session that was used so lately does not make room for a new one
)

// fetchSessions remembers what consumers read, so that they need to say, and are told, only what has changed. The
// sessions that there is no room for, by their number and memory, are not made: their consumers go on without.
type fetchSessions struct {
	kept *held
	now  func() time.Time

	mu   sync.Mutex
	byID map[int32]*fetchSession
	used *list.List // of *fetchSession, the one that was not used for longest in front
}

// fetchSession is one of them. The lock of the cache guards it.
type fetchSession struct {
	id        int32
	principal string
	byIDs     bool  // topics are named by their ids
	epoch     int32 // of the next request
	parts     map[sessionKey]*sessionPart
	order     []sessionKey // in which partitions are read: those that gave something last are last
	weight    int64
	last      time.Time
	at        *list.Element
}

type sessionKey struct {
	topic     string
	id        [16]byte
	partition int32
}

// sessionPart is what the consumer asks for, and what it was told of a partition last.
type sessionPart struct {
	asked      kmsg.FetchRequestTopicPartition
	high, from int64
}

func newFetchSessions(kept *held) *fetchSessions {
	return &fetchSessions{kept: kept, now: time.Now, byID: map[int32]*fetchSession{}, used: list.New()}
}

func partCost(k sessionKey) int64 { return int64(320 + len(k.topic)) }

// begin finds the session that a request is of, or makes one, and completes the request by what the session knows. The
// session is nil when there is none.
func (f *fetchSessions) begin(r *request, req *kmsg.FetchRequest) (s *fetchSession, incremental bool, code int16) {
	if r.version < 7 {
		return nil, false, codeNone
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.byID[req.SessionID]
	if old != nil && old.principal != r.proof.principal {
		old = nil
	}
	switch {
	case req.SessionEpoch == epochNoSession || req.SessionEpoch == epochNewSession:
		if old != nil {
			f.drop(old)
		}
		if req.SessionEpoch == epochNoSession {
			return nil, false, codeNone
		}
		return f.open(r, req), false, codeNone
	case old == nil:
		return nil, true, codeFetchSessionNotFound
	case old.byIDs != (r.version >= 13):
		return nil, true, codeFetchSessionTopicID
	case old.epoch != req.SessionEpoch:
		return nil, true, codeInvalidFetchSessionEpoch
	}
	if !f.update(old, req) {
		f.drop(old) // no memory for what is new in it: the consumer asks for all anew, and goes on without
		return nil, true, codeFetchSessionNotFound
	}
	if len(old.parts) == 0 {
		f.drop(old)
		req.Topics = nil
		return nil, true, codeNone
	}
	if old.epoch++; old.epoch < 0 {
		old.epoch = 1
	}
	old.last = f.now()
	f.used.MoveToBack(old.at)
	req.Topics = old.topics()
	return old, true, codeNone
}

// open makes a session of a full request, nil when there is no room for it.
func (f *fetchSessions) open(r *request, req *kmsg.FetchRequest) *fetchSession {
	if len(req.Topics) == 0 {
		return nil
	}
	s := &fetchSession{principal: r.proof.principal, byIDs: r.version >= 13, epoch: 1, parts: map[sessionKey]*sessionPart{}, last: f.now()}
	for !f.update(s, req) || len(f.byID) >= maxFetchSessions {
		front := f.used.Front()
		if front == nil || f.now().Sub(front.Value.(*fetchSession).last) < sessionRest {
			f.kept.add(-s.weight)
			return nil
		}
		f.drop(front.Value.(*fetchSession))
	}
	for s.id == 0 || f.byID[s.id] != nil {
		s.id = rand.Int32()
	}
	f.byID[s.id] = s
	s.at = f.used.PushBack(s)
	return s
}

func (f *fetchSessions) drop(s *fetchSession) {
	if f.byID[s.id] == s {
		delete(f.byID, s.id)
		f.used.Remove(s.at)
		f.kept.add(-s.weight)
	}
}

// update takes what a request changes in a session; false, and nothing is changed, when there is no memory for it.
func (f *fetchSessions) update(s *fetchSession, req *kmsg.FetchRequest) bool {
	var more int64
	seen := map[sessionKey]bool{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if k := (sessionKey{t.Topic, t.TopicID, p.Partition}); s.parts[k] == nil && !seen[k] {
				seen[k], more = true, more+partCost(k)
			}
		}
	}
	if !f.kept.take(more) {
		return false
	}
	s.weight += more
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			k := sessionKey{t.Topic, t.TopicID, p.Partition}
			if had := s.parts[k]; had != nil {
				had.asked = p
				continue
			}
			s.parts[k] = &sessionPart{asked: p, high: -1, from: -1}
			s.order = append(s.order, k)
		}
	}
	for _, t := range req.ForgottenTopics {
		for _, p := range t.Partitions {
			k := sessionKey{t.Topic, t.TopicID, p}
			if s.parts[k] != nil {
				delete(s.parts, k)
				s.weight -= partCost(k)
				f.kept.add(-partCost(k))
			}
		}
	}
	if len(s.order) > len(s.parts) {
		left := s.order[:0]
		for _, k := range s.order {
			if s.parts[k] != nil {
				left = append(left, k)
			}
		}
		s.order = left
	}
	return true
}

// topics gives all partitions of a session as a full request has them, in the session's order.
func (s *fetchSession) topics() (out []kmsg.FetchRequestTopic) {
	for _, k := range s.order {
		if n := len(out); n == 0 || out[n-1].Topic != k.topic || out[n-1].TopicID != k.id {
			out = append(out, kmsg.FetchRequestTopic{Topic: k.topic, TopicID: k.id})
		}
		t := &out[len(out)-1]
		t.Partitions = append(t.Partitions, s.parts[k].asked)
	}
	return out
}

// finish notes what a consumer is told, and leaves out of an incremental answer what it knows already.
func (f *fetchSessions) finish(s *fetchSession, incremental bool, resp *kmsg.FetchResponse, in files) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp.SessionID = s.id
	gave := map[sessionKey]bool{}
	topics := resp.Topics[:0]
	for _, t := range resp.Topics {
		parts := t.Partitions[:0]
		for _, p := range t.Partitions {
			k := sessionKey{t.Topic, t.TopicID, p.Partition}
			had := s.parts[k]
			if had == nil { // forgotten by a request that overtook this one
				continue
			}
			gives := in.batchBytes(&t, &p) > 0
			news := p.ErrorCode != codeNone || gives || p.HighWatermark != had.high || p.LogStartOffset != had.from
			if had.high, had.from = p.HighWatermark, p.LogStartOffset; p.ErrorCode != codeNone {
				had.high = -1 // so that its end is told
			}
			if gave[k] = gives; news || !incremental {
				parts = append(parts, p)
			}
		}
		if t.Partitions = parts; len(parts) > 0 {
			topics = append(topics, t)
		}
	}
	resp.Topics = topics
	s.rotate(gave)
}

// rotate puts the partitions that gave something behind the others, so that all have their turn where an answer has
// no room for all.
func (s *fetchSession) rotate(gave map[sessionKey]bool) {
	next := make([]sessionKey, 0, len(s.order))
	for _, want := range []bool{false, true} {
		for _, k := range s.order {
			if gave[k] == want {
				next = append(next, k)
			}
		}
	}
	s.order = next
}
