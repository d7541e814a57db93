package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// maxOffsetMetadata is Kafka's offset.metadata.max.bytes.
const maxOffsetMetadata = 4096

// OffsetCommit, key 8, versions 2 to 10 (topic ids from 10).
//
// Positions are durable when the answer is sent (I1). Members are checked by id, instance and generation; a
// client without membership may commit while the group has no members. Positions expire after
// Config.OffsetsRetention; a retention that the request asks for (versions to 4) is not followed.
func apiOffsetCommit() api {
	return api{key: 8, name: "OffsetCommit", min: 2, max: 10, handle: (*Server).offsetCommit}
}

func (s *Server) offsetCommit(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.OffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	all := coordinatorCode(s.allowedGroup(r, acl.Read, req.Group))
	switch {
	case all != codeNone:
	case req.Group == "" && req.Generation >= 0:
		all = codeInvalidGroupID
	default:
		all = s.groups.mayCommit(req.Group, req.MemberID, req.InstanceID, req.Generation)
	}
	pos := map[record.TopicPartition]*committed{}
	for _, rt := range req.Topics {
		ot := kmsg.NewOffsetCommitResponseTopic()
		ot.Topic, ot.TopicID = rt.Topic, rt.TopicID
		name, unknown := s.resolveFor(s.hardCtx, r, acl.Read, rt.Topic, rt.TopicID, r.version >= 10)
		for _, rp := range rt.Partitions {
			op := kmsg.NewOffsetCommitResponseTopicPartition()
			op.Partition = rp.Partition
			switch {
			case all != codeNone:
				op.ErrorCode = all
			case unknown != nil:
				op.ErrorCode = coordinatorCode(unknown)
			case len(deref(rp.Metadata)) > maxOffsetMetadata:
				op.ErrorCode = codeOffsetMetadataTooLarge
			default:
				tp := record.TopicPartition{Topic: name, Partition: rp.Partition}
				if op.ErrorCode = coordinatorCode(s.checkPartition(s.hardCtx, tp)); op.ErrorCode == codeNone {
					pos[tp] = &committed{offset: rp.Offset, epoch: rp.LeaderEpoch, metadata: deref(rp.Metadata)}
				}
			}
			ot.Partitions = append(ot.Partitions, op)
		}
		resp.Topics = append(resp.Topics, ot)
	}
	if err := s.offsets.commit(s.hardCtx, req.Group, pos); err != nil {
		s.lg.Error("commit offsets", "group", req.Group, "err", err)
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == codeNone {
					p.ErrorCode = codeCoordinatorNotAvailable // clients try again
				}
			}
		}
	}
	return resp, nil
}
