package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DeleteAcls, key 31, versions 1 to 3.
//
// Removes, together and durably, the rules that the filters name, and tells which they were, each with the first
// filter that names it. More than maxFilters filters are refused, and so are, before anything is removed, rules whose
// answer has no room in memory. Needs Alter on the cluster.
func apiDeleteACLs() api {
	return api{key: 31, name: "DeleteAcls", min: 1, max: 3, handle: (*Server).deleteACLs}
}

// maxFilters bounds the filters of a request: each is held against each rule while nobody else changes any.
const maxFilters = 1000

func (s *Server) deleteACLs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DeleteACLsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	var all error
	code := codeNone
	if s.access == nil {
		code, all = codeSecurityDisabled, errNoACLs
	} else if all = s.allowedCluster(r, acl.Alter); all != nil {
		code = codeOf(all)
	} else if n := len(req.Filters); n > maxFilters {
		code, all = codeInvalidRequest, fmt.Errorf("%d filters: want at most %d in a request", n, maxFilters)
	}
	if err := s.charge(r, len(req.Filters)*(96+len(deref(msgOf(all))))); err != nil {
		return nil, err
	}
	resp.Results = make([]kmsg.DeleteACLsResponseResult, len(req.Filters))
	var filters []acl.Filter
	var good []int // their places in the request
	for i, in := range req.Filters {
		o := &resp.Results[i]
		*o = kmsg.NewDeleteACLsResponseResult()
		if o.ErrorCode, o.ErrorMessage = code, msgOf(all); code != codeNone {
			continue
		}
		f := acl.Filter{
			Kind: acl.Kind(in.ResourceType), Name: in.ResourceName, Pattern: acl.Pattern(in.ResourcePatternType),
			Principal: in.Principal, Host: in.Host, Operation: acl.Operation(in.Operation), Effect: acl.Effect(in.PermissionType),
		}
		if err := f.Validate(); err != nil {
			o.ErrorCode, o.ErrorMessage = codeInvalidRequest, msgOf(err)
			continue
		}
		filters, good = append(filters, f), append(good, i)
	}
	if len(filters) == 0 {
		return resp, nil
	}
	var found [][]acl.Rule
	var full error
	err := s.access.change(s.hardCtx, func(now *acl.Set) (_, remove []acl.Rule) {
		found = now.FindFirst(filters)
		for _, rules := range found {
			for _, rule := range rules {
				if full = s.charge(r, int(ruleCost(rule))); full != nil {
					return nil, nil // what could not be told is not removed
				}
			}
			remove = append(remove, rules...)
		}
		return nil, remove
	})
	if full != nil {
		return nil, fmt.Errorf("no rule is removed, name fewer: %w", full)
	}
	if err != nil {
		s.lg.Error("remove access rules", "err", err)
	}
	for at, i := range good {
		o := &resp.Results[i]
		if err != nil {
			o.ErrorCode, o.ErrorMessage = codeOf(err), msgOf(err)
			continue
		}
		for _, rule := range found[at] {
			m := kmsg.NewDeleteACLsResponseResultMatchingACL()
			m.ResourceType, m.ResourceName, m.ResourcePatternType = kmsg.ACLResourceType(rule.Kind), rule.Name, kmsg.ACLResourcePatternType(rule.Pattern)
			m.Principal, m.Host = rule.Principal, rule.Host
			m.Operation, m.PermissionType = kmsg.ACLOperation(rule.Operation), kmsg.ACLPermissionType(rule.Effect)
			o.MatchingACLs = append(o.MatchingACLs, m)
		}
	}
	if err == nil {
		s.lg.Info("access rules removed", "by", r.proof.principal)
	}
	return resp, nil
}
