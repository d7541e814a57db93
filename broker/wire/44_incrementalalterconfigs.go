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

// configSetter is a Log that can change the settings of a topic. Zero values mean the defaults.
type configSetter interface {
	SetTopicConfig(ctx context.Context, name string, cfg broker.TopicConfig) error
}

// IncrementalAlterConfigs, key 44, versions 0 to 1, when the Log can change settings.
//
// Sets settings of topics, puts them back to their defaults, and adds to lists and takes from them. Settings of
// brokers are refused. All changes of one topic are made, or none.
func apiIncrementalAlterConfigs() api {
	return api{key: 44, name: "IncrementalAlterConfigs", min: 0, max: 1, handle: (*Server).incrementalAlterConfigs}
}

func (s *Server) incrementalAlterConfigs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for _, rr := range req.Resources {
		o := kmsg.NewIncrementalAlterConfigsResponseResource()
		o.ResourceType, o.ResourceName = rr.ResourceType, rr.ResourceName
		var err error
		o.ErrorCode, err = s.changeConfig(r, rr.ResourceType, rr.ResourceName, req.ValidateOnly, func(cfg *broker.TopicConfig) error {
			return changeSettings(cfg, rr.Configs)
		})
		o.ErrorMessage = msgOf(err)
		resp.Resources = append(resp.Resources, o)
	}
	return resp, nil
}

func changeSettings(cfg *broker.TopicConfig, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	known := topicConfigs()
	for _, ch := range changes {
		i := slices.IndexFunc(known, func(c topicConfig) bool { return c.name == ch.Name })
		switch {
		case i < 0:
			return fmt.Errorf("unknown topic setting %q", ch.Name)
		case ch.Op == kmsg.IncrementalAlterConfigOpDelete:
			known[i].zero(cfg)
			continue
		case ch.Value == nil:
			return fmt.Errorf("topic setting %s: null value", ch.Name)
		}
		value, err := changedValue(known[i], *cfg, ch.Op, *ch.Value)
		if err == nil {
			err = known[i].set(cfg, value)
		}
		if err != nil {
			return fmt.Errorf("topic setting %s: %w", ch.Name, err)
		}
	}
	return nil
}

// changedValue gives what a setting is set to: the value itself or, for a list, the list with or without its entries.
func changedValue(c topicConfig, cfg broker.TopicConfig, op kmsg.IncrementalAlterConfigOp, value string) (string, error) {
	if op == kmsg.IncrementalAlterConfigOpSet {
		return value, nil
	}
	if c.typ != kmsg.ConfigTypeList {
		return "", errors.New("it is no list: nothing can be added to it or taken from it")
	}
	has, _ := c.get(cfg)
	list := strings.Split(has, ",")
	for _, v := range strings.Split(value, ",") {
		v = strings.TrimSpace(v)
		at := slices.Index(list, v)
		switch op {
		case kmsg.IncrementalAlterConfigOpAppend:
			if at < 0 {
				list = append(list, v)
			}
		case kmsg.IncrementalAlterConfigOpSubtract:
			if at >= 0 {
				list = slices.Delete(list, at, at+1)
			}
		default:
			return "", fmt.Errorf("operation %d is not known", op)
		}
	}
	return strings.Join(list, ","), nil
}

// changeConfig makes a change of a topic's settings, or only checks it. An error of change is the client's.
func (s *Server) changeConfig(r *request, kind kmsg.ConfigResourceType, name string, dry bool, change func(*broker.TopicConfig) error) (int16, error) {
	if kind != kmsg.ConfigResourceTypeTopic {
		if err := s.allowedCluster(r, acl.AlterConfigs); err != nil {
			return codeOf(err), err
		}
		return codeInvalidRequest, errors.New("only the settings of topics can be changed")
	}
	if err := s.allowedTopic(r, acl.AlterConfigs, name); err != nil {
		return codeOf(err), err
	}
	if internalTopic(name) {
		return codeOf(errInternalTopic), errInternalTopic
	}
	s.alter.Lock()
	defer s.alter.Unlock()
	s.topics.invalidate() // changes build on what the Log has now
	in, err := s.topics.get(s.hardCtx, name)
	if err != nil {
		return codeOf(err), err
	}
	cfg := in.Config
	if err := change(&cfg); err != nil {
		return codeInvalidConfig, err
	}
	if dry {
		return codeNone, nil
	}
	err = s.log.(configSetter).SetTopicConfig(s.hardCtx, name, cfg)
	s.topics.invalidate()
	if err != nil {
		if code := codeOf(err); code != codeInvalidTopic {
			return code, err
		}
		return codeInvalidConfig, err // the name is known to be good
	}
	s.lg.Info("topic settings changed", "topic", name)
	return codeNone, nil
}
