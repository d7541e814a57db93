package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// SyncGroup, key 14, versions 0 to 5.
//
// The leader brings the assignment of all; the others wait for it. A rebalance that begins meanwhile ends
// the wait with REBALANCE_IN_PROGRESS.
func apiSyncGroup() api {
	return api{key: 14, name: "SyncGroup", min: 0, max: 5, handle: (*Server).syncGroup}
}

func (s *Server) syncGroup(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.SyncGroupRequest)
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	if err := s.allowedGroup(r, acl.Read, req.Group); err != nil {
		resp.ErrorCode, resp.MemberAssignment = codeOf(err), []byte{}
		return resp, nil
	}
	r.body = nil
	res, err := s.groups.sync(r.ctx, req, r.drop)
	if err != nil {
		return nil, err
	}
	resp.ErrorCode = res.code
	resp.MemberAssignment = res.assignment
	if resp.MemberAssignment == nil {
		resp.MemberAssignment = []byte{}
	}
	if res.code == codeNone {
		resp.ProtocolType, resp.Protocol = &res.protocolType, &res.protocol
	}
	return resp, nil
}
