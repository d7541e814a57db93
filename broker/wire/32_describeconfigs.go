package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DescribeConfigs, key 32, versions 1 to 4.
//
// Topics and groups: the settings that are honoured, with their source. Brokers: what holds at this server; what cannot be changed
// while it runs is read-only. A group need not be there.
func apiDescribeConfigs() api {
	return api{key: 32, name: "DescribeConfigs", min: 1, max: 4, handle: (*Server).describeConfigs}
}

type configEntries = []kmsg.DescribeConfigsResponseResourceConfig

func (s *Server) describeConfigs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	said := sync.OnceValue(s.brokerSaid)
	for _, rr := range req.Resources {
		or := kmsg.NewDescribeConfigsResponseResource()
		or.ResourceType, or.ResourceName = rr.ResourceType, rr.ResourceName
		all, code, err := s.configEntriesOf(r, rr.ResourceType, rr.ResourceName, said)
		or.ErrorCode, or.ErrorMessage = code, msgOf(err)
		if err := s.charge(r, 768*len(all)); err != nil {
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
func (s *Server) configEntriesOf(r *request, kind kmsg.ConfigResourceType, name string, said func() map[string]synonyms) (all configEntries, code int16, err error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if err = s.allowedTopic(r, acl.DescribeConfigs, name); err == nil {
			var in broker.TopicInfo
			if in, err = s.topics.get(r.ctx, name); err == nil {
				all = topicEntries(in.Own, said())
			}
		}
		return all, codeOf(err), err
	case kmsg.ConfigResourceTypeGroupConfig:
		if err = s.allowedGroup(r, acl.DescribeConfigs, name); err != nil {
			return nil, codeOf(err), err
		}
		if name == "" {
			return nil, codeInvalidRequest, errors.New("the group has no name")
		}
		all = layered(groupConfigs(s.cfg), s.tuned.of(name), kmsg.ConfigSourceGroupConfig, said(), func(name string) string { return "group." + name })
		return all, codeNone, nil
	case kmsg.ConfigResourceTypeBroker:
		if err = s.allowedCluster(r, acl.DescribeConfigs); err != nil {
			return nil, codeOf(err), err
		}
		if all, err = s.brokerConfigEntries(name, said()); err != nil {
			return nil, codeInvalidRequest, err
		}
		return all, codeNone, nil
	}
	return nil, codeInvalidRequest, fmt.Errorf("%s: only topics, groups and brokers have settings here", kindName(kind))
}

// configEntry is a setting as what is said of it first.
func configEntry(name, doc string, typ kmsg.ConfigType, syns synonyms) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ConfigType, c.Documentation, c.Source = name, syns[0].Value, typ, &doc, syns[0].Source
	c.IsDefault = c.Source == kmsg.ConfigSourceDefaultConfig
	c.ConfigSynonyms = syns
	return c
}

// layered shows what was set at one resource over what is said of the broker's settings that are its defaults.
func layered[T any](known []configOf[T], own T, set kmsg.ConfigSource, said map[string]synonyms, below func(string) string) (out configEntries) {
	var none T
	for _, c := range known {
		name := below(c.name)
		syns := said[name]
		if len(syns) == 0 {
			dflt, _ := c.get(none)
			syns = synonyms{synonym(cmp.Or(name, c.name), dflt, kmsg.ConfigSourceDefaultConfig)}
		}
		if value, open := c.get(own); !open {
			syns = append(synonyms{synonym(c.name, value, set)}, syns...)
		}
		out = append(out, configEntry(c.name, c.doc, c.typ, syns))
	}
	return out
}

func topicEntries(own broker.TopicConfig, said map[string]synonyms) configEntries {
	return layered(topicConfigs(), own, kmsg.ConfigSourceDynamicTopicConfig, said, brokerName)
}
