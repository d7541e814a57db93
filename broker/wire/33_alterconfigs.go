package wire

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

// AlterConfigs, key 33, versions 0 to 2, when the Log can change settings.
//
// Replaces all settings of a topic: what the request does not name goes back to its default. Old clients know
// no other way; IncrementalAlterConfigs is the better one.
func apiAlterConfigs() api {
	return api{key: 33, name: "AlterConfigs", min: 0, max: 2, handle: (*Server).alterConfigs}
}

func (s *Server) alterConfigs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for _, rr := range req.Resources {
		o := kmsg.NewAlterConfigsResponseResource()
		o.ResourceType, o.ResourceName = rr.ResourceType, rr.ResourceName
		var err error
		o.ErrorCode, err = s.changeConfig(r, rr.ResourceType, rr.ResourceName, req.ValidateOnly, func(cfg *broker.TopicConfig) error {
			known := topicConfigs()
			for _, k := range known {
				k.zero(cfg)
			}
			for _, c := range rr.Configs {
				i := slices.IndexFunc(known, func(k topicConfig) bool { return k.name == c.Name })
				switch {
				case i < 0:
					return fmt.Errorf("unknown topic setting %q", c.Name)
				case c.Value == nil:
					continue // the default
				}
				if err := known[i].set(cfg, *c.Value); err != nil {
					return fmt.Errorf("topic setting %s: %w", c.Name, err)
				}
			}
			return nil
		})
		o.ErrorMessage = msgOf(err)
		resp.Resources = append(resp.Resources, o)
	}
	return resp, nil
}
