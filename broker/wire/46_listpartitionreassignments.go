package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// ListPartitionReassignments, key 46, version 0.
//
// There is one node, so no partition ever moves: the list is empty.
func apiListPartitionReassignments() api {
	return api{key: 46, name: "ListPartitionReassignments", min: 0, max: 0, handle: func(_ *Server, r *request) (kmsg.Response, error) {
		return r.body.ResponseKind(), nil
	}}
}
