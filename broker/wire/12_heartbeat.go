package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// Heartbeat, key 12, versions 0 to 4.
//
// Prolongs the session. REBALANCE_IN_PROGRESS tells the member to join again.
func apiHeartbeat() api {
	return api{key: 12, name: "Heartbeat", min: 0, max: 4, handle: (*Server).heartbeat}
}

func (s *Server) heartbeat(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.HeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = s.groups.heartbeat(req)
	return resp, nil
}
