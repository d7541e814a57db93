package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errNoACLs is the honest answer while there is no authorizer.
var errNoACLs = errors.New("there are no access rules: everyone who can connect may do everything")

// DescribeAcls, key 29, versions 1 to 3; CreateAcls, key 30, and DeleteAcls, key 31, likewise.
//
// All are answered with SECURITY_DISABLED, as by a Kafka without an authorizer.
func apiDescribeACLs() api {
	return api{key: 29, name: "DescribeAcls", min: 1, max: 3, handle: func(_ *Server, r *request) (kmsg.Response, error) {
		resp := r.body.ResponseKind().(*kmsg.DescribeACLsResponse)
		resp.ErrorCode, resp.ErrorMessage = codeSecurityDisabled, msgOf(errNoACLs)
		return resp, nil
	}}
}

func apiCreateACLs() api {
	return api{key: 30, name: "CreateAcls", min: 1, max: 3, handle: func(_ *Server, r *request) (kmsg.Response, error) {
		resp := r.body.ResponseKind().(*kmsg.CreateACLsResponse)
		for range r.body.(*kmsg.CreateACLsRequest).Creations {
			o := kmsg.NewCreateACLsResponseResult()
			o.ErrorCode, o.ErrorMessage = codeSecurityDisabled, msgOf(errNoACLs)
			resp.Results = append(resp.Results, o)
		}
		return resp, nil
	}}
}

func apiDeleteACLs() api {
	return api{key: 31, name: "DeleteAcls", min: 1, max: 3, handle: func(_ *Server, r *request) (kmsg.Response, error) {
		resp := r.body.ResponseKind().(*kmsg.DeleteACLsResponse)
		for range r.body.(*kmsg.DeleteACLsRequest).Filters {
			o := kmsg.NewDeleteACLsResponseResult()
			o.ErrorCode, o.ErrorMessage = codeSecurityDisabled, msgOf(errNoACLs)
			resp.Results = append(resp.Results, o)
		}
		return resp, nil
	}}
}
