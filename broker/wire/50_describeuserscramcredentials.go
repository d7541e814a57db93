package wire

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// DescribeUserScramCredentials, key 50, version 0.
//
// Mechanisms and iterations of the users that the request names, or of all: those of the file of users and those
// that were made through the protocol. Never salts or keys. Needs Describe on the cluster.
func apiDescribeUserSCRAMCredentials() api {
	return api{key: 50, name: "DescribeUserScramCredentials", min: 0, max: 0, handle: (*Server).describeUserSCRAMCredentials}
}

func (s *Server) describeUserSCRAMCredentials(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	if err := s.allowedCluster(r, acl.Describe); err != nil {
		resp.ErrorCode, resp.ErrorMessage = codeOf(err), msgOf(err)
		return resp, nil
	}
	all := s.credentials.all()
	count := map[string]int{}
	for _, u := range req.Users {
		count[u.Name]++
	}
	if len(req.Users) == 0 {
		for name := range all {
			count[name] = 1
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if err := s.charge(r, 256+len(name)); err != nil {
			return nil, err
		}
		o := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		o.User = name
		var err error
		switch has := all[name]; {
		case count[name] > 1:
			err = errTwice
		case has == nil:
			err = fmt.Errorf("user %q: %w", name, errNoCredential)
		default:
			for _, m := range slices.Sorted(maps.Keys(has)) {
				c := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
				c.Mechanism, c.Iterations = scramNumber(m), int32(has[m])
				o.CredentialInfos = append(o.CredentialInfos, c)
			}
		}
		o.ErrorCode, o.ErrorMessage = credentialCode(err), msgOf(err)
		resp.Results = append(resp.Results, o)
	}
	return resp, nil
}
