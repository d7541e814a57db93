package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
)

// maxLoginAnswer bounds what a broker may say during a log-in.
const maxLoginAnswer = 64 << 10

// Dial opens a connection to one broker for somebody who speaks the protocol himself: with TLS and logged in, as the
// configuration says. The log-in is good until expires; zero: as long as the connection (KIP-368).
func (c Config) Dial(ctx context.Context, addr string) (conn net.Conn, expires time.Time, err error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	if conn, err = c.connect(ctx, addr); err != nil {
		return nil, time.Time{}, fmt.Errorf("connect to kafka at %s: %w", addr, err)
	}
	m, err := c.SASL.mechanism()
	if err == nil && m != nil {
		cut := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		expires, err = (&login{conn: conn, addr: addr, clientID: c.ClientID}).run(ctx, m)
		if !cut() && err == nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return nil, time.Time{}, errors.Join(fmt.Errorf("log in to kafka at %s by %s: %w", addr, c.SASL.Mechanism, err), conn.Close())
	}
	return conn, expires, nil
}

func (c Config) connect(ctx context.Context, addr string) (net.Conn, error) {
	if c.TLS == nil {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	d := tls.Dialer{Config: c.TLS.Clone()} // it takes the name of the server from the address where none is set
	return d.DialContext(ctx, "tcp", addr)
}

// login is the exchange that shows a broker who we are.
type login struct {
	conn     net.Conn
	addr     string
	clientID string
	corr     int32
}

func (l *login) run(ctx context.Context, m sasl.Mechanism) (expires time.Time, err error) {
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Version, hello.Mechanism = 1, m.Name()
	agreed := kmsg.NewPtrSASLHandshakeResponse()
	if err := l.ask(hello, agreed); err != nil {
		return expires, err
	}
	if err := kerr.ErrorForCode(agreed.ErrorCode); err != nil {
		return expires, fmt.Errorf("%w (it offers %v)", err, agreed.SupportedMechanisms)
	}
	session, msg, err := m.Authenticate(ctx, l.addr)
	if err != nil {
		return expires, err
	}
	for done := false; !done || len(msg) > 0; {
		step := kmsg.NewPtrSASLAuthenticateRequest()
		step.Version, step.SASLAuthBytes = 1, msg // 1 tells the session's time, and brokers have it since 2.2
		began, answer := time.Now(), kmsg.NewPtrSASLAuthenticateResponse()
		if err := l.ask(step, answer); err != nil {
			return expires, err
		}
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			return expires, fmt.Errorf("%w: %s", err, deref(answer.ErrorMessage))
		}
		if answer.SessionLifetimeMillis > 0 {
			expires = began.Add(time.Duration(answer.SessionLifetimeMillis) * time.Millisecond)
		}
		if done {
			break
		}
		if done, msg, err = session.Challenge(answer.SASLAuthBytes); err != nil {
			return expires, err
		}
	}
	return expires, nil
}

// ask sends a request, and reads its answer into one of a version that is not flexible.
func (l *login) ask(req kmsg.Request, resp kmsg.Response) error {
	l.corr++
	if _, err := l.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(l.clientID)).AppendRequest(nil, req, l.corr)); err != nil {
		return err
	}
	var head [8]byte
	if _, err := io.ReadFull(l.conn, head[:]); err != nil {
		return fmt.Errorf("read the answer: %w: a broker with other TLS or SASL settings?", err)
	}
	size := int32(binary.BigEndian.Uint32(head[:]))
	if corr := int32(binary.BigEndian.Uint32(head[4:])); size < 4 || size > maxLoginAnswer || corr != l.corr {
		return fmt.Errorf("an answer of %d bytes to request %d, want one to %d", size, corr, l.corr)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(l.conn, body); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	resp.SetVersion(req.GetVersion())
	return resp.ReadFrom(body)
}
