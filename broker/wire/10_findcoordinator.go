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
		resp.ErrorCode, resp.ErrorMessage = code, msg
		resp.NodeID, resp.Host, resp.Port = node, host, port
		return resp, nil
	}
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Host, c.Port, c.ErrorCode, c.ErrorMessage = key, node, host, port, code, msg
		if err := s.allowedCoordinator(r, req.CoordinatorType, key); err != nil {
			c.NodeID, c.Host, c.Port, c.ErrorCode, c.ErrorMessage = -1, "", -1, codeOf(err), msgOf(err)
		}
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp, nil
}

// allowedCoordinator says whether who asks may know of the coordinator, and sees to it that its topic is there.
func (s *Server) allowedCoordinator(r *request, kind int8, key string) (err error) {
	var state *stateTopic
	switch kind {
	case 0:
		err, state = s.allowedGroup(r, acl.Describe, key), s.offsets.topic
	case 1:
		if err = s.allowedTxn(r, acl.Describe, key); s.txns != nil {
			state = s.txns.topic
		}
	}
	if err == nil && state != nil {
		_ = state.make(s.hardCtx) // else what is written first makes it, or tells why not
	}
	return err
}
