package wire

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/scram"
)

// SaslAuthenticate, key 36, versions 0 to 2.
//
// Carries the messages of the mechanism that SaslHandshake chose: one for PLAIN, two for SCRAM. A failure is answered
// after a short while with SASL_AUTHENTICATION_FAILED and ends the connection; the answer does not say whether
// there is such a user. The session's time is Config.SessionLifetime, 0 for no limit.
func apiSASLAuthenticate() api {
	return api{key: keySASLAuthenticate, name: "SaslAuthenticate", min: 0, max: 2, handle: (*Server).saslAuthenticate}
}

// failureDelay makes guessing slow.
const failureDelay = 100 * time.Millisecond

func (s *Server) saslAuthenticate(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.SASLAuthenticateRequest)
	resp := r.body.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	p := r.proof
	if s.cfg.Users == nil || p.chosen == "" {
		resp.ErrorCode, resp.ErrorMessage = codeIllegalSASLState, msgOf(errSASLOrder)
		if s.cfg.Users != nil {
			r.end = errSASLOrder
		}
		return resp, nil
	}
	out, user, done, err := p.step(r.ctx, s, req.SASLAuthBytes)
	if err == nil && done && p.user != "" && user != p.user {
		err = errOtherUser
	}
	if err != nil {
		pause(r.ctx, failureDelay)
		resp.ErrorCode, resp.ErrorMessage = codeSASLFailed, msgOf(err)
		r.end = &loginError{mechanism: p.chosen, err: err}
		return resp, nil
	}
	resp.SASLAuthBytes = out
	if done {
		p.user, p.mechanism, p.chosen, p.scram = user, p.chosen, "", nil
		p.principal = userPrefix + user
		if d := s.cfg.SessionLifetime; d > 0 {
			p.expires = time.Now().Add(d)
			resp.SessionLifetimeMillis = d.Milliseconds()
		}
		r.proved()
	}
	return resp, nil
}

// step gives the mechanism the peer's next message.
func (p *proof) step(ctx context.Context, s *Server, in []byte) (out []byte, user string, done bool, err error) {
	if p.chosen == mechanismPlain {
		if err := s.hashing.Acquire(ctx, 1); err != nil {
			return nil, "", false, err
		}
		defer s.hashing.Release(1)
		user, err = s.credentials.users().CheckPlain(in)
		return []byte{}, user, err == nil, err
	}
	if p.scram == nil {
		p.scram = scram.NewServer(scram.Mechanism(p.chosen), s.credentials.users())
	}
	return p.scram.Step(in)
}
