package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// FindCoordinator, key 10, versions 0 to 6 (many keys from 4).
//
// This node coordinates every group and every transactional id (type 1). Where the Log takes no transactions the
// refusal is left to InitProducerId, because librdkafka asks for the coordinator again and again whatever the
// error, but reports that of InitProducerId. Where the state of share groups is kept (type 2) is for
// brokers to ask, and is refused with INVALID_REQUEST. As in Kafka, who asks makes the topic of that state, if it is not there:
// clients and tools look for it before there is anything in it.
func apiFindCoordinator() api {
	return api{key: 10, name: "FindCoordinator", min: 0, max: 6, handle: (*Server).findCoordinator}
}

func (s *Server) findCoordinator(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	code, msg := codeNone, (*string)(nil)
	node := s.cfg.NodeID
	host, port := s.endpoint(r)
	switch req.CoordinatorType {
	case 0, 1:
	default:
		code, msg = codeInvalidRequest, msgOf(errors.New("there are no coordinators of this type here"))
	}
	if code != codeNone {
		node, host, port = -1, "", -1
	}
	if r.version < 4 {
		if err := s.allowedCoordinator(r, req.CoordinatorType, req.CoordinatorKey); err != nil {
			node, host, port, code, msg = -1, "", -1, codeOf(err), msgOf(err)
		}
		if code == codeNone {
			s.makeState(req.CoordinatorType)
		}
		resp.ErrorCode, resp.ErrorMessage = code, msg
		resp.NodeID, resp.Host, resp.Port = node, host, port
		return resp, nil
	}
	allowed := false
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Host, c.Port, c.ErrorCode, c.ErrorMessage = key, node, host, port, code, msg
		if err := s.allowedCoordinator(r, req.CoordinatorType, key); err != nil {
			c.NodeID, c.Host, c.Port, c.ErrorCode, c.ErrorMessage = -1, "", -1, codeOf(err), msgOf(err)
		} else {
			allowed = true
		}
		resp.Coordinators = append(resp.Coordinators, c)
	}
	if allowed {
		s.makeState(req.CoordinatorType)
	}
	return resp, nil
}

func (s *Server) allowedCoordinator(r *request, kind int8, key string) error {
	switch kind {
	case 0:
		return s.allowedGroup(r, acl.Describe, key)
	case 1:
		return s.allowedTxn(r, acl.Describe, key)
	}
	return nil // refused anyway
}

// makeState makes the topic of a coordinator's state, if it is not there.
func (s *Server) makeState(kind int8) {
	var err error
	switch {
	case kind == 0:
		err = s.offsets.topic.make(s.hardCtx)
	case kind == 1 && s.txns != nil:
		err = s.txns.topic.make(s.hardCtx)
	}
	if err != nil && s.failing.now() { // what is written first makes it, or is told why not
		s.lg.Warn("make the topic of a coordinator", "err", err)
	}
}
