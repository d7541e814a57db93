package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DeleteAcls, key 31, versions 1 to 3.
//
// Removes, together and durably, the rules that the filters name, and tells which they were. Needs Alter on
// the cluster.
func apiDeleteACLs() api {
	return api{key: 31, name: "DeleteAcls", min: 1, max: 3, handle: (*Server).deleteACLs}
}

func (s *Server) deleteACLs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DeleteACLsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	resp.Results = make([]kmsg.DeleteACLsResponseResult, len(req.Filters))
	var all error
	code := codeNone
	if s.access == nil {
		code, all = codeSecurityDisabled, errNoACLs
	} else if all = s.allowedCluster(r, acl.Alter); all != nil {
		code = codeOf(all)
	}
	filters := map[int]acl.Filter{}
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
		filters[i] = f
	}
	if len(filters) == 0 {
		return resp, nil
	}
	found := map[int][]acl.Rule{}
	err := s.access.change(s.hardCtx, func(now *acl.Set) (_, remove []acl.Rule) {
		seen := map[acl.Rule]bool{}
		for i, f := range filters {
			found[i] = now.Find(f)
			for _, rule := range found[i] {
				if !seen[rule] {
					remove, seen[rule] = append(remove, rule), true
				}
			}
		}
		return nil, remove
	})
	if err != nil {
		s.lg.Error("remove access rules", "err", err)
	}
	for i := range filters {
		o := &resp.Results[i]
		if err != nil {
			o.ErrorCode, o.ErrorMessage = codeOf(err), msgOf(err)
			continue
		}
		for _, rule := range found[i] {
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
