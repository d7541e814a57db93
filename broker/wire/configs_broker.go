package wire

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

// topicDefaulter is a Log that says what settings a topic gets that is made without any.
type topicDefaulter interface {
	TopicDefaults() broker.TopicConfig
}

// brokerConfig is one thing that holds at a server, under Kafka's name for it.
type brokerConfig struct {
	name, value string
	typ         kmsg.ConfigType
}

// brokerConfigEntries shows what holds at this server. It is a default where a server without flags would say the same.
func (s *Server) brokerConfigEntries(name string) (out configEntries, err error) {
	if name != "" && name != strconv.Itoa(int(s.cfg.NodeID)) {
		return nil, fmt.Errorf("this node is %d, and the only one", s.cfg.NodeID)
	}
	if name == "" {
		return nil, nil // dynamic defaults of all brokers: there are none
	}
	plain := brokerConfigs(Config{}.withDefaults(), broker.TopicConfig{})
	for _, c := range brokerConfigs(s.cfg, s.topicDefaults()) {
		src := kmsg.ConfigSourceStaticBrokerConfig
		if slices.Contains(plain, c) {
			src = kmsg.ConfigSourceDefaultConfig
		}
		e := configEntry(c.name, c.value, "", c.typ, src)
		e.ReadOnly = true
		out = append(out, e)
	}
	return out, nil
}

// topicDefaults are the settings of a topic that is made without any.
func (s *Server) topicDefaults() broker.TopicConfig {
	if log, ok := s.log.(topicDefaulter); ok {
		return log.TopicDefaults()
	}
	return broker.TopicConfig{}
}

// brokerConfigs are Kafka's settings of a broker for which there is something here, by name.
func brokerConfigs(cfg Config, topics broker.TopicConfig) []brokerConfig {
	num := func(name string, n int64) brokerConfig {
		return brokerConfig{name, strconv.FormatInt(n, 10), kmsg.ConfigTypeLong}
	}
	ms := func(name string, d time.Duration) brokerConfig { return num(name, d.Milliseconds()) }
	is := func(name string, v bool) brokerConfig {
		return brokerConfig{name, strconv.FormatBool(v), kmsg.ConfigTypeBoolean}
	}
	out := []brokerConfig{
		is("allow.everyone.if.no.acl.found", cfg.Access.Open || !cfg.Access.Enforce),
		is("auto.create.topics.enable", cfg.AutoCreateTopics),
		num("broker.id", int64(cfg.NodeID)),
		ms("connections.max.idle.ms", cfg.IdleTimeout),
		num("default.replication.factor", 1),
		is("delete.topic.enable", true),
		num("fetch.max.bytes", int64(cfg.MaxFetchBytes)),
		{"group.consumer.assignors", assignorUniform + "," + assignorRange, kmsg.ConfigTypeList},
		ms("group.consumer.assignment.interval.ms", 0),
		ms("group.consumer.heartbeat.interval.ms", cfg.ConsumerHeartbeat),
		ms("group.consumer.max.assignment.interval.ms", maxGroupAssignment),
		ms("group.consumer.max.heartbeat.interval.ms", max(maxGroupHeartbeat, cfg.ConsumerHeartbeat)),
		ms("group.consumer.max.session.timeout.ms", max(maxGroupSession, cfg.ConsumerSession)),
		num("group.consumer.max.size", maxGroupMembers),
		ms("group.consumer.min.assignment.interval.ms", 0),
		ms("group.consumer.min.heartbeat.interval.ms", min(minGroupHeartbeat, cfg.ConsumerHeartbeat)),
		ms("group.consumer.min.session.timeout.ms", min(minGroupSession, cfg.ConsumerSession)),
		ms("group.consumer.session.timeout.ms", cfg.ConsumerSession),
		ms("group.initial.rebalance.delay.ms", cfg.GroupJoinDelay),
		ms("group.max.session.timeout.ms", cfg.maxSessionTimeout),
		num("group.max.size", maxGroupMembers),
		ms("group.min.session.timeout.ms", cfg.minSessionTimeout),
		num("max.connections", int64(cfg.MaxConnections)),
		num("node.id", int64(cfg.NodeID)),
		num("num.partitions", int64(cfg.DefaultPartitions)),
		num("offsets.retention.minutes", offsetsMinutes(cfg.OffsetsRetention)),
		num("offsets.topic.num.partitions", 1),
		num("queued.max.request.bytes", cfg.requestMemory()),
		num("socket.request.max.bytes", int64(cfg.MaxRequestBytes)),
		ms("transaction.max.timeout.ms", cfg.MaxTransactionTimeout),
		num("transaction.state.log.num.partitions", 1),
	}
	if cfg.Users != nil {
		out = append(out, brokerConfig{"sasl.enabled.mechanisms", strings.Join(cfg.Mechanisms, ","), kmsg.ConfigTypeList})
	}
	// What topics have that are made without settings.
	for _, c := range topicConfigs() {
		if name := brokerName(c.name); name != "" {
			value, _ := c.get(topics)
			out = append(out, brokerConfig{name, value, c.typ})
		}
	}
	slices.SortFunc(out, func(a, b brokerConfig) int { return strings.Compare(a.name, b.name) })
	return out
}

// offsetsMinutes is how Kafka, which knows no "for ever", would say it.
func offsetsMinutes(d time.Duration) int64 {
	if d < 0 {
		return math.MaxInt32
	}
	return int64(d / time.Minute)
}

// brokerName is what Kafka calls the setting of a broker that is a topic's default; empty where it has none.
func brokerName(topicSetting string) string {
	return map[string]string{
		"cleanup.policy":                  "log.cleanup.policy",
		"compression.type":                "compression.type",
		"delete.retention.ms":             "log.cleaner.delete.retention.ms",
		"flush.messages":                  "log.flush.interval.messages",
		"flush.ms":                        "log.flush.interval.ms",
		"max.compaction.lag.ms":           "log.cleaner.max.compaction.lag.ms",
		"max.message.bytes":               "message.max.bytes",
		"message.timestamp.type":          "log.message.timestamp.type",
		"min.cleanable.dirty.ratio":       "log.cleaner.min.cleanable.ratio",
		"min.compaction.lag.ms":           "log.cleaner.min.compaction.lag.ms",
		"min.insync.replicas":             "min.insync.replicas",
		"message.timestamp.after.max.ms":  "log.message.timestamp.after.max.ms",
		"message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
		"index.interval.bytes":            "log.index.interval.bytes",
		"preallocate":                     "log.preallocate",
		"segment.jitter.ms":               "log.roll.jitter.ms",
		"unclean.leader.election.enable":  "unclean.leader.election.enable",
		"retention.bytes":                 "log.retention.bytes",
		"retention.ms":                    "log.retention.ms",
		"segment.bytes":                   "log.segment.bytes",
		"segment.ms":                      "log.roll.ms",
	}[topicSetting]
}
