package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// LeaveGroup, key 13, versions 0 to 5 (several members from 3).
//
// Each member has its own error. A static member may be named by its instance alone, as admin tools do.
func apiLeaveGroup() api {
	return api{key: 13, name: "LeaveGroup", min: 0, max: 5, handle: (*Server).leaveGroup}
}

func (s *Server) leaveGroup(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.LeaveGroupRequest)
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	if resp.ErrorCode = codeOf(s.allowedGroup(r, acl.Read, req.Group)); resp.ErrorCode != codeNone {
		return resp, nil
	}
	if r.version < 3 {
		resp.ErrorCode = s.groups.leave(req.Group, req.MemberID, "")
		return resp, nil
	}
	for _, m := range req.Members {
		om := kmsg.NewLeaveGroupResponseMember()
		om.MemberID, om.InstanceID = m.MemberID, m.InstanceID
		om.ErrorCode = s.groups.leave(req.Group, m.MemberID, deref(m.InstanceID))
		resp.Members = append(resp.Members, om)
	}
	return resp, nil
}
