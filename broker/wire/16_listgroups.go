package wire

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// ListGroups, key 16, versions 0 to 5 (filter by state from 4, by type from 5).
//
// Lists groups that the client may describe, or all when it may describe the cluster: groups with members, of every kind, and groups with positions only.
func apiListGroups() api {
	return api{key: 16, name: "ListGroups", min: 0, max: 5, handle: (*Server).listGroups}
}

func (s *Server) listGroups(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ListGroupsRequest)
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	fold := func(list []string, want string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, want) })
	}
	every := s.allowedCluster(r, acl.Describe) == nil
	for _, g := range s.groups.list() {
		if !every && s.allowedGroup(r, acl.Describe, g.Group) != nil {
			continue
		}
		if fold(req.StatesFilter, g.GroupState) && fold(req.TypesFilter, g.GroupType) {
			if err := s.charge(r, 128+len(g.Group)); err != nil {
				return nil, err
			}
			resp.Groups = append(resp.Groups, g)
		}
	}
	return resp, nil
}

func (c *coordinator) list() []kmsg.ListGroupsResponseGroup {
	stored := c.offsets.names()
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []kmsg.ListGroupsResponseGroup
	add := func(name, protocolType string, st groupState) {
		g := kmsg.NewListGroupsResponseGroup()
		g.Group, g.ProtocolType, g.GroupState, g.GroupType = name, protocolType, string(st), "classic"
		out = append(out, g)
	}
	for name, g := range c.groups {
		if len(g.members) > 0 {
			add(name, g.protocolType, g.state)
		}
	}
	for name, g := range c.consumers {
		add(name, "consumer", g.state())
		out[len(out)-1].GroupType = "consumer"
	}
	for name := range c.shares {
		add(name, kindShare, stateStable)
		out[len(out)-1].GroupType = kindShare
	}
	for _, name := range c.shared.names() {
		if c.shares[name] == nil {
			add(name, kindShare, stateEmpty)
			out[len(out)-1].GroupType = kindShare
		}
	}
	for _, name := range stored {
		g := c.groups[name]
		if c.consumers[name] != nil {
			continue
		}
		if g == nil {
			add(name, "consumer", stateEmpty)
		} else if len(g.members) == 0 {
			add(name, cmp.Or(g.protocolType, "consumer"), g.state)
		}
	}
	slices.SortFunc(out, func(a, b kmsg.ListGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	return out
}
