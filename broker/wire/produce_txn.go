package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// implicitTxnVersion is the version of Produce from which on partitions need not be added first (KIP-890).
const implicitTxnVersion = 12

// produceTxn is the transaction of a Produce request; id is empty when there is none.
type produceTxn struct {
	id      string
	version int16
}

var errTxnBatch = errors.New("a transactional request holds transactional batches, and no other request does")

// beginProduce makes all partitions of a request part of the transaction of their producer, in one step.
func (s *Server) beginProduce(r *request, req *kmsg.ProduceRequest) (int16, error) {
	parts := map[producerID][]record.TopicPartition{}
	for i := range req.Topics {
		rt := &req.Topics[i]
		name, err := s.resolveFor(s.hardCtx, r, acl.Write, rt.Topic, rt.TopicID, r.version >= 13)
		if err != nil || internalTopic(name) {
			continue // said for each partition
		}
		for j := range rt.Partitions {
			tp := record.TopicPartition{Topic: name, Partition: rt.Partitions[j].Partition}
			h, _, err := checkBatch(rt.Partitions[j].Records, r.version)
			if err == nil && h.Transactional() && s.checkPartition(s.hardCtx, tp) == nil {
				p := producerID{h.ProducerID, h.ProducerEpoch}
				parts[p] = append(parts[p], tp)
			}
		}
	}
	for p, tps := range parts {
		if s.txns.has(*req.TransactionID, p, tps) {
			continue // without waiting for the batches before, as who adds one must
		}
		if err := s.txns.add(s.hardCtx, *req.TransactionID, p, tps, true); err != nil {
			return txnCode(err, codeInvalidProducerEpoch), err
		}
	}
	return codeNone, nil
}

// enterTxn sees to it that a batch of a transaction is appended while that is open, and gives what ends the append.
func (s *Server) enterTxn(txn produceTxn, tp record.TopicPartition, h record.BatchHeader) (leave func(), code int16, err error) {
	switch {
	case h.Transactional() && s.txns == nil:
		return nil, codeUnsupportedVersion, errNoTransactions
	case h.Transactional() != (txn.id != ""):
		return nil, codeInvalidRecord, errTxnBatch
	case txn.id == "":
		return func() {}, codeNone, nil
	}
	leave, err = s.txns.enter(txn.id, producerID{h.ProducerID, h.ProducerEpoch}, tp)
	code = txnCode(err, codeInvalidProducerEpoch)
	if errors.Is(err, errTxnNotAdded) && txn.version >= 11 {
		code = codeTxnAbortable
	}
	return leave, code, err
}
