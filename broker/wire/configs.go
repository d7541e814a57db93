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
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// configOf is one setting of a T: how requests set it and how DescribeConfigs shows it.
type configOf[T any] struct {
	name string
	typ  kmsg.ConfigType
	doc  string
	set  func(*T, string) error
	zero func(*T)                          // leaves it open
	get  func(T) (value string, open bool) // where it is open, value is the default
}

type topicConfig = configOf[broker.TopicConfig]

// topicConfigs is the list of the settings that are honoured.
func topicConfigs() []topicConfig { return append(variedConfigs(), fixedConfigs()...) }

// variedConfigs are those that have more than one value here.
func variedConfigs() []topicConfig {
	return slices.Concat(compactionConfigs(), flushConfigs(), []topicConfig{
		{"compression.type", kmsg.ConfigTypeString, "codec that batches are kept in; producer: as they were sent",
			func(c *broker.TopicConfig, v string) error {
				c.Compression = v
				_, err := c.KeptAs(record.None)
				return err
			},
			func(c *broker.TopicConfig) { c.Compression = "" },
			func(c broker.TopicConfig) (string, bool) {
				if c.Compression == "" {
					return "producer", true
				}
				return c.Compression, false
			}},
		{"ledgerlake.tiered", kmsg.ConfigTypeBoolean, "nothing is dropped before the lake has it",
			func(c *broker.TopicConfig, v string) (err error) {
				c.Tiered, err = strconv.ParseBool(v)
				return err
			},
			func(c *broker.TopicConfig) { c.Tiered = false },
			func(c broker.TopicConfig) (string, bool) { return strconv.FormatBool(c.Tiered), !c.Tiered }},
		{"max.message.bytes", kmsg.ConfigTypeInt, "largest batch",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, 1, math.MaxInt32)
				c.MaxMessageBytes = int32(n)
				return err
			},
			func(c *broker.TopicConfig) { c.MaxMessageBytes = 0 },
			func(c broker.TopicConfig) (string, bool) { return long(int64(c.MaxMessageBytes), 1<<20+12) }},
		{"message.timestamp.type", kmsg.ConfigTypeString, "CreateTime or LogAppendTime",
			func(c *broker.TopicConfig, v string) error {
				if v != "CreateTime" && v != "LogAppendTime" {
					return fmt.Errorf("%q: want CreateTime or LogAppendTime", v)
				}
				c.LogAppendTime, c.CreateTime = v == "LogAppendTime", v == "CreateTime"
				return nil
			},
			func(c *broker.TopicConfig) { c.LogAppendTime, c.CreateTime = false, false },
			func(c broker.TopicConfig) (string, bool) {
				if c.LogAppendTime {
					return "LogAppendTime", false
				}
				return "CreateTime", !c.CreateTime
			}},
		{"retention.bytes", kmsg.ConfigTypeLong, "per partition; -1: no limit",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, -1, math.MaxInt64)
				if err == nil && n == 0 {
					return fmt.Errorf("0: want -1 or more than 0")
				}
				c.RetentionBytes = n
				return err
			},
			func(c *broker.TopicConfig) { c.RetentionBytes = 0 },
			func(c broker.TopicConfig) (string, bool) { return limit(c.RetentionBytes) }},
		{"retention.ms", kmsg.ConfigTypeLong, "-1: for ever",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, -1, math.MaxInt64)
				if c.RetentionAge = millis(n); n == 0 {
					c.RetentionAge = noTime
				}
				return err
			},
			func(c *broker.TopicConfig) { c.RetentionAge = 0 },
			func(c broker.TopicConfig) (string, bool) {
				if c.RetentionAge == noTime {
					return "0", false
				}
				return limit(ms(c.RetentionAge))
			}},
		{"segment.bytes", kmsg.ConfigTypeInt, "roll the active segment at this size",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, 1, math.MaxInt32)
				c.SegmentBytes = n
				return err
			},
			func(c *broker.TopicConfig) { c.SegmentBytes = 0 },
			func(c broker.TopicConfig) (string, bool) { return long(c.SegmentBytes, 128<<20) }},
		{"segment.ms", kmsg.ConfigTypeLong, "roll the active segment at this age",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, 1, math.MaxInt64/int64(time.Millisecond))
				c.SegmentAge = millis(n)
				return err
			},
			func(c *broker.TopicConfig) { c.SegmentAge = 0 },
			func(c broker.TopicConfig) (string, bool) { return longMillis(c.SegmentAge, time.Hour) }},
	})
}

// fixedConfigs have one value here, Kafka's default, which is accepted because tools spell all of a topic's settings out.
func fixedConfigs() []topicConfig {
	return []topicConfig{
		fixedConfig("index.interval.bytes", kmsg.ConfigTypeInt, strconv.Itoa(segment.IndexInterval), "bytes of the log between two entries of an index"),
		fixedConfig("message.timestamp.after.max.ms", kmsg.ConfigTypeLong, "3600000", "how far ahead the time of a record may be"),
		fixedConfig("message.timestamp.before.max.ms", kmsg.ConfigTypeLong, "9223372036854775807", "how old the time of a record may be"),
		fixedConfig("min.insync.replicas", kmsg.ConfigTypeInt, "1", "one node"),
		fixedConfig("preallocate", kmsg.ConfigTypeBoolean, "false", "segments take their space as they grow"),
		fixedConfig("segment.jitter.ms", kmsg.ConfigTypeLong, "0", "segments roll at their age"),
		fixedConfig("unclean.leader.election.enable", kmsg.ConfigTypeBoolean, "false", "one node"),
	}
}

func fixedConfig(name string, typ kmsg.ConfigType, value, doc string) topicConfig {
	return topicConfig{name, typ, doc,
		func(_ *broker.TopicConfig, v string) error {
			if v != value {
				return fmt.Errorf("%q: only %q is supported", v, value)
			}
			return nil
		},
		func(*broker.TopicConfig) {},
		func(broker.TopicConfig) (string, bool) { return value, true }}
}

// noTime is how broker.TopicConfig has what Kafka calls 0 where its own 0 is the default.
const noTime = time.Nanosecond

func parseLong(v string, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, fmt.Errorf("%q: want a whole number from %d to %d", v, lo, hi)
	}
	return n, nil
}

// millis gives -1, for ever, for what a Duration cannot hold.
func millis(n int64) time.Duration {
	if n < 0 || n > math.MaxInt64/int64(time.Millisecond) {
		return -1
	}
	return time.Duration(n) * time.Millisecond
}

// ms keeps what is negative, so that it stays apart from 0.
func ms(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// limit shows a setting of which -1 means no limit, which is what holds where it is open.
func limit(v int64) (string, bool) {
	if v <= 0 {
		return "-1", v == 0
	}
	return strconv.FormatInt(v, 10), false
}

// long shows a setting of which 0 leaves it open.
func long(v, dflt int64) (string, bool) {
	if v == 0 {
		return strconv.FormatInt(dflt, 10), true
	}
	return strconv.FormatInt(v, 10), false
}

// longMillis is long of a time; broker.Never is the largest number, as in Kafka.
func longMillis(d, dflt time.Duration) (string, bool) {
	n := func(d time.Duration) int64 {
		if d == broker.Never {
			return math.MaxInt64
		}
		return d.Milliseconds()
	}
	if d == 0 {
		return strconv.FormatInt(n(dflt), 10), true
	}
	return strconv.FormatInt(n(d), 10), false
}
