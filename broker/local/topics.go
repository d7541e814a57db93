package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync/atomic"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

const (
	topicsFile    = "topics.json"
	topicsVersion = 1
	maxNameLength = 249 // Kafka's
)

// topic is one topic. Its settings may change, and it may get more partitions.
type topic struct {
	name       string
	id         [16]byte
	leaves     leaves
	cfg        atomic.Pointer[topicSettings]
	partitions []*partition // guarded by Log.mu; replaced as a whole
}

func (t *topic) info() broker.TopicInfo {
	c := t.cfg.Load()
	return broker.TopicInfo{Name: t.name, ID: t.id, Config: c.inForce, Own: c.own}
}

// topicsState is the content of topics.json.
type topicsState struct {
	Version  int          `json:"version"`
	Topics   []topicState `json:"topics"`
	Deleting []string     `json:"deleting,omitempty"` // directories of deleted topics, still to be removed
}

type topicState struct {
	Name   string              `json:"name"`
	ID     string              `json:"id"`
	Config broker.TopicConfig  `json:"config"`        // its own over DefaultTopic: what older versions go by
	Own    *broker.TopicConfig `json:"own,omitempty"` // of older versions: not there
}

func (l *Log) newTopic(name string, id [16]byte, own broker.TopicConfig) *topic {
	t := &topic{name: name, id: id, leaves: leavesOf(name)}
	t.set(own, l.defaults)
	for i := range own.Partitions {
		t.partitions = append(t.partitions, newPartition(l, t, i))
	}
	return t
}

// loadTopics reads topics.json; found is false when there is none.
func (l *Log) loadTopics() (found bool, err error) {
	name := path.Join(l.cfg.Dir, topicsFile)
	b, err := vfs.ReadFile(l.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read topics: %w", err)
	}
	state, err := parseTopics(name, b)
	if err != nil {
		return false, err
	}
	for _, s := range state.Topics {
		id, err := parseID(s.ID)
		own := s.own()
		if err == nil {
			err = errors.Join(checkName(s.Name), own.Over(l.defaults).Check())
		}
		if err != nil {
			return false, fmt.Errorf("read %s: topic %q: %w", name, s.Name, err)
		}
		l.topics[s.Name] = l.newTopic(s.Name, id, own)
	}
	l.deleting = state.Deleting
	return true, nil
}

func parseTopics(name string, b []byte) (topicsState, error) {
	var state topicsState
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&state); err != nil {
		return state, fmt.Errorf("read %s: at byte %d: %w", name, d.InputOffset(), err)
	}
	if state.Version != topicsVersion {
		return state, fmt.Errorf("read %s: version %d; this program knows version %d", name, state.Version, topicsVersion)
	}
	return state, nil
}

func parseID(s string) (id [16]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("topic id %q is not 32 hex digits", s)
	}
	return [16]byte(b), nil
}

// saveTopics makes a set of topics durable and then the one that the log has. When it is not known whether the
// disk has it, the log fails: what is acknowledged on the ground of the old set could be lost by the new one at
// the next start (I1).
func (l *Log) saveTopics(topics map[string]topicState, deleting []string) error {
	state := topicsState{Version: topicsVersion, Topics: []topicState{}, Deleting: deleting}
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		state.Topics = append(state.Topics, topics[name])
	}
	b, err := json.MarshalIndent(state, "", " ")
	if err != nil {
		return fmt.Errorf("write topics: %w", err)
	}
	err = l.replaceFile(topicsFile, append(b, '\n'))
	if errors.Is(err, vfs.ErrUnknownOutcome) {
		return l.fail(fmt.Errorf("write topics: %w", err))
	}
	if err != nil {
		return fmt.Errorf("write topics: %w: %w", broker.ErrStorage, err)
	}
	l.deleting = deleting
	return nil
}

// states gives what topics.json says of the topics.
func (l *Log) states() map[string]topicState {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make(map[string]topicState, len(l.topics))
	for name, t := range l.topics {
		out[name] = l.state(t, t.own())
	}
	return out
}

func (l *Log) state(t *topic, own broker.TopicConfig) topicState {
	held := own.Over(l.TopicDefaults())
	held.MinCompactionLag = max(held.MinCompactionLag, 0) // older versions do not know -1
	return topicState{Name: t.name, ID: hex.EncodeToString(t.id[:]), Config: held, Own: &own}
}

// setTopic changes the set of topics in memory; nil takes one out.
func (l *Log) setTopic(name string, t *topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t == nil {
		delete(l.topics, name)
	} else {
		l.topics[name] = t
	}
}

func sortedTopics(topics map[string]*topic) []*topic {
	return slices.SortedFunc(maps.Values(topics), func(a, b *topic) int { return cmp.Compare(a.name, b.name) })
}

// Topics lists the topics by name.
func (l *Log) Topics(context.Context) ([]broker.TopicInfo, error) {
	if l.isClosed() {
		return nil, broker.ErrClosed
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]broker.TopicInfo, 0, len(l.topics))
	for _, t := range sortedTopics(l.topics) {
		out = append(out, t.info())
	}
	return out, nil
}

// TopicID gives the id of a topic.
func (l *Log) TopicID(_ context.Context, name string) ([16]byte, error) {
	if l.isClosed() {
		return [16]byte{}, broker.ErrClosed
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	t := l.topics[name]
	if t == nil {
		return [16]byte{}, fmt.Errorf("topic %s: %w", name, broker.ErrUnknownTopic)
	}
	return t.id, nil
}

// Partitions gives the partition numbers of a topic.
func (l *Log) Partitions(_ context.Context, name string) ([]int32, error) {
	if l.isClosed() {
		return nil, broker.ErrClosed
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	t := l.topics[name]
	if t == nil {
		return nil, fmt.Errorf("topic %s: %w", name, broker.ErrUnknownTopic)
	}
	out := make([]int32, len(t.partitions))
	for i := range out {
		out[i] = int32(i)
	}
	return out, nil
}

// CreateTopic makes a topic durable and gives it a new id.
func (l *Log) CreateTopic(_ context.Context, name string, cfg broker.TopicConfig) (broker.TopicInfo, error) {
	if err := l.enter(); err != nil {
		return broker.TopicInfo{}, err
	}
	defer l.leave()
	l.maintain.Lock()
	defer l.maintain.Unlock()
	own := l.ownConfig(name, cfg)
	if err := errors.Join(checkName(name), own.Over(l.defaults).Check()); err != nil {
		return broker.TopicInfo{}, err
	}
	topics := l.states()
	if _, ok := topics[name]; ok {
		return broker.TopicInfo{}, fmt.Errorf("topic %s: %w", name, broker.ErrTopicExists)
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return broker.TopicInfo{}, fmt.Errorf("make topic id: %w", err)
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // a version 4 UUID, as Kafka's ids are
	t := l.newTopic(name, id, own)
	if err := l.makePartitionDirs(t.partitions); err != nil {
		return broker.TopicInfo{}, fmt.Errorf("create topic %s: %w: %w", name, broker.ErrStorage, err)
	}
	topics[name] = l.state(t, own)
	if err := l.saveTopics(topics, withoutDirs(l.deleting, t.partitions)); err != nil {
		return broker.TopicInfo{}, fmt.Errorf("create topic %s: %w", name, err)
	}
	l.setTopic(name, t)
	return t.info(), nil
}

// withoutDirs gives the names of directories that no partition has.
func withoutDirs(names []string, partitions []*partition) []string {
	return slices.DeleteFunc(slices.Clone(names), func(dir string) bool {
		return slices.ContainsFunc(partitions, func(p *partition) bool { return path.Base(p.dir) == dir })
	})
}

// makePartitionDirs makes the directories of partitions, empty: a deleted topic of the same name may have left files.
func (l *Log) makePartitionDirs(partitions []*partition) error {
	for _, p := range partitions {
		if err := l.fs.RemoveAll(p.dir); err != nil {
			return err
		}
		if err := l.fs.MkdirAll(p.dir); err != nil {
			return err
		}
		if err := l.fs.SyncDir(p.dir); err != nil {
			return err
		}
	}
	return l.fs.SyncDir(l.dataDir)
}

// changing gives a topic that nobody else changes, cleans or removes until done is called.
func (l *Log) changing(name string) (t *topic, done func(), err error) {
	if err := l.enter(); err != nil {
		return nil, nil, err
	}
	l.maintain.Lock()
	done = func() { l.maintain.Unlock(); l.leave() }
	l.mu.RLock()
	t = l.topics[name]
	l.mu.RUnlock()
	if t == nil {
		done()
		return nil, nil, fmt.Errorf("topic %s: %w", name, broker.ErrUnknownTopic)
	}
	return t, done, nil
}

// DeleteTopic removes a topic and all its records.
func (l *Log) DeleteTopic(_ context.Context, name string) error {
	t, done, err := l.changing(name)
	if err != nil {
		return err
	}
	defer done()
	topics := l.states()
	delete(topics, name)
	deleting := slices.Clone(l.deleting)
	for _, p := range t.partitions {
		deleting = append(deleting, path.Base(p.dir))
	}
	if err := l.saveTopics(topics, deleting); err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	l.setTopic(name, nil)
	for _, p := range t.partitions {
		p.mu.Lock()
		p.deleted = true
		err := p.closeLocked()
		p.segs = nil
		p.wakeLocked()
		p.mu.Unlock()
		if err != nil {
			l.cfg.Logger.Warn("close files of a deleted topic", "topic", name, "error", err)
		}
	}
	l.forgetDropped()
	l.removeDeleted()
	l.room.look()
	return nil
}

// removeDeleted removes the directories of deleted topics. What fails is tried again by the next Open.
func (l *Log) removeDeleted() {
	l.deleting = slices.DeleteFunc(slices.Clone(l.deleting), func(dir string) bool {
		if err := l.fs.RemoveAll(path.Join(l.dataDir, dir)); err != nil {
			l.cfg.Logger.Warn("remove a deleted topic's directory", "dir", dir, "error", err)
			return false
		}
		return true
	})
}

func checkName(name string) error {
	legal := name != "" && name != "." && name != ".." && len(name) <= maxNameLength
	for _, c := range []byte(name) {
		legal = legal && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
	}
	if !legal {
		return fmt.Errorf("%w: %q is not 1 to %d of the characters a-z, A-Z, 0-9, dot, _ and -", broker.ErrInvalidTopic, name, maxNameLength)
	}
	return nil
}
