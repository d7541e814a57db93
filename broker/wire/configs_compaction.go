package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

// compactionConfigs are the settings of compaction. In broker.TopicConfig 0 is the default and -1 what Kafka
// calls 0.
func compactionConfigs() []topicConfig {
	return []topicConfig{
		{"cleanup.policy", kmsg.ConfigTypeList, "delete, compact or both",
			setCleanupPolicy,
			func(c *broker.TopicConfig) { c.Compact, c.CompactDelete, c.Delete = false, false, false },
			func(c broker.TopicConfig) (string, bool) {
				switch {
				case c.Compact && c.CompactDelete:
					return "compact,delete", false
				case c.Compact:
					return "compact", false
				}
				return "delete", !c.Delete
			}},
		{"delete.retention.ms", kmsg.ConfigTypeLong, "how long a compacted topic keeps records without a value",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, 0, math.MaxInt64)
				if c.DeleteRetention = millis(n); n == 0 {
					c.DeleteRetention = -1
				} else if c.DeleteRetention < 0 {
					c.DeleteRetention = broker.Never
				}
				return err
			},
			func(c *broker.TopicConfig) { c.DeleteRetention = 0 },
			func(c broker.TopicConfig) (string, bool) {
				if c.DeleteRetention < 0 {
					return "0", false
				}
				return longMillis(c.DeleteRetention, 24*time.Hour)
			}},
		{"max.compaction.lag.ms", kmsg.ConfigTypeLong, "records older than this are compacted",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, 1, math.MaxInt64)
				if c.MaxCompactionLag = millis(n); c.MaxCompactionLag < 0 {
					c.MaxCompactionLag = broker.Never // longer than anything: no limit
				}
				return err
			},
			func(c *broker.TopicConfig) { c.MaxCompactionLag = 0 },
			func(c broker.TopicConfig) (string, bool) { return longMillis(c.MaxCompactionLag, broker.Never) }},
		{"min.cleanable.dirty.ratio", kmsg.ConfigTypeDouble, "compact when so much of the log is not compacted yet",
			func(c *broker.TopicConfig, v string) error {
				f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				if err != nil || !(f >= 0 && f <= 1) {
					return fmt.Errorf("%q: want a number from 0 to 1", v)
				}
				if c.MinDirtyRatio = f; f == 0 {
					c.MinDirtyRatio = -1
				}
				return nil
			},
			func(c *broker.TopicConfig) { c.MinDirtyRatio = 0 },
			func(c broker.TopicConfig) (string, bool) {
				switch {
				case c.MinDirtyRatio < 0:
					return "0", false
				case c.MinDirtyRatio == 0:
					return "0.5", true
				}
				return strconv.FormatFloat(c.MinDirtyRatio, 'g', -1, 64), false
			}},
		{"min.compaction.lag.ms", kmsg.ConfigTypeLong, "records younger than this are not compacted",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, 0, math.MaxInt64/int64(time.Millisecond))
				if c.MinCompactionLag = time.Duration(n) * time.Millisecond; n == 0 {
					c.MinCompactionLag = -1
				}
				return err
			},
			func(c *broker.TopicConfig) { c.MinCompactionLag = 0 },
			func(c broker.TopicConfig) (string, bool) { return longMillis(c.MinCompactionLag, 0) }},
	}
}

func setCleanupPolicy(c *broker.TopicConfig, v string) error {
	var compact, del bool
	for _, p := range strings.Split(v, ",") {
		switch strings.TrimSpace(p) {
		case "": // an empty list leaves it open
		case "delete":
			del = true
		case "compact":
			compact = true
		default:
			return fmt.Errorf("%q: want delete, compact or both", v)
		}
	}
	c.Compact, c.CompactDelete, c.Delete = compact, compact && del, del && !compact
	return nil
}
