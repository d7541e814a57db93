package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// errNoACLs is the honest answer of a server without access rules.
var errNoACLs = errors.New("there are no access rules: everyone who can connect may do everything (see serve --kafka-acls)")

// DescribeAcls, key 29, versions 1 to 3.
//
// The rules that a filter names, those of one resource together. Needs Describe on the cluster. Without
// Access.Enforce the answer is SECURITY_DISABLED, as of a Kafka without an authorizer.
func apiDescribeACLs() api {
	return api{key: 29, name: "DescribeAcls", min: 1, max: 3, handle: (*Server).describeACLs}
}

func (s *Server) describeACLs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeACLsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
	if s.access == nil {
		resp.ErrorCode, resp.ErrorMessage = codeSecurityDisabled, msgOf(errNoACLs)
		return resp, nil
	}
	if err := s.allowedCluster(r, acl.Describe); err != nil {
		resp.ErrorCode, resp.ErrorMessage = codeOf(err), msgOf(err)
		return resp, nil
	}
	f := acl.Filter{
		Kind: acl.Kind(req.ResourceType), Name: req.ResourceName, Pattern: acl.Pattern(req.ResourcePatternType),
		Principal: req.Principal, Host: req.Host, Operation: acl.Operation(req.Operation), Effect: acl.Effect(req.PermissionType),
	}
	if err := f.Validate(); err != nil {
		resp.ErrorCode, resp.ErrorMessage = codeInvalidRequest, msgOf(err)
		return resp, nil
	}
	var last acl.Rule
	for _, rule := range s.access.set.Load().Find(f) {
		if n := len(resp.Resources); n == 0 || last.Kind != rule.Kind || last.Name != rule.Name || last.Pattern != rule.Pattern {
			o := kmsg.NewDescribeACLsResponseResource()
			o.ResourceType, o.ResourceName, o.ResourcePatternType = kmsg.ACLResourceType(rule.Kind), rule.Name, kmsg.ACLResourcePatternType(rule.Pattern)
			resp.Resources = append(resp.Resources, o)
		}
		if err := s.charge(r, 512+len(rule.Name)+len(rule.Principal)); err != nil {
			return nil, err
		}
		a := kmsg.NewDescribeACLsResponseResourceACL()
		a.Principal, a.Host = rule.Principal, rule.Host
		a.Operation, a.PermissionType = kmsg.ACLOperation(rule.Operation), kmsg.ACLPermissionType(rule.Effect)
		of := &resp.Resources[len(resp.Resources)-1]
		of.ACLs, last = append(of.ACLs, a), rule
	}
	return resp, nil
}
