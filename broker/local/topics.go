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
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	topicsFile    = "topics.json"
	topicsVersion = 1
	maxNameLength = 249   // Kafka's
	maxPartitions = 10000 // of one topic

	// minSegmentBytes keeps the number of files in proportion to the bytes. Kafka 4 wants 1 MiB.
	minSegmentBytes = 1 << 10
)

// topic is one topic. Its settings may change, and it may get more partitions.
type topic struct {
	name       string
	id         [16]byte
	cfg        atomic.Pointer[broker.TopicConfig]
	partitions []*partition // guarded by Log.mu; replaced as a whole
}

func (t *topic) config() *broker.TopicConfig { return t.cfg.Load() }

func (t *topic) info() broker.TopicInfo {
	return broker.TopicInfo{Name: t.name, ID: t.id, Config: *t.config()}
}

// topicsState is the content of topics.json.
type topicsState struct {
	Version  int          `json:"version"`
	Topics   []topicState `json:"topics"`
	Deleting []string     `json:"deleting,omitempty"` // directories of deleted topics, still to be removed
}

type topicState struct {
	Name   string             `json:"name"`
	ID     string             `json:"id"`
	Config broker.TopicConfig `json:"config"`
}

func (l *Log) newTopic(name string, id [16]byte, cfg broker.TopicConfig) *topic {
	t := &topic{name: name, id: id}
	t.cfg.Store(&cfg)
	for i := range cfg.Partitions {
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
		s.Config.SegmentBytes = max(s.Config.SegmentBytes, minSegmentBytes) // older versions took less
		fillCleaning(&s.Config)
		if err == nil {
			err = errors.Join(checkName(s.Name), checkConfig(s.Config))
		}
		if err != nil {
			return false, fmt.Errorf("read %s: topic %q: %w", name, s.Name, err)
		}
		l.topics[s.Name] = l.newTopic(s.Name, id, s.Config)
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
	err = vfs.WriteFileAtomic(l.fs, l.cfg.Dir, topicsFile, append(b, '\n'))
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
		out[name] = t.state(*t.config())
	}
	return out
}

func (t *topic) state(cfg broker.TopicConfig) topicState {
	return topicState{Name: t.name, ID: hex.EncodeToString(t.id[:]), Config: cfg}
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
	cfg = fillConfig(name, cfg, l.cfg.DefaultTopic)
	if err := errors.Join(checkName(name), checkConfig(cfg)); err != nil {
		return broker.TopicInfo{}, err
	}
	l.maintain.Lock()
	defer l.maintain.Unlock()
	topics := l.states()
	if _, ok := topics[name]; ok {
		return broker.TopicInfo{}, fmt.Errorf("topic %s: %w", name, broker.ErrTopicExists)
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return broker.TopicInfo{}, fmt.Errorf("make topic id: %w", err)
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // a version 4 UUID, as Kafka's ids are
	t := l.newTopic(name, id, cfg)
	if err := l.makePartitionDirs(t.partitions); err != nil {
		return broker.TopicInfo{}, fmt.Errorf("create topic %s: %w: %w", name, broker.ErrStorage, err)
	}
	topics[name] = t.state(cfg)
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

// SetTopicConfig changes the settings of a topic; the number of partitions stays. Zero values mean the
// defaults.
func (l *Log) SetTopicConfig(_ context.Context, name string, cfg broker.TopicConfig) error {
	t, done, err := l.changing(name)
	if err != nil {
		return err
	}
	defer done()
	cfg.Partitions = t.config().Partitions
	cfg = fillConfig(name, cfg, l.cfg.DefaultTopic)
	if err := checkConfig(cfg); err != nil {
		return err
	}
	topics := l.states()
	topics[name] = t.state(cfg)
	if err := l.saveTopics(topics, l.deleting); err != nil {
		return fmt.Errorf("change topic %s: %w", name, err)
	}
	t.cfg.Store(&cfg)
	return l.flushDue(t)
}

// TopicDefaults gives the settings of a topic that is made without any.
func (l *Log) TopicDefaults() broker.TopicConfig {
	return fillConfig("", broker.TopicConfig{}, l.cfg.DefaultTopic)
}

// fillConfig fills the settings that are not given. Internal topics are not tiered by default.
func fillConfig(name string, cfg, def broker.TopicConfig) broker.TopicConfig {
	setDefault(&cfg.Partitions, max(def.Partitions, 1))
	setDefault(&cfg.SegmentBytes, def.SegmentBytes)
	setDefault(&cfg.SegmentBytes, 128<<20)
	setDefault(&cfg.SegmentAge, def.SegmentAge)
	setDefault(&cfg.SegmentAge, time.Hour)
	setDefault(&cfg.RetentionBytes, def.RetentionBytes)
	setDefault(&cfg.RetentionAge, def.RetentionAge)
	setDefault(&cfg.MaxMessageBytes, def.MaxMessageBytes)
	setDefault(&cfg.MaxMessageBytes, 1<<20+12)
	setDefault(&cfg.DeleteRetention, def.DeleteRetention)
	setDefault(&cfg.MinDirtyRatio, def.MinDirtyRatio)
	fillCleaning(&cfg)
	setDefault(&cfg.MinCompactionLag, def.MinCompactionLag)
	setDefault(&cfg.MaxCompactionLag, def.MaxCompactionLag)
	setDefault(&cfg.Compression, def.Compression)
	setDefault(&cfg.FlushMessages, def.FlushMessages)
	setDefault(&cfg.FlushAge, def.FlushAge)
	cfg.LogAppendTime = cfg.LogAppendTime || def.LogAppendTime
	cfg.Compact = cfg.Compact || def.Compact
	cfg.Tiered = cfg.Tiered || def.Tiered && !broker.Internal(name)
	return cfg
}

// fillCleaning fills the settings that topics of older versions do not have.
func fillCleaning(cfg *broker.TopicConfig) {
	setDefault(&cfg.DeleteRetention, 24*time.Hour)
	setDefault(&cfg.MinDirtyRatio, 0.5)
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

func checkConfig(cfg broker.TopicConfig) error {
	if _, err := cfg.KeptAs(record.None); err != nil {
		return err
	}
	switch {
	case cfg.Partitions < 1 || cfg.Partitions > maxPartitions:
		return fmt.Errorf("%w: %d partitions are not 1 to %d", broker.ErrInvalidTopic, cfg.Partitions, maxPartitions)
	case cfg.SegmentBytes < minSegmentBytes || cfg.SegmentAge < time.Millisecond:
		return fmt.Errorf("%w: segments of %d bytes and %s; the least are %d and 1ms", broker.ErrInvalidTopic, cfg.SegmentBytes, cfg.SegmentAge, minSegmentBytes)
	case cfg.RetentionBytes < -1 || cfg.RetentionAge < -1:
		return fmt.Errorf("%w: retention %d bytes, %s", broker.ErrInvalidTopic, cfg.RetentionBytes, cfg.RetentionAge)
	case !(cfg.MinDirtyRatio <= 1) || cfg.MinCompactionLag < 0:
		return fmt.Errorf("%w: dirty ratio %g, compaction lag %s", broker.ErrInvalidTopic, cfg.MinDirtyRatio, cfg.MinCompactionLag)
	case cfg.MaxCompactionLag < 0 || cfg.MaxCompactionLag > 0 && cfg.MaxCompactionLag < cfg.MinCompactionLag:
		return fmt.Errorf("%w: the longest compaction lag, %s, is below the shortest, %s", broker.ErrInvalidTopic, cfg.MaxCompactionLag, cfg.MinCompactionLag)
	case cfg.FlushMessages < 0 || cfg.FlushAge < -1:
		return fmt.Errorf("%w: flush after %d records, %s", broker.ErrInvalidTopic, cfg.FlushMessages, cfg.FlushAge)
	case cfg.MaxMessageBytes < 1:
		return fmt.Errorf("%w: largest batch %d", broker.ErrInvalidTopic, cfg.MaxMessageBytes)
	}
	return nil
}
