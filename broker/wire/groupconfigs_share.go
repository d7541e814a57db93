package wire

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/wire/share"
)

// Kafka's limits of what a share group may set, and its defaults, which are ours.
const (
	shareLock    = 30 * time.Second
	minShareLock = 15 * time.Second
	maxShareLock = 60 * time.Second

	shareAttempts, minShareAttempts, maxShareAttempts = 5, 2, 10
	shareLocks, minShareLocks, maxShareLocks          = 2000, 100, 4000

	resetEarliest = "earliest"
	resetLatest   = "latest"
	resetAge      = "by_duration:"

	committedOnly = "read_committed"
	uncommitted   = "read_uncommitted"
)

func (c groupConfig) shareSession(cfg Config) time.Duration {
	if c.ShareSession > 0 {
		return time.Duration(c.ShareSession) * time.Millisecond
	}
	return cfg.ConsumerSession
}

func (c groupConfig) shareHeartbeat(cfg Config) time.Duration {
	if c.ShareHeartbeat > 0 {
		return time.Duration(c.ShareHeartbeat) * time.Millisecond
	}
	return cfg.ConsumerHeartbeat
}

func (c groupConfig) limits() share.Limits {
	l := share.Limits{Attempts: shareAttempts, Locks: shareLocks, Lock: shareLock.Milliseconds()}
	if c.ShareLock > 0 {
		l.Lock = c.ShareLock
	}
	if c.ShareAttempts > 0 {
		l.Attempts = int16(c.ShareAttempts)
	}
	if c.ShareLocks > 0 {
		l.Locks = c.ShareLocks
	}
	return l
}

func (c groupConfig) isolation() broker.Isolation {
	if c.ShareIsolation == committedOnly {
		return broker.ReadCommitted
	}
	return broker.ReadUncommitted
}

// resetAge is how old the first record may be that a group reads of a partition; false when it does not say so.
func (c groupConfig) resetAge() (time.Duration, bool) {
	text, ok := strings.CutPrefix(c.ShareReset, resetAge)
	if !ok {
		return 0, false
	}
	age, err := parseISODuration(text)
	return age, err == nil
}

var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?$`)

// parseISODuration reads a duration as Kafka writes it, like P3DT6H or PT90.5S; days have 24 hours.
func parseISODuration(text string) (time.Duration, error) {
	m := isoDuration.FindStringSubmatch(strings.ToUpper(text))
	if m == nil || strings.HasSuffix(strings.ToUpper(text), "T") || text == "P" {
		return 0, fmt.Errorf("%q is no duration like P1DT2H30M", text)
	}
	var sum float64
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] != "" {
			n, err := strconv.ParseFloat(m[i+1], 64)
			if err != nil {
				return 0, err
			}
			sum += n * float64(unit)
		}
	}
	if sum >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is longer than 292 years", text)
	}
	return time.Duration(sum), nil
}

// shareConfigs is the list of the settings of share groups that are honoured.
func shareConfigs(cfg Config) []configOf[groupConfig] {
	choice := func(name, doc, dflt string, ok func(string) error, at func(*groupConfig) *string) configOf[groupConfig] {
		return configOf[groupConfig]{name, kmsg.ConfigTypeString, doc,
			func(c *groupConfig, v string) error { *at(c) = v; return ok(v) },
			func(c *groupConfig) { *at(c) = "" },
			func(c groupConfig) (string, bool) {
				if v := *at(&c); v != "" {
					return v, false
				}
				return dflt, true
			}}
	}
	oneOf := func(values ...string) func(string) error {
		return func(v string) error {
			for _, w := range values {
				if v == w {
					return nil
				}
			}
			return fmt.Errorf("%q is not one of %s", v, strings.Join(values, ", "))
		}
	}
	return []configOf[groupConfig]{
		choice("share.auto.offset.reset", "where a share group begins to read a partition", resetLatest, func(v string) error {
			if age, ok := strings.CutPrefix(v, resetAge); ok {
				_, err := parseISODuration(age)
				return err
			}
			return oneOf(resetEarliest, resetLatest, resetAge+"PnDTnHnMn.nS")(v)
		}, func(c *groupConfig) *string { return &c.ShareReset }),
		wholeNumber("share.delivery.count.limit", "a record is given so often at most", minShareAttempts, maxShareAttempts, shareAttempts,
			func(c *groupConfig) *int64 { return &c.ShareAttempts }),
		wholeNumber("share.heartbeat.interval.ms", "members are told to send a heartbeat so often",
			min(minGroupHeartbeat, cfg.ConsumerHeartbeat).Milliseconds(), max(maxGroupHeartbeat, cfg.ConsumerHeartbeat).Milliseconds(), cfg.ConsumerHeartbeat.Milliseconds(),
			func(c *groupConfig) *int64 { return &c.ShareHeartbeat }),
		choice("share.isolation.level", "whether records of transactions are given before they are committed, or when they are aborted", uncommitted,
			oneOf(committedOnly, uncommitted), func(c *groupConfig) *string { return &c.ShareIsolation }),
		wholeNumber("share.partition.max.record.locks", "so many records of a partition are given and not decided at most", minShareLocks, maxShareLocks, shareLocks,
			func(c *groupConfig) *int64 { return &c.ShareLocks }),
		wholeNumber("share.record.lock.duration.ms", "a record is given to somebody else after this time without an acknowledgement",
			minShareLock.Milliseconds(), maxShareLock.Milliseconds(), shareLock.Milliseconds(), func(c *groupConfig) *int64 { return &c.ShareLock }),
		{"share.renew.acknowledge.enable", kmsg.ConfigTypeBoolean, "whether members may keep records for longer",
			func(c *groupConfig, v string) error {
				on, err := strconv.ParseBool(v)
				c.ShareNoRenew = !on
				return err
			},
			func(c *groupConfig) { c.ShareNoRenew = false },
			func(c groupConfig) (string, bool) { return strconv.FormatBool(!c.ShareNoRenew), !c.ShareNoRenew }},
		wholeNumber("share.session.timeout.ms", "a member is removed after this time without a heartbeat",
			min(minGroupSession, cfg.ConsumerSession).Milliseconds(), max(maxGroupSession, cfg.ConsumerSession).Milliseconds(), cfg.ConsumerSession.Milliseconds(),
			func(c *groupConfig) *int64 { return &c.ShareSession }),
	}
}
