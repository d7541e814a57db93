package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// configSetter is a Log that can change the settings of a topic and what topics have that leave them open.
type configSetter interface {
	SetTopicConfig(ctx context.Context, name string, cfg broker.TopicConfig) error
	// TopicDefaults leave nothing open. SetTopicDefaults puts settings over them, for all topics and at once.
	TopicDefaults() broker.TopicConfig
	SetTopicDefaults(ctx context.Context, cfg broker.TopicConfig) error
}

// configOp is one change of a setting.
type configOp = kmsg.IncrementalAlterConfigsRequestResourceConfig

// configChange is what a request asks for of the settings of one topic, group or broker: all of it is done, or nothing.
type configChange struct {
	kind    kmsg.ConfigResourceType
	name    string
	replace bool // what is not named goes back to its default
	ops     []configOp
	dry     bool // only checks
}

// twice names a resource that stands twice in a request, or nil.
func twice(changes []configChange) error {
	seen := map[string]bool{}
	for _, ch := range changes {
		id := fmt.Sprint(ch.kind, " ", ch.name)
		if seen[id] {
			return fmt.Errorf("%s %q stands twice in the request", kindName(ch.kind), ch.name)
		}
		seen[id] = true
	}
	return nil
}

func kindName(kind kmsg.ConfigResourceType) string {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return "topic"
	case kmsg.ConfigResourceTypeBroker:
		return "broker"
	case kmsg.ConfigResourceTypeGroupConfig:
		return "group"
	}
	return strings.ToLower(kind.String())
}

// changeConfigs makes the changes of a request and answers each of them. None is made when a resource stands there twice.
func (s *Server) changeConfigs(r *request, changes []configChange, answer func(ch configChange, code int16, message *string)) {
	bad := twice(changes)
	for _, ch := range changes {
		code, err := codeInvalidRequest, bad
		if bad == nil {
			code, err = s.changeConfig(r, ch)
		}
		answer(ch, code, msgOf(err))
	}
}

// changeConfig makes a change, or only checks it.
func (s *Server) changeConfig(r *request, ch configChange) (int16, error) {
	switch ch.kind {
	case kmsg.ConfigResourceTypeTopic:
		if err := s.allowedTopic(r, acl.AlterConfigs, ch.name); err != nil {
			return codeOf(err), err
		}
		return s.changeTopic(ch)
	case kmsg.ConfigResourceTypeGroupConfig:
		if err := s.allowedGroup(r, acl.AlterConfigs, ch.name); err != nil {
			return codeOf(err), err
		}
		return s.changeGroup(ch)
	}
	if err := s.allowedCluster(r, acl.AlterConfigs); err != nil {
		return codeOf(err), err
	}
	if ch.kind != kmsg.ConfigResourceTypeBroker {
		return codeInvalidRequest, fmt.Errorf("%s: only topics, groups and brokers have settings that can be changed here", kindName(ch.kind))
	}
	return s.changeBroker(ch)
}

func (s *Server) changeTopic(ch configChange) (int16, error) {
	if ch.name == "" {
		return codeInvalidRequest, errors.New("there are no defaults of topics to change here: name the topic")
	}
	if internalTopic(ch.name) {
		return codeOf(errInternalTopic), errInternalTopic
	}
	s.alter.Lock()
	defer s.alter.Unlock()
	s.topics.invalidate() // changes build on what the Log has now
	in, err := s.topics.get(s.hardCtx, ch.name)
	if err != nil {
		return codeOf(err), err
	}
	cfg := in.Own
	if code, err := applyChange(topicConfigs(), &cfg, ch); err != nil || ch.dry {
		return code, err
	}
	err = s.log.(configSetter).SetTopicConfig(s.hardCtx, ch.name, cfg)
	s.topics.invalidate()
	if err != nil {
		if code := codeOf(err); code != codeInvalidTopic {
			return code, err
		}
		return codeInvalidConfig, err // the name is known to be good
	}
	s.lg.Info("topic settings changed", "topic", ch.name)
	return codeNone, nil
}

func (s *Server) changeGroup(ch configChange) (int16, error) {
	if ch.name == "" {
		return codeInvalidRequest, errors.New("there are no defaults of groups to change here: name the group")
	}
	code := codeNone
	err := s.tuned.change(s.hardCtx, ch.name, ch.dry, func(cfg *groupConfig) (err error) {
		if code, err = applyChange(groupConfigs(s.cfg), cfg, ch); err == nil {
			if err = cfg.check(s.cfg); err != nil {
				code = codeInvalidConfig
			}
		}
		return err
	})
	switch {
	case err == nil && !ch.dry:
		s.lg.Info("group settings changed", "group", ch.name)
	case errors.Is(err, errNoMemory):
		return codePolicyViolation, err
	case err != nil && code == codeNone:
		return codeOf(err), err
	}
	return code, err
}

// applyChange changes cfg; after an error, which is the client's, it is worth nothing.
func applyChange[T any](known []configOf[T], cfg *T, ch configChange) (int16, error) {
	if ch.replace {
		for _, k := range known {
			k.zero(cfg)
		}
	}
	what, seen := kindName(ch.kind), map[string]bool{}
	for _, op := range ch.ops {
		if seen[op.Name] {
			return codeInvalidRequest, fmt.Errorf("%s setting %s stands twice in the request", what, op.Name)
		}
		seen[op.Name] = true
		i := slices.IndexFunc(known, func(k configOf[T]) bool { return k.name == op.Name })
		if i < 0 && op.Op == kmsg.IncrementalAlterConfigOpDelete {
			continue // it is not set, as was asked for
		}
		if i < 0 {
			return codeInvalidConfig, fmt.Errorf("unknown %s setting %q", what, op.Name)
		}
		if err := known[i].apply(cfg, op); err != nil {
			return ch.badValue(err), fmt.Errorf("%s setting %s: %w", what, op.Name, err)
		}
	}
	return codeNone, nil
}

// errNoList refuses to add to or take from what has one value.
var errNoList = errors.New("it is no list: nothing can be added to it or taken from it")

// badValue is what Kafka answers to a value that a setting cannot have.
func (ch configChange) badValue(err error) int16 {
	if ch.kind == kmsg.ConfigResourceTypeBroker && !errors.Is(err, errNoList) {
		return codeInvalidRequest
	}
	return codeInvalidConfig
}

func (c configOf[T]) apply(cfg *T, op configOp) error {
	switch {
	case op.Op == kmsg.IncrementalAlterConfigOpDelete:
		c.zero(cfg)
		return nil
	case op.Value == nil:
		return errors.New("null value")
	}
	value, err := c.changed(*cfg, op)
	if err != nil {
		return err
	}
	return c.set(cfg, value)
}

// changed gives what a setting is set to: the value itself or, for a list, the list with or without its entries.
func (c configOf[T]) changed(cfg T, op configOp) (string, error) {
	if op.Op == kmsg.IncrementalAlterConfigOpSet {
		return *op.Value, nil
	}
	if c.typ != kmsg.ConfigTypeList {
		return "", errNoList
	}
	has, _ := c.get(cfg)
	list := strings.Split(has, ",")
	for v := range strings.SplitSeq(*op.Value, ",") {
		v = strings.TrimSpace(v)
		at := slices.Index(list, v)
		switch op.Op {
		case kmsg.IncrementalAlterConfigOpAppend:
			if at < 0 {
				list = append(list, v)
			}
		case kmsg.IncrementalAlterConfigOpSubtract:
			if at >= 0 {
				list = slices.Delete(list, at, at+1)
			}
		default:
			return "", fmt.Errorf("operation %d is not known", op.Op)
		}
	}
	return strings.Join(list, ","), nil
}

// applyConfigs reads the settings of a CreateTopics request.
func applyConfigs(cfg *broker.TopicConfig, in []kmsg.CreateTopicsRequestTopicConfig) error {
	ch := configChange{kind: kmsg.ConfigResourceTypeTopic}
	for _, kv := range in {
		ch.ops = append(ch.ops, configOp{Name: kv.Name, Value: kv.Value})
	}
	_, err := applyChange(topicConfigs(), cfg, ch)
	return err
}
