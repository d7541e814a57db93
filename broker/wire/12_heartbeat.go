package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// Heartbeat, key 12, versions 0 to 4.
//
// Prolongs the session. REBALANCE_IN_PROGRESS tells the member to join again.
func apiHeartbeat() api {
	return api{key: 12, name: "Heartbeat", min: 0, max: 4, handle: (*Server).heartbeat}
}

func (s *Server) heartbeat(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.HeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	if resp.ErrorCode = codeOf(s.allowedGroup(r, acl.Read, req.Group)); resp.ErrorCode == codeNone {
		resp.ErrorCode = s.groups.heartbeat(req)
	}
	return resp, nil
}
