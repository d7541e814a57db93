package wire

import (
	"bytes"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// JoinGroup, key 11, versions 0 to 9.
//
// From version 4 a member without an id is given one first (MEMBER_ID_REQUIRED); static members (from 5) come
// back without a rebalance when their subscription is the same. The request waits until all members have
// joined or the rebalance timeout is over; an empty group waits Config.GroupJoinDelay for more members.
func apiJoinGroup() api {
	return api{key: 11, name: "JoinGroup", min: 0, max: 9, handle: (*Server).joinGroup}
}

func (s *Server) joinGroup(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.JoinGroupRequest)
	if err := s.allowedGroup(r, acl.Read, req.Group); err != nil {
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode, resp.Generation, resp.MemberID = codeOf(err), -1, req.MemberID
		if r.version < 7 {
			resp.Protocol = new(string)
		}
		return resp, nil
	}
	j := joinRequest{
		group: req.Group, member: req.MemberID, instance: deref(req.InstanceID),
		clientID: r.clientID, host: "/" + r.host,
		session:      time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		rebalance:    time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		protocolType: req.ProtocolType,
		requireID:    r.version >= 4,
		canSkip:      r.version >= 9,
	}
	if r.version == 0 || j.rebalance <= 0 {
		j.rebalance = j.session
	}
	for _, p := range req.Protocols {
		j.protocols = append(j.protocols, protocol{name: p.Name, metadata: bytes.Clone(p.Metadata)})
	}
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	r.body = nil
	r.drop() // what is kept of it has been copied
	res, err := s.groups.join(r.ctx, j)
	if err != nil {
		return nil, err
	}
	resp.ErrorCode, resp.Generation, resp.LeaderID, resp.MemberID = res.code, res.generation, res.leader, res.member
	resp.Members, resp.SkipAssignment = res.members, res.skip
	if res.code != codeNone {
		resp.Generation = -1
	}
	if res.code == codeNone {
		resp.ProtocolType, resp.Protocol = &res.protocolType, &res.protocol
	} else if r.version < 7 {
		resp.Protocol = new(string) // null from version 7 on
	}
	return resp, nil
}
