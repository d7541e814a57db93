package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs, key 33, versions 0 to 2, when the Log can change settings.
//
// Replaces all settings of a topic, group or broker: what the request does not name goes back to its default. Old clients know
// no other way; IncrementalAlterConfigs is the better one.
func apiAlterConfigs() api {
	return api{key: 33, name: "AlterConfigs", min: 0, max: 2, handle: (*Server).alterConfigs}
}

func (s *Server) alterConfigs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	var changes []configChange
	for _, rr := range req.Resources {
		ch := configChange{kind: rr.ResourceType, name: rr.ResourceName, replace: true, dry: req.ValidateOnly}
		for _, c := range rr.Configs {
			op := configOp{Name: c.Name, Value: c.Value, Op: kmsg.IncrementalAlterConfigOpSet}
			if c.Value == nil {
				op.Op = kmsg.IncrementalAlterConfigOpDelete // null is the default
			}
			ch.ops = append(ch.ops, op)
		}
		changes = append(changes, ch)
	}
	s.changeConfigs(r, changes, func(ch configChange, code int16, message *string) {
		o := kmsg.NewAlterConfigsResponseResource()
		o.ResourceType, o.ResourceName, o.ErrorCode, o.ErrorMessage = ch.kind, ch.name, code, message
		resp.Resources = append(resp.Resources, o)
	})
	return resp, nil
}
