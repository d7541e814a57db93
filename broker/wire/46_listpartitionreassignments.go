package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// ListPartitionReassignments, key 46, version 0.
//
// There is one node, so no partition ever moves: the list is empty.
func apiListPartitionReassignments() api {
	return api{key: 46, name: "ListPartitionReassignments", min: 0, max: 0, handle: func(s *Server, r *request) (kmsg.Response, error) {
		resp := r.body.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
		err := s.allowedCluster(r, acl.Describe)
		resp.ErrorCode, resp.ErrorMessage = codeOf(err), msgOf(err)
		return resp, nil
	}}
}
