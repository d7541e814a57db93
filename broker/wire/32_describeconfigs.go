package wire

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DescribeConfigs, key 32, versions 1 to 4.
//
// Topics and groups: the settings that are honoured, with their source. Brokers: what holds at this server, all
// read-only. A group need not be there.
func apiDescribeConfigs() api {
	return api{key: 32, name: "DescribeConfigs", min: 1, max: 4, handle: (*Server).describeConfigs}
}

type configEntries = []kmsg.DescribeConfigsResponseResourceConfig

func (s *Server) describeConfigs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for _, rr := range req.Resources {
		or := kmsg.NewDescribeConfigsResponseResource()
		or.ResourceType, or.ResourceName = rr.ResourceType, rr.ResourceName
		all, code, err := s.configEntriesOf(r, rr.ResourceType, rr.ResourceName)
		or.ErrorCode, or.ErrorMessage = code, msgOf(err)
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

// configEntriesOf gives the settings of one resource. The right is looked at first.
func (s *Server) configEntriesOf(r *request, kind kmsg.ConfigResourceType, name string) (all configEntries, code int16, err error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if err = s.allowedTopic(r, acl.DescribeConfigs, name); err == nil {
			all, err = s.topicConfigEntries(r, name)
		}
		return all, codeOf(err), err
	case kmsg.ConfigResourceTypeGroupConfig:
		if err = s.allowedGroup(r, acl.DescribeConfigs, name); err != nil {
			return nil, codeOf(err), err
		}
		if name == "" {
			return nil, codeInvalidRequest, errors.New("the group has no name")
		}
		known := groupConfigs(s.cfg)
		all = entriesOf(known, s.tuned.of(name), kmsg.ConfigSourceGroupConfig)
		addDefaults(all, entriesOf(known, groupConfig{}, kmsg.ConfigSourceGroupConfig), func(name string) string { return "group." + name })
		return all, codeNone, nil
	case kmsg.ConfigResourceTypeBroker:
		if err = s.allowedCluster(r, acl.DescribeConfigs); err != nil {
			return nil, codeOf(err), err
		}
		if all, err = s.brokerConfigEntries(name); err != nil {
			return nil, codeInvalidRequest, err
		}
		return all, codeNone, nil
	}
	return nil, codeInvalidRequest, fmt.Errorf("%s: only topics, groups and brokers have settings here", kindName(kind))
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

// entriesOf shows what cfg says, with the source of what is set.
func entriesOf[T any](known []configOf[T], cfg T, set kmsg.ConfigSource) (out configEntries) {
	for _, c := range known {
		value, isDefault := c.get(cfg)
		src := set
		if isDefault {
			src = kmsg.ConfigSourceDefaultConfig
		}
		out = append(out, configEntry(c.name, value, c.doc, c.typ, src))
	}
	return out
}

func (s *Server) topicConfigEntries(r *request, topic string) (configEntries, error) {
	in, err := s.topics.get(r.ctx, topic)
	if err != nil {
		return nil, err
	}
	out := entriesOf(topicConfigs(), in.Config, kmsg.ConfigSourceDynamicTopicConfig)
	defaults := entriesOf(topicConfigs(), s.topicDefaults(), kmsg.ConfigSourceStaticBrokerConfig)
	addDefaults(out, defaults, brokerName)
	return out, nil
}

// addDefaults shows behind each setting the broker's default of it, under the broker's name for it, where it has one.
func addDefaults(entries, defaults configEntries, nameOf func(string) string) {
	for i, d := range defaults {
		name := nameOf(d.Name)
		if name == "" {
			continue
		}
		syn := d.ConfigSynonyms[0]
		if syn.Name = name; entries[i].IsDefault {
			entries[i].ConfigSynonyms = nil
		}
		entries[i].ConfigSynonyms = append(entries[i].ConfigSynonyms, syn)
	}
}
