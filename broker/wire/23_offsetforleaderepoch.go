package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// OffsetForLeaderEpoch, key 23, versions 0 to 4.
//
// The node leads every partition, always, in one epoch: it ends at the high watermark. An epoch that is asked
// for and never was has no end (-1); a client that believes in a later one is told UNKNOWN_LEADER_EPOCH.
func apiOffsetForLeaderEpoch() api {
	return api{key: 23, name: "OffsetForLeaderEpoch", min: 0, max: 4, handle: (*Server).offsetForLeaderEpoch}
}

func (s *Server) offsetForLeaderEpoch(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, rt := range req.Topics {
		ot := kmsg.NewOffsetForLeaderEpochResponseTopic()
		ot.Topic = rt.Topic
		denied := s.allowedTopic(r, acl.Describe, rt.Topic)
		for _, rp := range rt.Partitions {
			op := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			op.Partition, op.LeaderEpoch, op.EndOffset = rp.Partition, -1, -1
			if denied != nil {
				op.ErrorCode = codeOf(denied)
				ot.Partitions = append(ot.Partitions, op)
				continue
			}
			b, err := s.log.Bounds(r.ctx, record.TopicPartition{Topic: rt.Topic, Partition: rp.Partition})
			switch {
			case err != nil:
				op.ErrorCode = codeOf(err)
			case r.version >= 2 && rp.CurrentLeaderEpoch > leaderEpoch:
				op.ErrorCode = codeUnknownLeaderEpoch
			case rp.LeaderEpoch == leaderEpoch:
				op.LeaderEpoch, op.EndOffset = leaderEpoch, int64(b.End)
			}
			ot.Partitions = append(ot.Partitions, op)
		}
		resp.Topics = append(resp.Topics, ot)
	}
	return resp, nil
}
