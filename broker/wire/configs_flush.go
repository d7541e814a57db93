package wire

import (
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

// flushConfigs are the settings of when records that were acknowledged are synced at the latest. A log with durability
// syncs each before it acknowledges it, so it keeps to all of them. As in Kafka the largest number means never.
func flushConfigs() []topicConfig {
	return []topicConfig{
		{"flush.messages", kmsg.ConfigTypeLong, "without durability: sync after so many records",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, 1, math.MaxInt64)
				c.FlushMessages = n
				return err
			},
			func(c *broker.TopicConfig) { c.FlushMessages = 0 },
			func(c broker.TopicConfig) (string, bool) { return long(c.FlushMessages, math.MaxInt64) }},
		{"flush.ms", kmsg.ConfigTypeLong, "without durability: sync so long after a record came",
			func(c *broker.TopicConfig, v string) error {
				n, err := parseLong(v, 0, math.MaxInt64)
				switch {
				case n == 0:
					c.FlushAge = -1
				case n == math.MaxInt64:
					c.FlushAge = broker.Never
				case n > math.MaxInt64/int64(time.Millisecond):
					err = fmt.Errorf("%q: want at most %d (292 years), or %d for never", v, math.MaxInt64/int64(time.Millisecond), int64(math.MaxInt64))
				default:
					c.FlushAge = time.Duration(n) * time.Millisecond
				}
				return err
			},
			func(c *broker.TopicConfig) { c.FlushAge = 0 },
			func(c broker.TopicConfig) (string, bool) {
				if c.FlushAge < 0 {
					return "0", false
				}
				return longMillis(c.FlushAge, broker.Never)
			}},
	}
}
