package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// AddPartitionsToTxn, key 24, versions 0 to 5 (many transactions, and verification alone, from 4), when the Log
// takes transactions.
//
// All partitions of a transaction are added, or none: then those without a fault of their own are
// OPERATION_NOT_ATTEMPTED. Verification changes nothing and says of each partition whether it is part of the open
// transaction.
func apiAddPartitionsToTxn() api {
	return api{key: 24, name: "AddPartitionsToTxn", min: 0, max: 5, handle: (*Server).addPartitionsToTxn}
}

func (s *Server) addPartitionsToTxn(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.AddPartitionsToTxnRequest)
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	if r.version < 4 {
		one := kmsg.AddPartitionsToTxnRequestTransaction{
			TransactionalID: req.TransactionalID, ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch,
		}
		for _, t := range req.Topics {
			one.Topics = append(one.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
		for _, t := range s.addToTxn(r, one) {
			ot := kmsg.NewAddPartitionsToTxnResponseTopic()
			ot.Topic = t.Topic
			for _, p := range t.Partitions {
				op := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				op.Partition, op.ErrorCode = p.Partition, p.ErrorCode
				ot.Partitions = append(ot.Partitions, op)
			}
			resp.Topics = append(resp.Topics, ot)
		}
		return resp, nil
	}
	if err := s.allowedCluster(r, acl.ClusterAction); err != nil { // these versions are for brokers
		resp.ErrorCode = codeOf(err)
		return resp, nil
	}
	for _, t := range req.Transactions {
		ot := kmsg.NewAddPartitionsToTxnResponseTransaction()
		ot.TransactionalID, ot.Topics = t.TransactionalID, s.addToTxn(r, t)
		resp.Transactions = append(resp.Transactions, ot)
	}
	return resp, nil
}

// addToTxn adds the partitions of one transaction, or verifies them, and lays out what to say of each.
func (s *Server) addToTxn(r *request, rt kmsg.AddPartitionsToTxnRequestTransaction) []kmsg.AddPartitionsToTxnResponseTransactionTopic {
	p, version := producerID{rt.ProducerID, rt.ProducerEpoch}, r.version
	barred := s.allowedTxn(r, acl.Write, rt.TransactionalID)
	fenced := fencedCode(version, 2)
	codes := map[record.TopicPartition]int16{}
	var good []record.TopicPartition
	for _, t := range rt.Topics {
		denied := barred
		if denied == nil {
			denied = s.allowedTopic(r, acl.Write, t.Topic)
		}
		for _, n := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Topic, Partition: n}
			switch {
			case denied != nil:
				codes[tp] = codeOf(denied)
			case internalTopic(t.Topic):
				codes[tp] = codeInvalidTopic
			case rt.VerifyOnly:
				leave, err := s.txns.enter(rt.TransactionalID, p, tp)
				if err == nil {
					leave()
				}
				codes[tp] = txnCode(err, fenced)
				if codes[tp] == codeInvalidTxnState && version >= 5 {
					codes[tp] = codeTxnAbortable
				}
			default:
				if codes[tp] = coordinatorCode(s.checkPartition(s.hardCtx, tp)); codes[tp] == codeNone {
					good = append(good, tp)
				}
			}
		}
	}
	if !rt.VerifyOnly && barred == nil {
		all := codeNotAttempted
		if len(good) == len(codes) {
			all = txnCode(s.txns.add(s.hardCtx, rt.TransactionalID, p, good, false), fenced)
		}
		for _, tp := range good {
			codes[tp] = all
		}
	}
	out := make([]kmsg.AddPartitionsToTxnResponseTransactionTopic, 0, len(rt.Topics))
	for _, t := range rt.Topics {
		ot := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		ot.Topic = t.Topic
		for _, n := range t.Partitions {
			op := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			op.Partition, op.ErrorCode = n, codes[record.TopicPartition{Topic: t.Topic, Partition: n}]
			ot.Partitions = append(ot.Partitions, op)
		}
		out = append(out, ot)
	}
	return out
}
