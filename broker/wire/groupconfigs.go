package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka's limits of what a group may set, and so ours, unless the server's own defaults lie beyond them.
const (
	minGroupSession    = 45 * time.Second
	maxGroupSession    = 60 * time.Second
	minGroupHeartbeat  = 5 * time.Second
	maxGroupHeartbeat  = 15 * time.Second
	maxGroupAssignment = 15 * time.Second

	maxGroupConfigs   = 10_000
	maxGroupNameBytes = 32 << 10
)

// groupConfig are the settings of one group of the newer protocol or of a share group; times in ms, 0 is the server's default, -1 what Kafka calls 0. Its JSON is part
// of the format of SettingsTopic: never change, add.
type groupConfig struct {
	Session    int64 `json:"session_ms,omitempty"`
	Heartbeat  int64 `json:"heartbeat_ms,omitempty"`
	Assignment int64 `json:"assignment_ms,omitempty"` // least time between two assignments

	// Of share groups.
	ShareSession   int64  `json:"share_session_ms,omitempty"`
	ShareHeartbeat int64  `json:"share_heartbeat_ms,omitempty"`
	ShareLock      int64  `json:"share_lock_ms,omitempty"`
	ShareAttempts  int64  `json:"share_attempts,omitempty"`
	ShareLocks     int64  `json:"share_locks,omitempty"`
	ShareReset     string `json:"share_reset,omitempty"`
	ShareIsolation string `json:"share_isolation,omitempty"`
	ShareNoRenew   bool   `json:"share_no_renew,omitempty"`
}

func (c groupConfig) session(cfg Config) time.Duration {
	if c.Session > 0 {
		return time.Duration(c.Session) * time.Millisecond
	}
	return cfg.ConsumerSession
}

func (c groupConfig) heartbeat(cfg Config) time.Duration {
	if c.Heartbeat > 0 {
		return time.Duration(c.Heartbeat) * time.Millisecond
	}
	return cfg.ConsumerHeartbeat
}

// assignment is the least time between two assignments; byDefault in ms.
func (c groupConfig) assignment(byDefault int64) time.Duration {
	def(&c.Assignment, byDefault)
	return time.Duration(max(c.Assignment, 0)) * time.Millisecond
}

// check looks at what the settings are together.
func (c groupConfig) check(cfg Config) error {
	if c.session(cfg) <= c.heartbeat(cfg) {
		return fmt.Errorf("consumer.session.timeout.ms is %d and consumer.heartbeat.interval.ms %d: the first must be greater",
			c.session(cfg).Milliseconds(), c.heartbeat(cfg).Milliseconds())
	}
	if c.shareSession(cfg) <= c.shareHeartbeat(cfg) {
		return fmt.Errorf("share.session.timeout.ms is %d and share.heartbeat.interval.ms %d: the first must be greater",
			c.shareSession(cfg).Milliseconds(), c.shareHeartbeat(cfg).Milliseconds())
	}
	return nil
}

// wholeNumber is a setting that is a whole number; 0 leaves it open, and -1 is what Kafka calls 0.
func wholeNumber[T any](name, doc string, lo, hi, dflt int64, at func(*T) *int64) configOf[T] {
	return configOf[T]{name, kmsg.ConfigTypeInt, doc,
		func(c *T, v string) error {
			n, err := parseLong(v, lo, hi)
			if *at(c) = n; n == 0 {
				*at(c) = -1
			}
			return err
		},
		func(c *T) { *at(c) = 0 },
		func(c T) (string, bool) {
			if n := *at(&c); n != 0 {
				return strconv.FormatInt(max(n, 0), 10), false
			}
			return strconv.FormatInt(dflt, 10), true
		}}
}

// groupConfigs is the list of the settings that are honoured.
func groupConfigs(cfg Config) []configOf[groupConfig] {
	millis := func(name, doc string, lo, hi, dflt time.Duration, at func(*groupConfig) *int64) configOf[groupConfig] {
		return wholeNumber(name, doc, lo.Milliseconds(), hi.Milliseconds(), dflt.Milliseconds(), at)
	}
	return append([]configOf[groupConfig]{
		millis("consumer.assignment.interval.ms", "partitions are given anew so often at most", 0, maxGroupAssignment, 0,
			func(c *groupConfig) *int64 { return &c.Assignment }),
		millis("consumer.heartbeat.interval.ms", "members are told to send a heartbeat so often",
			min(minGroupHeartbeat, cfg.ConsumerHeartbeat), max(maxGroupHeartbeat, cfg.ConsumerHeartbeat), cfg.ConsumerHeartbeat,
			func(c *groupConfig) *int64 { return &c.Heartbeat }),
		millis("consumer.session.timeout.ms", "a member is removed after this time without a heartbeat",
			min(minGroupSession, cfg.ConsumerSession), max(maxGroupSession, cfg.ConsumerSession), cfg.ConsumerSession,
			func(c *groupConfig) *int64 { return &c.Session }),
	}, shareConfigs(cfg)...)
}

// tunedGroups are the groups that have settings of their own, there or not. They are kept in the settings.
type tunedGroups struct {
	settings *settings
	kept     *held

	mu  sync.Mutex
	set map[string]groupConfig
}

func newTunedGroups(st *settings, kept *held) *tunedGroups {
	return &tunedGroups{settings: st, kept: kept, set: map[string]groupConfig{}}
}

func tunedCost(name string) int64 { return int64(256 + len(name)) }

// replay takes a record of the settings.
func (g *tunedGroups) replay(what, value []byte) error {
	var name string
	if err := json.Unmarshal(what, &name); err != nil {
		return err
	}
	var cfg groupConfig
	if value != nil {
		if err := json.Unmarshal(value, &cfg); err != nil {
			return err
		}
	}
	g.put(name, cfg)
	return nil
}

func (g *tunedGroups) put(name string, cfg groupConfig) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, had := g.set[name]
	switch has := cfg != (groupConfig{}); {
	case has && !had:
		g.kept.add(tunedCost(name))
	case !has && had:
		g.kept.add(-tunedCost(name))
	}
	if g.set[name] = cfg; cfg == (groupConfig{}) {
		delete(g.set, name)
	}
}

// of gives the settings of a group.
func (g *tunedGroups) of(name string) groupConfig {
	if g == nil {
		return groupConfig{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.set[name]
}

// names lists the groups that have settings.
func (g *tunedGroups) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.set))
}

// change makes a change durable and then counts it; dry only looks whether it could be made.
func (g *tunedGroups) change(ctx context.Context, name string, dry bool, change func(*groupConfig) error) error {
	g.settings.mu.Lock()
	defer g.settings.mu.Unlock()
	was := g.of(name)
	cfg := was
	if err := change(&cfg); err != nil || dry || cfg == was {
		return err
	}
	var value any
	if cfg != (groupConfig{}) {
		value = cfg
	}
	if was == (groupConfig{}) {
		if len(name) > maxGroupNameBytes || len(g.names()) >= maxGroupConfigs {
			return fmt.Errorf("there can be settings of %d groups, with names of %d bytes: %w", maxGroupConfigs, maxGroupNameBytes, errTooMany)
		}
		if !g.kept.room(tunedCost(name)) {
			return errNoMemory
		}
	}
	rec, err := settingRecord(settingGroup, name, value)
	if err != nil {
		return err
	}
	if err := g.settings.topic.append(ctx, []stateRecord{rec}); err != nil { // COMMIT POINT
		return err
	}
	g.put(name, cfg)
	return nil
}
