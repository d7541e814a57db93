package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// ElectLeaders, key 43, versions 0 to 2.
//
// There is one node, which leads everything: every partition is ELECTION_NOT_NEEDED.
func apiElectLeaders() api {
	return api{key: 43, name: "ElectLeaders", min: 0, max: 2, handle: (*Server).electLeaders}
}

func (s *Server) electLeaders(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ElectLeadersRequest)
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	if err := s.allowedCluster(r, acl.Alter); err != nil {
		resp.ErrorCode = codeOf(err)
		return resp, nil
	}
	for _, rt := range req.Topics {
		ot := kmsg.NewElectLeadersResponseTopic()
		ot.Topic = rt.Topic
		for _, p := range rt.Partitions {
			op := kmsg.NewElectLeadersResponseTopicPartition()
			op.Partition, op.ErrorCode = p, codeElectionNotNeeded
			err := s.checkPartition(r.ctx, record.TopicPartition{Topic: rt.Topic, Partition: p})
			if err != nil {
				op.ErrorCode = codeOf(err)
			} else {
				err = errors.New("this node leads the partition, and is the only one")
			}
			op.ErrorMessage = msgOf(err)
			ot.Partitions = append(ot.Partitions, op)
		}
		resp.Topics = append(resp.Topics, ot)
	}
	return resp, nil
}
