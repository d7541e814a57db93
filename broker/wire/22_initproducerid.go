package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errNoTransactions is what transactional clients are told, here and in Produce.
var errNoTransactions = errors.New("transactions are not supported by ledgerlake's server")

// InitProducerId, key 22, versions 0 to 5.
//
// Gives idempotent producers an id that was never given before. A transactional id is refused with
// UNSUPPORTED_VERSION: franz-go and Java take it as final, librdkafka reports it when its time-out is over.
func apiInitProducerID() api {
	return api{key: 22, name: "InitProducerId", min: 0, max: 5, handle: (*Server).initProducerID}
}

func (s *Server) initProducerID(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = codeUnsupportedVersion
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
