package wire

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// ListConfigResources, key 74, versions 0 to 1 (kinds of resources from 1; before, client metrics alone, of which there are none here).
//
// Which resources have settings: topics, this broker, and the groups that have some of their own. Needs DescribeConfigs on
// the cluster.
func apiListConfigResources() api {
	return api{key: 74, name: "ListConfigResources", min: 0, max: 1, handle: (*Server).listConfigResources}
}

func (s *Server) listConfigResources(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ListConfigResourcesRequest)
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if err := s.allowedCluster(r, acl.DescribeConfigs); err != nil {
		resp.ErrorCode = codeOf(err)
		return resp, nil
	}
	kinds := []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeClientMetrics}
	if r.version > 0 {
		kinds = []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
			kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig}
		if asked := req.ResourceTypes; len(asked) > 0 {
			for _, k := range asked {
				if !slices.Contains(kinds, kmsg.ConfigResourceType(k)) {
					resp.ErrorCode = codeUnsupportedVersion
					return resp, nil
				}
			}
			kinds = slices.DeleteFunc(kinds, func(k kmsg.ConfigResourceType) bool { return !slices.Contains(asked, int8(k)) })
		}
	}
	for _, kind := range kinds {
		names, err := s.configResources(r, kind)
		if err != nil {
			resp.ErrorCode, resp.ConfigResources = codeOf(err), nil
			return resp, nil
		}
		for _, name := range names {
			if err := s.charge(r, 64+len(name)); err != nil {
				return nil, err
			}
			resp.ConfigResources = append(resp.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: int8(kind)})
		}
	}
	return resp, nil
}

func (s *Server) configResources(r *request, kind kmsg.ConfigResourceType) (names []string, err error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		all, err := s.topics.all(r.ctx)
		if err != nil {
			return nil, err
		}
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
	case kmsg.ConfigResourceTypeBroker:
		names = []string{strconv.Itoa(int(s.cfg.NodeID))}
	case kmsg.ConfigResourceTypeGroupConfig:
		names = s.tuned.names()
	}
	return names, nil
}
