package local

import (
	"context"
	"fmt"

	"github.com/ledgerlake/ledgerlake/broker"
)

// topicSettings are what was set at a topic, and what holds for it: that over the defaults.
type topicSettings struct{ own, inForce broker.TopicConfig }

// config is what holds for the topic.
func (t *topic) config() *broker.TopicConfig { return &t.cfg.Load().inForce }

func (t *topic) own() broker.TopicConfig { return t.cfg.Load().own }

// set is the one place that brings what is set at a topic and the defaults together.
func (t *topic) set(own, defaults broker.TopicConfig) {
	t.cfg.Store(&topicSettings{own: own, inForce: own.Over(defaults)})
}

// own is what was set at the topic. Older versions wrote down what held when the topic was made or changed: of that, what is the default by itself
// counts as open. What came from DefaultTopic cannot be told from what was set, and stays.
func (s topicState) own() broker.TopicConfig {
	if s.Own != nil {
		return *s.Own
	}
	own, plain := s.Config, broker.DefaultTopicConfig()
	own.SegmentBytes = max(own.SegmentBytes, broker.MinSegmentBytes) // some took less
	setDefault(&own.RetentionBytes, -1)                              // none was for ever
	setDefault(&own.RetentionAge, -1)
	open(&own.SegmentBytes, plain.SegmentBytes)
	open(&own.SegmentAge, plain.SegmentAge)
	open(&own.MaxMessageBytes, plain.MaxMessageBytes)
	open(&own.DeleteRetention, plain.DeleteRetention)
	open(&own.MinDirtyRatio, plain.MinDirtyRatio)
	return own
}

func open[T comparable](v *T, dflt T) {
	if *v == dflt {
		var zero T
		*v = zero
	}
}

// ownConfig is what is kept of settings that a topic is given. Whether it is tiered is settled now and does not follow the defaults, which would let
// retention take what the lake was to get (I6). Internal topics are not by default.
func (l *Log) ownConfig(name string, cfg broker.TopicConfig) broker.TopicConfig {
	setDefault(&cfg.Partitions, l.defaults.Partitions)
	cfg.Tiered = cfg.Tiered || l.cfg.DefaultTopic.Tiered && !broker.Internal(name)
	return cfg
}

// SetTopicConfig changes the settings of a topic; the number of partitions stays. What cfg leaves open follows the defaults.
func (l *Log) SetTopicConfig(_ context.Context, name string, cfg broker.TopicConfig) error {
	t, done, err := l.changing(name)
	if err != nil {
		return err
	}
	defer done()
	cfg.Partitions = t.config().Partitions
	own := l.ownConfig(name, cfg)
	if err := own.Over(l.defaults).Check(); err != nil {
		return err
	}
	topics := l.states()
	topics[name] = l.state(t, own)
	if err := l.saveTopics(topics, l.deleting); err != nil {
		return fmt.Errorf("change topic %s: %w", name, err)
	}
	t.set(own, l.defaults)
	return l.flushDue(t)
}

// TopicDefaults gives what holds for a topic that is made without settings, when nobody has called SetTopicDefaults.
func (l *Log) TopicDefaults() broker.TopicConfig {
	def := l.cfg.DefaultTopic.Over(broker.DefaultTopicConfig())
	def.Tiered = false // not a default that topics follow: see ownConfig
	return def
}

// SetTopicDefaults puts settings between those of each topic and TopicDefaults. They hold for all topics from now on, those that are there too, and
// are not kept over a restart: the caller does that.
func (l *Log) SetTopicDefaults(_ context.Context, cfg broker.TopicConfig) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	l.maintain.Lock()
	defer l.maintain.Unlock()
	cfg.Partitions, cfg.Tiered = 0, false
	defaults := cfg.Over(l.TopicDefaults())
	if err := defaults.Check(); err != nil {
		return err
	}
	l.mu.RLock()
	topics := sortedTopics(l.topics)
	l.mu.RUnlock()
	for _, t := range topics {
		t.set(t.own(), defaults)
	}
	l.defaults = defaults
	l.awaiting.Store(false)
	for _, t := range topics {
		if err := l.flushDue(t); err != nil { // they hold all the same
			l.cfg.Logger.Warn("sync what new defaults want synced", "topic", t.name, "error", err)
		}
	}
	return nil
}
