package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

// configSetter is a Log that can change the settings of a topic. Zero values mean the defaults.
type configSetter interface {
	SetTopicConfig(ctx context.Context, name string, cfg broker.TopicConfig) error
}

// IncrementalAlterConfigs, key 44, versions 0 to 1, when the Log can change settings.
//
// Sets settings of topics or puts them back to their defaults. Lists are set as a whole: append and subtract
// are refused, and so are settings of brokers. All changes of one topic are made, or none.
func apiIncrementalAlterConfigs() api {
	return api{key: 44, name: "IncrementalAlterConfigs", min: 0, max: 1, handle: (*Server).alterConfigs}
}

func (s *Server) alterConfigs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for _, rr := range req.Resources {
		o := kmsg.NewIncrementalAlterConfigsResponseResource()
		o.ResourceType, o.ResourceName = rr.ResourceType, rr.ResourceName
		var err error
		if rr.ResourceType != kmsg.ConfigResourceTypeTopic {
			o.ErrorCode, err = codeInvalidRequest, errors.New("only the settings of topics can be changed")
		} else {
			o.ErrorCode, err = s.alterTopic(rr.ResourceName, rr.Configs, req.ValidateOnly)
		}
		o.ErrorMessage = msgOf(err)
		resp.Resources = append(resp.Resources, o)
	}
	return resp, nil
}

func (s *Server) alterTopic(name string, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig, dry bool) (int16, error) {
	if internalTopic(name) {
		return codeInvalidTopic, errInternalTopic
	}
	s.alter.Lock()
	defer s.alter.Unlock()
	s.topics.invalidate() // changes build on what the Log has now
	in, err := s.topics.get(s.hardCtx, name)
	if err != nil {
		return codeOf(err), err
	}
	cfg, known := in.Config, topicConfigs()
	for _, ch := range changes {
		i := slices.IndexFunc(known, func(c topicConfig) bool { return c.name == ch.Name })
		if i < 0 {
			return codeInvalidConfig, fmt.Errorf("unknown topic setting %q", ch.Name)
		}
		switch {
		case ch.Op == kmsg.IncrementalAlterConfigOpDelete:
			known[i].zero(&cfg)
			continue
		case ch.Op != kmsg.IncrementalAlterConfigOpSet:
			return codeInvalidConfig, fmt.Errorf("topic setting %s: lists are set as a whole", ch.Name)
		case ch.Value == nil:
			return codeInvalidConfig, fmt.Errorf("topic setting %s: null value", ch.Name)
		}
		if err := known[i].set(&cfg, *ch.Value); err != nil {
			return codeInvalidConfig, fmt.Errorf("topic setting %s: %w", ch.Name, err)
		}
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
