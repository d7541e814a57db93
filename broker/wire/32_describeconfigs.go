package wire

import (
	"errors"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DescribeConfigs, key 32, versions 1 to 4.
//
// Topics: the settings that are honoured, with their source. Brokers: the few settings of this server that
// clients look for, all read-only.
func apiDescribeConfigs() api {
	return api{key: 32, name: "DescribeConfigs", min: 1, max: 4, handle: (*Server).describeConfigs}
}

func (s *Server) describeConfigs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for _, rr := range req.Resources {
		or := kmsg.NewDescribeConfigsResponseResource()
		or.ResourceType, or.ResourceName = rr.ResourceType, rr.ResourceName
		var all []kmsg.DescribeConfigsResponseResourceConfig
		var err error
		switch rr.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			if err = s.allowedTopic(r, acl.DescribeConfigs, rr.ResourceName); err == nil {
				all, err = s.topicConfigEntries(r, rr.ResourceName)
			}
			or.ErrorCode = codeOf(err)
		case kmsg.ConfigResourceTypeBroker:
			if err = s.allowedCluster(r, acl.DescribeConfigs); err != nil {
				or.ErrorCode = codeOf(err)
			} else if all, err = s.brokerConfigEntries(rr.ResourceName); err != nil {
				or.ErrorCode = codeInvalidRequest
			}
		default:
			or.ErrorCode, err = codeInvalidRequest, errors.New("only topics and brokers have settings here")
		}
		or.ErrorMessage = msgOf(err)
		if err := s.charge(r, 512*len(all)); err != nil {
			return nil, err
		}
		for _, c := range all {
			if rr.ConfigNames != nil && !slices.Contains(rr.ConfigNames, c.Name) {
				continue
			}
			if !req.IncludeSynonyms {
				c.ConfigSynonyms = nil
			}
			if !req.IncludeDocumentation {
				c.Documentation = nil
			}
			or.Configs = append(or.Configs, c)
		}
		resp.Resources = append(resp.Resources, or)
	}
	return resp, nil
}

func configSource(isDefault bool) kmsg.ConfigSource {
	if isDefault {
		return kmsg.ConfigSourceDefaultConfig
	}
	return kmsg.ConfigSourceDynamicTopicConfig
}

func configEntry(name, value, doc string, typ kmsg.ConfigType, src kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ConfigType, c.Documentation, c.Source = name, &value, typ, &doc, src
	c.IsDefault = src == kmsg.ConfigSourceDefaultConfig
	syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	syn.Name, syn.Value, syn.Source = name, &value, src
	c.ConfigSynonyms = append(c.ConfigSynonyms, syn)
	return c
}

func (s *Server) topicConfigEntries(r *request, topic string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	in, err := s.topics.get(r.ctx, topic)
	if err != nil {
		return nil, err
	}
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, c := range topicConfigs() {
		value, isDefault := c.get(in.Config)
		out = append(out, configEntry(c.name, value, c.doc, c.typ, configSource(isDefault)))
	}
	return out, nil
}

func (s *Server) brokerConfigEntries(name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if name != "" && name != strconv.Itoa(int(s.cfg.NodeID)) {
		return nil, errors.New("this node is " + strconv.Itoa(int(s.cfg.NodeID)) + ", and the only one")
	}
	if name == "" {
		return nil, nil // dynamic defaults of all brokers: there are none
	}
	entry := func(name, value string, typ kmsg.ConfigType) kmsg.DescribeConfigsResponseResourceConfig {
		c := configEntry(name, value, "", typ, kmsg.ConfigSourceStaticBrokerConfig)
		c.ReadOnly = true
		return c
	}
	return []kmsg.DescribeConfigsResponseResourceConfig{
		entry("auto.create.topics.enable", strconv.FormatBool(s.cfg.AutoCreateTopics), kmsg.ConfigTypeBoolean),
		entry("broker.id", strconv.Itoa(int(s.cfg.NodeID)), kmsg.ConfigTypeInt),
		entry("default.replication.factor", "1", kmsg.ConfigTypeInt),
		entry("node.id", strconv.Itoa(int(s.cfg.NodeID)), kmsg.ConfigTypeInt),
		entry("num.partitions", strconv.Itoa(int(s.cfg.DefaultPartitions)), kmsg.ConfigTypeInt),
		entry("socket.request.max.bytes", strconv.Itoa(s.cfg.MaxRequestBytes), kmsg.ConfigTypeInt),
	}, nil
}
