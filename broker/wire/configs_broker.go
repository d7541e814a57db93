package wire

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

// brokerConfig is one thing that holds at a server by its flags, under Kafka's name for it.
type brokerConfig struct {
	name, value string
	typ         kmsg.ConfigType
}

// synonyms are what is said of one setting; the first counts.
type synonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym

func synonym(name, value string, src kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	syn.Name, syn.Value, syn.Source = name, &value, src
	return syn
}

// brokerSaid is what is said of each setting of the broker, in Kafka's order of precedence: at this node, for all nodes, by flags, by default. What a server
// without flags says the same is a default.
func (s *Server) brokerSaid() map[string]synonyms {
	out := map[string]synonyms{}
	add := func(name, value string, src kmsg.ConfigSource) {
		out[name] = append(out[name], synonym(name, value, src))
	}
	node, all := s.brokers.levels()
	for _, k := range tunableConfigs() {
		if value, open := k.get(node); !open {
			add(k.name, value, kmsg.ConfigSourceDynamicBrokerConfig)
		}
		if value, open := k.get(all); !open {
			add(k.name, value, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
		}
	}
	plain := map[string]string{}
	for _, c := range brokerConfigs(Config{}.withDefaults(), broker.DefaultTopicConfig()) {
		plain[c.name] = c.value
	}
	for _, c := range brokerConfigs(s.cfg, topicDefaults(s.log)) {
		dflt, has := plain[c.name]
		if !has || dflt != c.value {
			add(c.name, c.value, kmsg.ConfigSourceStaticBrokerConfig)
		}
		if has {
			add(c.name, dflt, kmsg.ConfigSourceDefaultConfig)
		}
	}
	return out
}

// brokerConfigEntries shows what holds at this server or, without a name, what was set for all.
func (s *Server) brokerConfigEntries(name string, said map[string]synonyms) (out configEntries, err error) {
	if name != "" && name != s.brokers.node {
		return nil, s.otherNode()
	}
	docs := map[string]string{}
	for _, k := range tunableConfigs() {
		docs[k.name] = k.doc
	}
	_, settable := s.log.(configSetter)
	for _, c := range brokerConfigs(s.cfg, topicDefaults(s.log)) {
		syns := said[c.name]
		if name == "" {
			syns = slices.DeleteFunc(slices.Clone(syns), func(syn kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) bool {
				return syn.Source != kmsg.ConfigSourceDynamicDefaultBrokerConfig
			})
			if len(syns) == 0 {
				continue
			}
		}
		doc, tunable := docs[c.name]
		e := configEntry(c.name, doc, c.typ, syns)
		e.ReadOnly = !tunable || !settable
		out = append(out, e)
	}
	return out, nil
}

// topicDefaults are what topics have that leave everything open, by flags or by default.
func topicDefaults(log broker.Log) broker.TopicConfig {
	if log, ok := log.(configSetter); ok {
		return log.TopicDefaults()
	}
	return broker.DefaultTopicConfig()
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
