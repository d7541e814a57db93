package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DescribeClientQuotas, key 48, versions 0 to 1.
//
// There are no quotas: the list is empty. Setting one (key 49) is not offered.
func apiDescribeClientQuotas() api {
	return api{key: 48, name: "DescribeClientQuotas", min: 0, max: 1, handle: func(s *Server, r *request) (kmsg.Response, error) {
		resp := r.body.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
		if err := s.allowedCluster(r, acl.DescribeConfigs); err != nil {
			resp.ErrorCode, resp.ErrorMessage = codeOf(err), msgOf(err)
			return resp, nil
		}
		resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null is for errors
		return resp, nil
	}}
}
