package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// IncrementalAlterConfigs, key 44, versions 0 to 1, when the Log can change settings.
//
// Sets settings of topics, groups and brokers, puts them back to their defaults, and adds to lists and takes from them. Of brokers some can be
// changed, of this node or, without a name, of all (KIP-226); the others are refused as Kafka refuses them. All changes of one resource are made, or none.
func apiIncrementalAlterConfigs() api {
	return api{key: 44, name: "IncrementalAlterConfigs", min: 0, max: 1, handle: (*Server).incrementalAlterConfigs}
}

func (s *Server) incrementalAlterConfigs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	var changes []configChange
	for _, rr := range req.Resources {
		changes = append(changes, configChange{kind: rr.ResourceType, name: rr.ResourceName, ops: rr.Configs, dry: req.ValidateOnly})
	}
	s.changeConfigs(r, changes, func(ch configChange, code int16, message *string) {
		o := kmsg.NewIncrementalAlterConfigsResponseResource()
		o.ResourceType, o.ResourceName, o.ErrorCode, o.ErrorMessage = ch.kind, ch.name, code, message
		resp.Resources = append(resp.Resources, o)
	})
	return resp, nil
}
