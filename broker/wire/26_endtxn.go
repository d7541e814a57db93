package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// EndTxn, key 26, versions 0 to 5, when the Log takes transactions.
//
// When the answer is sent the decision is durable (I1), and the markers stand in all partitions unless the Log
// failed; then they are put there later. From version 5 on each end gives the producer its next epoch, so that
// nothing of an old transaction can come into a new one, and an end that is asked for again is told the same
// (KIP-890).
func apiEndTxn() api {
	return api{key: 26, name: "EndTxn", min: 0, max: 5, handle: (*Server).endTxn}
}

func (s *Server) endTxn(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.EndTxnRequest)
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	if err := s.allowedTxn(r, acl.Write, req.TransactionalID); err != nil {
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = codeOf(err), -1, -1
		return resp, nil
	}
	p, err := s.txns.end(s.hardCtx, req.TransactionalID, producerID{req.ProducerID, req.ProducerEpoch}, req.Commit, r.version >= 5)
	if err != nil {
		s.lg.Warn("end a transaction", "id", req.TransactionalID, "commit", req.Commit, "err", err)
		p = producerID{-1, -1}
	}
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = txnCode(err, fencedCode(r.version, 2)), p.id, p.epoch
	return resp, nil
}
