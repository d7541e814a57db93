package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// topicMeta is what the cluster said of a topic. It is not changed after it was stored.
type topicMeta struct {
	id      [16]byte
	leaders map[int32]int32 // by partition; < 0: no leader now
	err     error           // the topic cannot be read
	at      time.Time
}

func (t *topicMeta) partitions() []int32 { return slices.Sorted(maps.Keys(t.leaders)) }

// metadata caches topics and remembers the id that each had first.
type metadata struct {
	mu     sync.Mutex
	topics map[string]*topicMeta
	bound  map[string][16]byte
}

func (m *metadata) init() {
	m.topics = make(map[string]*topicMeta)
	m.bound = make(map[string][16]byte)
}

func (m *metadata) get(topic string) *topicMeta {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.topics[topic]; t != nil {
		return t
	}
	return &topicMeta{err: transient(fmt.Errorf("topic %s: %w", topic, errNoMetadata))}
}

var errNoMetadata = errors.New("the cluster has not described the topic")

func (m *metadata) fresh(topic string, maxAge time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.topics[topic]
	return t != nil && t.err == nil && time.Since(t.at) < maxAge
}

// put stores an answer; it binds the topic's id the first time.
func (m *metadata) put(topic string, t *topicMeta, grace time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known := m.bound[topic]
	switch {
	case t.err == nil && !known:
		m.bound[topic] = t.id
	case t.err == nil && was != t.id:
		t.err = &RecreatedError{Topic: topic, Was: was, Is: t.id}
	case known && errors.Is(t.err, broker.ErrUnknownTopic):
		t.err = &transientError{err: t.err, grace: grace}
	}
	m.topics[topic] = t
}

func (m *metadata) forget(topic string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.topics, topic)
	delete(m.bound, topic)
}

// refresh asks the cluster for topics, all in one request.
func (s *Source) refresh(ctx context.Context, topics ...string) error {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	kresp, err := s.cl.Request(ctx, req)
	if err != nil {
		return fromRequest(ctx, fmt.Errorf("ask for metadata: %w", err))
	}
	resp, ok := kresp.(*kmsg.MetadataResponse)
	if !ok {
		return fmt.Errorf("ask for metadata: answer of type %T", kresp)
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic != nil {
			s.meta.put(*t.Topic, readTopic(t), s.cfg.unknownGraceFor)
		}
	}
	return nil
}

func readTopic(t *kmsg.MetadataResponseTopic) *topicMeta {
	m := &topicMeta{id: t.TopicID, at: time.Now()}
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case err == nil:
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		m.err = fmt.Errorf("topic %s: %w", *t.Topic, broker.ErrUnknownTopic)
		return m
	default:
		m.err = fmt.Errorf("topic %s: %w", *t.Topic, fromCode(t.ErrorCode))
		return m
	}
	m.leaders = make(map[int32]int32, len(t.Partitions))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		m.leaders[p.Partition] = p.Leader
	}
	return m
}

// leader looks a partition up in the cache.
func (s *Source) leader(tp record.TopicPartition) (int32, [16]byte, error) {
	t := s.meta.get(tp.Topic)
	if t.err != nil {
		return -1, t.id, t.err
	}
	l, ok := t.leaders[tp.Partition]
	if !ok {
		return -1, t.id, fmt.Errorf("partition %s: %w", tp, broker.ErrUnknownTopic)
	}
	if l < 0 {
		return -1, t.id, transient(fmt.Errorf("partition %s has no leader: %w", tp, kerr.LeaderNotAvailable))
	}
	return l, t.id, nil
}

// learn makes sure that the cache can answer for topics: those that are missing, old or, with all, every one.
func (s *Source) learn(ctx context.Context, topics []string, all bool) error {
	var ask []string
	for _, t := range topics {
		if !slices.Contains(ask, t) && (all || !s.meta.fresh(t, s.cfg.MetadataMaxAge)) {
			ask = append(ask, t)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	return s.refresh(ctx, ask...)
}
