package wire

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DeleteGroups, key 42, versions 0 to 3.
//
// Removes the positions of a group without members, and what a share group knows. A group with members is NON_EMPTY_GROUP.
func apiDeleteGroups() api {
	return api{key: 42, name: "DeleteGroups", min: 0, max: 3, handle: (*Server).deleteGroups}
}

func (s *Server) deleteGroups(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DeleteGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	for _, name := range req.Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group = name
		err := s.allowedGroup(r, acl.Delete, name)
		if err != nil {
			g.ErrorCode = codeOf(err)
		} else if g.ErrorCode, err = s.groups.mayDelete(name); err == nil {
			err = errors.Join(s.offsets.forget(s.hardCtx, name), s.shares.forget(s.hardCtx, name, func(shareKey) bool { return true }))
			if err != nil {
				g.ErrorCode = codeCoordinatorNotAvailable
				s.lg.Error("delete group", "group", name, "err", err)
			} else {
				s.groups.forget(name)
			}
		}
		g.ErrorMessage = msgOf(err)
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

func (c *coordinator) mayDelete(name string) (int16, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[name]
	switch {
	case c.memberCount(name) > 0:
		return codeNonEmptyGroup, errors.New("the group has members")
	case g == nil && !c.offsets.has(name) && !c.shared.has(name):
		return codeGroupIDNotFound, fmt.Errorf("there is no group %q", name)
	}
	return codeNone, nil
}

// forget drops an empty group after its positions are gone.
func (c *coordinator) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.groups[name]; g != nil {
		c.reap(g)
	}
}
