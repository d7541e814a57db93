package wire

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// SaslHandshake, key 17, version 1.
//
// Chooses the mechanism of the SaslAuthenticate requests that follow. One that is not offered is answered with
// UNSUPPORTED_SASL_MECHANISM and those that are, and the connection ends. Without Config.Users, and in the middle of
// an authentication, the answer is ILLEGAL_SASL_STATE. A connection may authenticate again, as the same user by the
// same mechanism, where sessions have a time limit (KIP-368). Version 0, whose messages have no frame, is not served.
func apiSASLHandshake() api {
	return api{key: keySASLHandshake, name: "SaslHandshake", min: 1, max: 1, handle: (*Server).saslHandshake}
}

func (s *Server) saslHandshake(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.SASLHandshakeRequest)
	resp := r.body.ResponseKind().(*kmsg.SASLHandshakeResponse)
	resp.SupportedMechanisms = s.cfg.Mechanisms
	p := r.proof
	switch {
	case s.cfg.Users == nil:
		resp.SupportedMechanisms, resp.ErrorCode = nil, codeIllegalSASLState
	case p.chosen != "", p.user != "" && (s.cfg.SessionLifetime == 0 || p.mechanism != req.Mechanism):
		resp.ErrorCode, r.end = codeIllegalSASLState, errSASLOrder
	case !slices.Contains(s.cfg.Mechanisms, req.Mechanism):
		resp.ErrorCode, r.end = codeUnsupportedSASL, &mechanismError{req.Mechanism, s.cfg.Mechanisms}
	default:
		p.chosen = req.Mechanism
	}
	return resp, nil
}
