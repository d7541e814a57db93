package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// CreateAcls, key 30, versions 1 to 3.
//
// Good rules are made, together and durably, those that are no rules each have their error. A rule that is there
// already is made again without a word; the host of a rule is kept in its one spelling. Needs Alter on the cluster. Rules on delegation tokens and users are refused:
// there are no such resources.
func apiCreateACLs() api {
	return api{key: 30, name: "CreateAcls", min: 1, max: 3, handle: (*Server).createACLs}
}

func (s *Server) createACLs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.CreateACLsRequest)
	resp := req.ResponseKind().(*kmsg.CreateACLsResponse)
	var all error
	code := codeNone
	if s.access == nil {
		code, all = codeSecurityDisabled, errNoACLs
	} else if all = s.allowedCluster(r, acl.Alter); all != nil {
		code = codeOf(all)
	}
	if err := s.charge(r, len(req.Creations)*(128+len(deref(msgOf(all))))); err != nil {
		return nil, err
	}
	resp.Results = make([]kmsg.CreateACLsResponseResult, len(req.Creations))
	var add []acl.Rule
	good := map[int]bool{}
	for i, c := range req.Creations {
		o := &resp.Results[i]
		*o = kmsg.NewCreateACLsResponseResult()
		if o.ErrorCode, o.ErrorMessage = code, msgOf(all); code != codeNone {
			continue
		}
		rule := acl.Rule{
			Kind: acl.Kind(c.ResourceType), Name: c.ResourceName, Pattern: acl.Pattern(c.ResourcePatternType),
			Principal: c.Principal, Host: c.Host, Operation: acl.Operation(c.Operation), Effect: acl.Effect(c.PermissionType),
		}
		rule, err := rule.Canonical()
		if err != nil {
			o.ErrorCode, o.ErrorMessage = codeInvalidRequest, msgOf(err)
			continue
		}
		add, good[i] = append(add, rule), true
	}
	if len(add) == 0 {
		return resp, nil
	}
	err := s.access.change(s.hardCtx, func(now *acl.Set) (fresh, _ []acl.Rule) {
		seen := map[acl.Rule]bool{}
		for _, rule := range add {
			if !now.Has(rule) && !seen[rule] {
				fresh, seen[rule] = append(fresh, rule), true
			}
		}
		return fresh, nil
	})
	if err == nil {
		s.lg.Info("access rules made", "rules", len(add), "by", r.proof.principal)
		return resp, nil
	}
	s.lg.Error("make access rules", "err", err)
	for i := range good {
		resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = codeOf(err), msgOf(err)
	}
	return resp, nil
}
