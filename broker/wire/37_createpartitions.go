package wire

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// partitionAdder is a Log whose topics can get more partitions.
type partitionAdder interface {
	CreatePartitions(ctx context.Context, topic string, total int32) error
}

// CreatePartitions, key 37, versions 0 to 3, when the Log can add partitions.
//
// The count is that of all partitions and can only grow. Assignments may name this node only.
func apiCreatePartitions() api {
	return api{key: 37, name: "CreatePartitions", min: 0, max: 3, handle: (*Server).createPartitions}
}

func (s *Server) createPartitions(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.CreatePartitionsRequest)
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	for i := range req.Topics {
		ot := kmsg.NewCreatePartitionsResponseTopic()
		ot.Topic = req.Topics[i].Topic
		var err error
		ot.ErrorCode, err = s.growTopic(r, &req.Topics[i], req.ValidateOnly)
		ot.ErrorMessage = msgOf(err)
		resp.Topics = append(resp.Topics, ot)
	}
	return resp, nil
}

func (s *Server) growTopic(r *request, rt *kmsg.CreatePartitionsRequestTopic, dry bool) (int16, error) {
	if err := s.allowedTopic(r, acl.Alter, rt.Topic); err != nil {
		return codeOf(err), err
	}
	if internalTopic(rt.Topic) {
		return codeOf(errInternalTopic), errInternalTopic
	}
	s.alter.Lock()
	defer s.alter.Unlock()
	s.topics.invalidate()
	in, err := s.topics.get(s.hardCtx, rt.Topic)
	if err != nil {
		return codeOf(err), err
	}
	has := in.Config.Partitions
	if rt.Count <= has || rt.Count > maxPartitions {
		return codeInvalidPartitions, fmt.Errorf("%d partitions: the topic has %d, want more, up to %d", rt.Count, has, maxPartitions)
	}
	if rt.Assignment != nil && len(rt.Assignment) != int(rt.Count-has) {
		return codeInvalidAssignment, fmt.Errorf("%d assignments for %d new partitions", len(rt.Assignment), rt.Count-has)
	}
	for i, a := range rt.Assignment {
		if len(a.Replicas) != 1 || a.Replicas[0] != s.cfg.NodeID {
			return codeInvalidAssignment, fmt.Errorf("assignment %d: this node is %d, and the only one", i, s.cfg.NodeID)
		}
	}
	if dry {
		return codeNone, nil
	}
	err = s.log.(partitionAdder).CreatePartitions(s.hardCtx, rt.Topic, rt.Count)
	s.topics.invalidate()
	if err == nil {
		s.lg.Info("partitions added", "topic", rt.Topic, "partitions", rt.Count)
	}
	return codeOf(err), err
}
