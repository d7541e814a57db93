package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// AddOffsetsToTxn, key 25, versions 0 to 4, when the Log takes transactions.
//
// Makes the positions of groups part of the transaction: what TxnOffsetCommit before version 5 brings needs it.
func apiAddOffsetsToTxn() api {
	return api{key: 25, name: "AddOffsetsToTxn", min: 0, max: 4, handle: (*Server).addOffsetsToTxn}
}

func (s *Server) addOffsetsToTxn(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.AddOffsetsToTxnRequest)
	resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	err := s.allowedTxn(r, acl.Write, req.TransactionalID)
	if err == nil {
		err = s.allowedGroup(r, acl.Read, req.Group)
	}
	if err != nil {
		resp.ErrorCode = codeOf(err)
		return resp, nil
	}
	if req.Group == "" {
		resp.ErrorCode = codeInvalidGroupID
		return resp, nil
	}
	at := record.TopicPartition{Topic: OffsetsTopic}
	err = s.txns.add(s.hardCtx, req.TransactionalID, producerID{req.ProducerID, req.ProducerEpoch}, []record.TopicPartition{at}, false)
	resp.ErrorCode = txnCode(err, fencedCode(r.version, 2))
	return resp, nil
}
