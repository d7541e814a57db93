package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

// brokerTuning is what was set while servers ran (KIP-226), at one node or as the default of all; zero values leave a setting open. Its JSON is part of
// the format of SettingsTopic: never change, add.
type brokerTuning struct {
	Topics         broker.TopicConfig `json:"topics"`
	MaxConnections int64              `json:"max_connections,omitempty"`
	Assignment     int64              `json:"assignment_ms,omitempty"` // of groups of the newer protocol; -1 is what Kafka calls 0
}

// over gives t with what it leaves open taken from what lies below it.
func (t brokerTuning) over(below brokerTuning) brokerTuning {
	t.Topics = t.Topics.Over(below.Topics)
	def(&t.MaxConnections, below.MaxConnections)
	def(&t.Assignment, below.Assignment)
	return t
}

// minConnections are left to whoever wants to raise the limit again: a tool takes two or three.
const minConnections = 10

// tunableConfigs is the list of the settings of a broker that can be changed while it runs: of those that Kafka calls dynamic, the ones that have more than one
// value here.
func tunableConfigs() []configOf[brokerTuning] {
	out := []configOf[brokerTuning]{
		wholeNumber("group.consumer.assignment.interval.ms", "partitions of a group are given anew so often at most; of groups without a setting of their own",
			0, maxGroupAssignment.Milliseconds(), 0, func(t *brokerTuning) *int64 { return &t.Assignment }),
		wholeNumber("max.connections", "one more is closed at once; with fewer than 10 nobody might get in to set it back", minConnections, math.MaxInt32, 0,
			func(t *brokerTuning) *int64 { return &t.MaxConnections }),
	}
	for _, c := range variedConfigs() {
		if name := brokerName(c.name); name != "" {
			out = append(out, configOf[brokerTuning]{name, c.typ, c.doc + "; of topics without a setting of their own",
				func(t *brokerTuning, v string) error { return c.set(&t.Topics, v) },
				func(t *brokerTuning) { c.zero(&t.Topics) },
				func(t brokerTuning) (string, bool) { return c.get(t.Topics) }})
		}
	}
	return out
}

// tunedBrokers is what was set of brokers: of this node, of nodes that this one was once, and by the empty name of all. It is kept in the settings.
type tunedBrokers struct {
	settings *settings
	log      broker.Log
	node     string

	mu  sync.Mutex
	set map[string]brokerTuning
}

func newTunedBrokers(st *settings, log broker.Log, node int32) *tunedBrokers {
	return &tunedBrokers{settings: st, log: log, node: strconv.Itoa(int(node)), set: map[string]brokerTuning{}}
}

// replay takes a record of the settings.
func (b *tunedBrokers) replay(what, value []byte) error {
	var name string
	if err := json.Unmarshal(what, &name); err != nil {
		return err
	}
	var t brokerTuning
	if value != nil {
		if err := json.Unmarshal(value, &t); err != nil {
			return err
		}
	}
	b.put(name, t)
	return nil
}

func (b *tunedBrokers) put(name string, t brokerTuning) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set[name] = t; t == (brokerTuning{}) {
		delete(b.set, name)
	}
}

// levels gives what was set at this node and for all.
func (b *tunedBrokers) levels() (node, all brokerTuning) {
	if b == nil { // a gateway has none
		return node, all
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.set[b.node], b.set[""]
}

// inForce is what holds at this node; what is open there the flags say.
func (b *tunedBrokers) inForce() brokerTuning {
	node, all := b.levels()
	return node.over(all)
}

// change checks a change of this node's settings or, where name is empty, of all nodes', makes it durable, and puts it into force; dry only checks.
func (b *tunedBrokers) change(ctx context.Context, name string, dry bool, change func(*brokerTuning) error) error {
	b.settings.mu.Lock()
	defer b.settings.mu.Unlock()
	node, all := b.levels()
	at := &all
	if name != "" {
		at = &node
	}
	was := *at
	if err := change(at); err != nil {
		return err
	}
	for _, t := range []brokerTuning{node.over(all), all} { // all must do for itself: the next start may be that of another node
		if err := t.Topics.Over(topicDefaults(b.log)).Check(); err != nil {
			return err
		}
	}
	if dry || *at == was {
		return nil
	}
	var value any
	if *at != (brokerTuning{}) {
		value = *at
	}
	rec, err := settingRecord(settingBroker, name, value)
	if err != nil {
		return err
	}
	if err := b.settings.topic.append(ctx, []stateRecord{rec}); err != nil { // COMMIT POINT
		return err
	}
	b.put(name, *at)
	return b.use(ctx)
}

// use puts into force what is not looked up each time.
func (b *tunedBrokers) use(ctx context.Context) error {
	log, ok := b.log.(configSetter)
	if !ok {
		return nil
	}
	return log.SetTopicDefaults(ctx, b.inForce().Topics)
}

// changeBroker answers as Kafka does: what is wrong with settings of a broker is an INVALID_REQUEST.
func (s *Server) changeBroker(ch configChange) (int16, error) {
	if ch.name != "" && ch.name != s.brokers.node {
		return codeInvalidRequest, s.otherNode()
	}
	if err := s.fixed(ch.ops); err != nil {
		return codeInvalidRequest, err
	}
	code := codeNone
	err := s.brokers.change(s.hardCtx, ch.name, ch.dry, func(t *brokerTuning) (err error) {
		code, err = applyChange(tunableConfigs(), t, ch)
		return err
	})
	s.topics.invalidate()
	switch {
	case err == nil && !ch.dry:
		s.lg.Info("broker settings changed", "broker", ch.name)
	case errors.Is(err, broker.ErrInvalidTopic): // what the settings are together
		return codeInvalidRequest, err
	case err != nil && code == codeNone:
		code = codeOf(err)
	}
	return code, err
}

func (s *Server) otherNode() error {
	return fmt.Errorf("this node is %d, and the only one", s.cfg.NodeID)
}

// fixed names those of the settings that a broker has and that cannot be changed. They are not set, so they can be deleted.
func (s *Server) fixed(ops []configOp) error {
	tunable := tunableConfigs()
	var names []string
	for _, c := range brokerConfigs(s.cfg, topicDefaults(s.log)) {
		if !slices.ContainsFunc(tunable, func(k configOf[brokerTuning]) bool { return k.name == c.name }) &&
			slices.ContainsFunc(ops, func(op configOp) bool { return op.Name == c.name && op.Op != kmsg.IncrementalAlterConfigOpDelete }) {
			names = append(names, c.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return errors.New("cannot update these configs dynamically: [" + strings.Join(names, ", ") + "]. They are flags of ledgerlake serve, or have one value here")
}

// maxConnections is how many connections there may be now.
func (s *Server) maxConnections() int {
	if n := s.brokers.inForce().MaxConnections; n > 0 {
		return int(n)
	}
	return s.cfg.MaxConnections
}
