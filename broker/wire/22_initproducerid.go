package wire

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// errNoTransactions is what transactional clients are told, here and in Produce.
var errNoTransactions = errors.New("transactions are not supported by this log")

// InitProducerId, key 22, versions 0 to 5.
//
// Gives idempotent producers an id that was never given before. A transactional id keeps its producer id, and
// each call gives it the next epoch, aborts what is open and fences the producer before it. From version 3 on a
// producer names the id and epoch that it has, and is fenced itself when that is not the newest (KIP-360).
//
// Where the Log takes no transactions a transactional id is refused with UNSUPPORTED_VERSION: franz-go and Java
// take it as final, librdkafka reports it when its time-out is over.
func apiInitProducerID() api {
	return api{key: 22, name: "InitProducerId", min: 0, max: 5, handle: (*Server).initProducerID}
}

func (s *Server) initProducerID(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		if err := s.allowedTxn(r, acl.Write, *req.TransactionalID); err != nil {
			resp.ErrorCode = codeOf(err)
			return resp, nil
		}
		resp.ProducerID, resp.ProducerEpoch, resp.ErrorCode = s.initTxnProducer(r, req)
		return resp, nil
	}
	if err := s.allowedCluster(r, acl.IdempotentWrite); err != nil && !s.access.set.Load().AllowsAny(r.proof.principal, r.host, acl.Write, acl.Topic) {
		resp.ErrorCode = codeOf(err)
		return resp, nil
	}
	id, epoch, err := s.log.InitProducerID(r.ctx)
	if err != nil {
		s.lg.Error("give a producer id", "err", err)
		resp.ErrorCode = coordinatorCode(err)
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = id, epoch
	return resp, nil
}

func (s *Server) initTxnProducer(r *request, req *kmsg.InitProducerIDRequest) (id int64, epoch, code int16) {
	switch {
	case s.txns == nil:
		return -1, -1, codeUnsupportedVersion
	case *req.TransactionalID == "":
		return -1, -1, codeInvalidRequest
	case (req.ProducerID < 0) != (req.ProducerEpoch < 0):
		return -1, -1, codeInvalidRequest
	}
	known := producerID{req.ProducerID, req.ProducerEpoch}
	if r.version < 3 {
		known = producerID{-1, -1}
	}
	timeout := time.Duration(req.TransactionTimeoutMillis) * time.Millisecond
	p, err := s.txns.init(s.hardCtx, *req.TransactionalID, timeout, known)
	if err != nil {
		s.lg.Warn("give a transactional id its producer", "id", *req.TransactionalID, "err", err)
		return -1, -1, txnCode(err, fencedCode(r.version, 4))
	}
	return p.id, p.epoch, codeNone
}
