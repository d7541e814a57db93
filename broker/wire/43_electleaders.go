package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// ElectLeaders, key 43, versions 0 to 2.
//
// There is one node, which leads everything: every partition is ELECTION_NOT_NEEDED. A refusal stands at every
// partition, as Kafka has it: version 0 has no other place for it. Needs Alter on the cluster.
func apiElectLeaders() api {
	return api{key: 43, name: "ElectLeaders", min: 0, max: 2, handle: (*Server).electLeaders}
}

func (s *Server) electLeaders(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ElectLeadersRequest)
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	denied := s.allowedCluster(r, acl.Alter)
	resp.ErrorCode = codeOf(denied)
	for _, rt := range req.Topics {
		ot := kmsg.NewElectLeadersResponseTopic()
		ot.Topic = rt.Topic
		for _, p := range rt.Partitions {
			op := kmsg.NewElectLeadersResponseTopicPartition()
			op.Partition, op.ErrorCode = p, codeElectionNotNeeded
			err := denied
			if err == nil {
				err = s.checkPartition(r.ctx, record.TopicPartition{Topic: rt.Topic, Partition: p})
			}
			if err != nil {
				op.ErrorCode = codeOf(err)
			} else {
				err = errors.New("this node leads the partition, and is the only one")
			}
			op.ErrorMessage = msgOf(err)
			if err := s.charge(r, 96+len(*op.ErrorMessage)); err != nil {
				return nil, err
			}
			ot.Partitions = append(ot.Partitions, op)
		}
		resp.Topics = append(resp.Topics, ot)
	}
	return resp, nil
}
