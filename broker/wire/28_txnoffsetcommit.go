package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// TxnOffsetCommit, key 28, versions 0 to 6 (topic ids from 6), when the Log takes transactions.
//
// The positions are durable when the answer is sent and become those of the group when the transaction commits.
// From version 3 on the member, its instance and generation are checked, so that a consumer that has lost its
// partitions cannot commit (KIP-447); from version 5 on the request begins the transaction where none is open.
func apiTxnOffsetCommit() api {
	return api{key: 28, name: "TxnOffsetCommit", min: 0, max: 6, handle: (*Server).txnOffsetCommit}
}

func (s *Server) txnOffsetCommit(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.TxnOffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	denied := s.allowedTxn(r, acl.Write, req.TransactionalID)
	if denied == nil {
		denied = s.allowedGroup(r, acl.Read, req.Group)
	}
	pos := s.txnPositions(r, req, resp, denied)
	if denied != nil {
		return resp, nil
	}
	defer s.txns.expect(req.Group, pos)() // before the member is looked at
	if code := s.groups.mayCommitTxn(req.Group, req.MemberID, req.InstanceID, req.Generation); code != codeNone {
		refuse(resp, code, true)
		return resp, nil
	}
	if len(pos) == 0 {
		return resp, nil
	}
	p := producerID{req.ProducerID, req.ProducerEpoch}
	if err := s.txns.hold(s.hardCtx, req.TransactionalID, p, req.Group, pos, r.version >= 5); err != nil {
		s.lg.Warn("commit positions in a transaction", "id", req.TransactionalID, "group", req.Group, "err", err)
		refuse(resp, txnCode(err, codeInvalidProducerEpoch), false)
	}
	return resp, nil
}

// txnPositions gives the positions that a request brings, and lays out the answer with what is wrong with the others.
func (s *Server) txnPositions(r *request, req *kmsg.TxnOffsetCommitRequest, resp *kmsg.TxnOffsetCommitResponse, denied error) groupOffsets {
	pos := groupOffsets{}
	for _, rt := range req.Topics {
		ot := kmsg.NewTxnOffsetCommitResponseTopic()
		ot.Topic, ot.TopicID = rt.Topic, rt.TopicID
		name, unknown := s.resolveFor(s.hardCtx, r, acl.Read, rt.Topic, rt.TopicID, r.version >= 6)
		for _, rp := range rt.Partitions {
			op := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			op.Partition = rp.Partition
			tp := record.TopicPartition{Topic: name, Partition: rp.Partition}
			switch {
			case denied != nil:
				op.ErrorCode = coordinatorCode(denied)
			case unknown != nil:
				op.ErrorCode = coordinatorCode(unknown)
			case len(deref(rp.Metadata)) > maxOffsetMetadata:
				op.ErrorCode = codeOffsetMetadataTooLarge
			default:
				if op.ErrorCode = coordinatorCode(s.checkPartition(s.hardCtx, tp)); op.ErrorCode == codeNone {
					pos[tp] = committed{offset: rp.Offset, epoch: rp.LeaderEpoch, metadata: deref(rp.Metadata)}
				}
			}
			ot.Partitions = append(ot.Partitions, op)
		}
		resp.Topics = append(resp.Topics, ot)
	}
	return pos
}

// refuse gives a code to the partitions of an answer: to all, or to those without one of their own.
func refuse(resp *kmsg.TxnOffsetCommitResponse, code int16, all bool) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; all || p.ErrorCode == codeNone {
				p.ErrorCode = code
			}
		}
	}
}

// mayCommitTxn says whether the member that a transaction's positions come from is the present one. A producer
// that says nothing of a member is believed, as in Kafka.
func (c *coordinator) mayCommitTxn(group, id string, instance *string, generation int32) int16 {
	if group == "" {
		return codeInvalidGroupID
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.isShare(group): // a position would make its name that of another kind
		return codeGroupIDNotFound
	case generation < 0 && id == "" && instance == nil:
		return codeNone
	}
	if cg := c.consumers[group]; cg != nil {
		code := cg.check(id, generation)
		if code == codeStaleMemberEpoch {
			code = codeIllegalGeneration // what producers know
		}
		return code
	}
	g := c.groups[group]
	switch {
	case c.closed:
		return codeCoordinatorNotAvailable
	case g == nil && generation >= 0:
		return codeIllegalGeneration
	}
	_, m, code := c.find(group, id, instance, generation)
	if code == codeNone && m.join == nil && m.sync == nil {
		g.arm(m)
	}
	return code
}
