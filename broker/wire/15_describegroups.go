package wire

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DescribeGroups, key 15, versions 0 to 6.
//
// Classic groups only. An unknown group is Dead, and from version 6 on GROUP_ID_NOT_FOUND. A group that only has positions is Empty.
func apiDescribeGroups() api {
	return api{key: 15, name: "DescribeGroups", min: 0, max: 6, handle: (*Server).describeGroups}
}

func (s *Server) describeGroups(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range req.Groups {
		if err := s.allowedGroup(r, acl.Describe, name); err != nil {
			og := kmsg.NewDescribeGroupsResponseGroup()
			og.Group, og.ErrorCode, og.ErrorMessage = name, codeOf(err), msgOf(err)
			resp.Groups = append(resp.Groups, og)
			continue
		}
		if err := s.charge(r, s.groups.describedBytes(name)); err != nil {
			return nil, err
		}
		og := s.groups.describe(name, r.version)
		if req.IncludeAuthorizedOperations {
			og.AuthorizedOperations = s.operations(r, acl.Group, name)
		}
		resp.Groups = append(resp.Groups, og)
	}
	return resp, nil
}

func (c *coordinator) describe(name string, version int16) kmsg.DescribeGroupsResponseGroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group = name
	g := c.groups[name]
	if g == nil {
		if c.consumers[name] != nil || c.isShare(name) {
			out.State = string(stateDead)
			out.ErrorCode, out.ErrorMessage = codeGroupIDNotFound, msgOf(errors.New("the group is not a classic one"))
			return out
		}
		if c.offsets.has(name) {
			out.State = string(stateEmpty)
			return out
		}
		out.State = string(stateDead)
		if version >= 6 {
			out.ErrorCode, out.ErrorMessage = codeGroupIDNotFound, msgOf(fmt.Errorf("there is no group %q", name))
		}
		return out
	}
	out.State, out.ProtocolType = string(g.state), g.protocolType
	settled := g.state == stateStable
	if settled {
		out.Protocol = g.protocol
	}
	for _, m := range g.members {
		om := kmsg.NewDescribeGroupsResponseGroupMember()
		om.MemberID, om.ClientID, om.ClientHost = m.id, m.clientID, m.host
		if m.instance != "" {
			om.InstanceID = &m.instance
		}
		om.ProtocolMetadata, om.MemberAssignment = []byte{}, []byte{}
		if settled {
			om.ProtocolMetadata = append(om.ProtocolMetadata, m.metadata(g.protocol)...)
			om.MemberAssignment = append(om.MemberAssignment, m.assignment...)
		}
		out.Members = append(out.Members, om)
	}
	return out
}

// describedBytes is about what the description of a group takes.
func (c *coordinator) describedBytes(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int64(256 + len(name))
	if g := c.groups[name]; g != nil {
		for _, m := range g.members {
			n += m.weight + int64(len(m.assignment))
		}
	}
	if g := c.consumers[name]; g != nil {
		for _, m := range g.members {
			n += m.weight + 64*int64(len(m.has)+len(m.target))
		}
	}
	if g := c.shares[name]; g != nil {
		for _, m := range g.members {
			n += m.weight + 32*int64(len(m.has))
		}
	}
	return int(n)
}
