package wire

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// Topics of the server.
const (
	OffsetsTopic      = broker.OffsetsTopic
	TransactionsTopic = broker.TransactionsTopic
	SettingsTopic     = broker.SettingsTopic
	ShareTopic        = broker.ShareTopic
)

var errUnknownTopicID = errors.New("unknown topic id")

func internalTopic(name string) bool { return broker.State(name) }

// unknownAge is how long a name or id that was not there is not looked up again: a request with many of them
// would else read all topics for each.
const unknownAge = 10 * time.Millisecond

// topicCache maps names and ids of topics. Others may make and delete topics in the same Log: what is known
// is believed for maxAge, what is unknown for unknownAge. The server's own changes are seen at once.
type topicCache struct {
	log    broker.Log
	maxAge time.Duration

	mu     sync.Mutex
	read   time.Time
	byName map[string]broker.TopicInfo
	byID   map[[16]byte]string
}

func (t *topicCache) refresh(ctx context.Context) error {
	infos, err := t.log.Topics(ctx)
	if err != nil {
		return err
	}
	t.byName = make(map[string]broker.TopicInfo, len(infos))
	t.byID = make(map[[16]byte]string, len(infos))
	for _, in := range infos {
		t.byName[in.Name] = in
		t.byID[in.ID] = in.Name
	}
	t.read = time.Now()
	return nil
}

// invalidate makes the next look-up ask the Log.
func (t *topicCache) invalidate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = time.Time{}
}

// fresh says whether what was read last still answers for a name or id that was, or was not, among it.
func (t *topicCache) fresh(known bool) bool {
	age := t.maxAge
	if !known {
		age = unknownAge
	}
	return time.Since(t.read) < age
}

func (t *topicCache) get(ctx context.Context, name string) (broker.TopicInfo, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in, ok := t.byName[name]
	if !t.fresh(ok) {
		if err := t.refresh(ctx); err != nil {
			return broker.TopicInfo{}, err
		}
		in, ok = t.byName[name]
	}
	if !ok {
		return broker.TopicInfo{}, broker.ErrUnknownTopic
	}
	return in, nil
}

// name gives the name of a topic id, false when there is none.
func (t *topicCache) name(ctx context.Context, id [16]byte) (string, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.byID[id]
	if !t.fresh(ok) {
		if err := t.refresh(ctx); err != nil {
			return "", false, err
		}
		name, ok = t.byID[id]
	}
	return name, ok, nil
}

func (t *topicCache) all(ctx context.Context) (map[string]broker.TopicInfo, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.fresh(true) {
		if err := t.refresh(ctx); err != nil {
			return nil, err
		}
	}
	return t.byName, nil // replaced as a whole, never changed
}

// resolve gives the topic's name from a request that carries names or, from some version on, ids.
func (s *Server) resolve(ctx context.Context, name string, id [16]byte, byID bool) (string, error) {
	if !byID {
		return name, nil
	}
	n, ok, err := s.topics.name(ctx, id)
	if err == nil && !ok {
		err = errUnknownTopicID
	}
	return n, err
}

// checkPartition says whether a partition exists, for requests that the Log itself does not see. Its error is
// ErrUnknownTopic when it does not, and that of the Log when nobody knows.
func (s *Server) checkPartition(ctx context.Context, tp record.TopicPartition) error {
	in, err := s.topics.get(ctx, tp.Topic)
	if err == nil && (tp.Partition < 0 || tp.Partition >= in.Config.Partitions) {
		err = broker.ErrUnknownTopic
	}
	return err
}
