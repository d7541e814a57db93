package wire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// DeleteRecords, key 21, versions 0 to 2.
//
// Moves the log start up; -1 means the high watermark. What is in the history stays there. A topic that is only compacted
// keeps what it has: POLICY_VIOLATION, as in Kafka.
func apiDeleteRecords() api {
	return api{key: 21, name: "DeleteRecords", min: 0, max: 2, handle: (*Server).deleteRecords}
}

func (s *Server) deleteRecords(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DeleteRecordsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for _, rt := range req.Topics {
		ot := kmsg.NewDeleteRecordsResponseTopic()
		ot.Topic = rt.Topic
		denied := s.allowedTopic(r, acl.Delete, rt.Topic)
		for _, rp := range rt.Partitions {
			op := kmsg.NewDeleteRecordsResponseTopicPartition()
			op.Partition, op.LowWatermark = rp.Partition, -1
			switch {
			case denied != nil:
				op.ErrorCode = codeOf(denied)
			case internalTopic(rt.Topic):
				op.ErrorCode = codeInvalidTopic
			case s.compactedOnly(r.ctx, rt.Topic):
				op.ErrorCode = codePolicyViolation
			case rp.Offset < -1:
				op.ErrorCode = codeOffsetOutOfRange
			default:
				low, err := s.log.DeleteRecords(s.hardCtx, record.TopicPartition{Topic: rt.Topic, Partition: rp.Partition}, record.Offset(rp.Offset))
				if op.ErrorCode = codeOf(err); err == nil {
					op.LowWatermark = int64(low)
				}
			}
			ot.Partitions = append(ot.Partitions, op)
		}
		resp.Topics = append(resp.Topics, ot)
	}
	return resp, nil
}

func (s *Server) compactedOnly(ctx context.Context, topic string) bool {
	in, err := s.topics.get(ctx, topic)
	return err == nil && in.Config.Compact && !in.Config.CompactDelete // an unknown topic is for the Log to tell
}
