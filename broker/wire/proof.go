package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/scram"
)

const (
	mechanismPlain = "PLAIN"
	// maxUnprovenFrame bounds the requests of those who have not shown who they are.
	maxUnprovenFrame = 8 << 10
)

var (
	errSASLOrder   = errors.New("SaslHandshake and SaslAuthenticate came in an order that is not SASL's, or without need")
	errOtherUser   = errors.New("a connection cannot become another user's")
	errUnproven    = errors.New("a request before authentication: the client must be given SASL settings")
	errSessionOver = errors.New("the session is over and the client did not authenticate again")
)

type mechanismError struct {
	asked   string
	offered []string
}

func (e *mechanismError) Error() string {
	return fmt.Sprintf("SASL mechanism %.40q is not offered, only %v", e.asked, e.offered)
}

type loginError struct {
	mechanism string
	err       error
}

func (e *loginError) Error() string {
	return fmt.Sprintf("authentication by %s failed: %v", e.mechanism, e.err)
}
func (e *loginError) Unwrap() error { return e.err }

// proof is how far a connection has shown by SASL who its user is. One goroutine uses it at a time: the one that begins a request.
type proof struct {
	chosen    string // by SaslHandshake, until the authentication ends
	scram     *scram.Server
	user      string // empty: not yet
	principal string // whom the access rules know
	mechanism string // that the user came by
	expires   time.Time
}

// admits says whether a request with this key may be answered now.
func (s *Server) admits(p *proof, key int16) error {
	switch {
	case s.cfg.Users == nil, key == keyAPIVersions, key == keySASLHandshake, key == keySASLAuthenticate:
		return nil
	case p.user == "":
		return errUnproven
	case !p.expires.IsZero() && time.Now().After(p.expires):
		return fmt.Errorf("user %q: %w", p.user, errSessionOver)
	}
	return nil
}

// guarded says whether peers must show something before they are served.
func (s *Server) guarded() bool { return s.cfg.TLS != nil || s.cfg.Users != nil }

// guard begins the time that the peer has for its TLS handshake and its authentication, together. Server.mu is held.
func (c *conn) guard() {
	c.s.unproven++
	c.limit = time.AfterFunc(c.s.cfg.AuthTimeout, func() {
		c.s.lg.Warn("kafka connection closed: no handshake and authentication in time", "peer", c.peer, "limit", c.s.cfg.AuthTimeout)
		_ = c.raw.Close()
	})
}

// proved ends that time, once; so does the end of the connection.
func (c *conn) proved() {
	if c.proven.Swap(true) || c.limit == nil {
		return
	}
	c.limit.Stop()
	c.s.mu.Lock()
	c.s.unproven--
	c.s.mu.Unlock()
}

// handshake does that of TLS, where it is configured.
func (c *conn) handshake() error {
	if nc, ok := c.nc.(*tls.Conn); ok {
		if err := nc.HandshakeContext(c.ctx); err != nil {
			if header := (tls.RecordHeaderError{}); errors.As(err, &header) {
				return fmt.Errorf("TLS handshake: %w: a client without TLS?", err)
			}
			return fmt.Errorf("TLS handshake: %w", err)
		}
		if chains := nc.ConnectionState().VerifiedChains; len(chains) > 0 {
			c.proof.principal = userPrefix + chains[0][0].Subject.String()
		}
	}
	if c.s.cfg.Users == nil {
		c.proved()
	}
	return nil
}

// frameLimit is the largest request that the peer may send now.
func (c *conn) frameLimit() int {
	if c.proven.Load() {
		return c.s.cfg.MaxRequestBytes
	}
	return min(maxUnprovenFrame, c.s.cfg.MaxRequestBytes)
}

// pause waits, unless the connection ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
