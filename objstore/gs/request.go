package gs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// What a person can mend. Errors of all methods wrap one of these where it is the cause.
var (
	ErrCredentials = fmt.Errorf("%w for Google: set GOOGLE_APPLICATION_CREDENTIALS, "+
		"run `gcloud auth application-default login`, or run under a service account", objstore.ErrCredentials)
	ErrDenied      = fmt.Errorf("%w: check the roles of the account on the bucket", objstore.ErrDenied)
	ErrNoBucket    = errors.New("the bucket does not exist: make it, or correct its name")
	ErrUnreachable = errors.New("the endpoint cannot be reached: check its URL, that it runs, and the network")
)

// tries bounds the repetitions of a request.
const tries = 6

// request is a call of the protocol.
type request struct {
	method, url string
	header      http.Header
	body        []byte
	repeat      bool // it may be repeated when its outcome is not known
	limit       int64
}

// answer is one that says yes.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// statusError is an answer that says no.
type statusError struct {
	status  int
	message string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.message) }

func status(err error) int {
	var e *statusError
	if errors.As(err, &e) {
		return e.status
	}
	return 0
}

// call sends a request, again if that is right and may help. What the rate limit refused was not done.
func (s *Store) call(ctx context.Context, r request) (answer, error) {
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return answer{}, err
		}
		a, err := s.send(ctx, r)
		if err == nil {
			return a, nil
		}
		code := status(err)
		again := code == http.StatusTooManyRequests || r.repeat && (code == 0 || code >= 500 || code == http.StatusRequestTimeout)
		if !again || try == tries || errors.Is(err, ErrCredentials) {
			return answer{}, explain(err)
		}
		if err := pause(ctx, time.Duration(try*try)*50*time.Millisecond); err != nil {
			return answer{}, err
		}
	}
}

func (s *Store) send(ctx context.Context, r request) (_ answer, err error) {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.method == http.MethodPost || r.method == http.MethodPut {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusPermanentRedirect { // 308 says: go on with an upload
		return answer{}, refusal(resp)
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	if r.limit > 0 && resp.ContentLength > r.limit {
		return answer{}, fmt.Errorf("the store sends %d bytes where %d were asked for", resp.ContentLength, r.limit)
	}
	a.body, err = readBody(resp)
	return a, err
}

func readBody(resp *http.Response) ([]byte, error) {
	const trust = 64 << 20 // take the announced length at its word up to here
	if resp.ContentLength < 0 || resp.ContentLength > trust {
		return io.ReadAll(resp.Body)
	}
	b := make([]byte, resp.ContentLength)
	_, err := io.ReadFull(resp.Body, b)
	return b, err
}

// refusal reads what the store says: JSON, or text.
func refusal(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // it only explains
	var said struct {
		Error struct{ Message string }
	}
	message := strings.TrimSpace(string(b))
	if json.Unmarshal(b, &said) == nil && said.Error.Message != "" {
		message = said.Error.Message
	}
	return &statusError{resp.StatusCode, message}
}

// explain puts what a person can act on first.
func explain(err error) error {
	var hint error
	var e *statusError
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.Is(err, ErrCredentials):
	case errors.As(err, &e) && e.status == http.StatusUnauthorized:
		hint = ErrCredentials
	case e != nil && e.status == http.StatusForbidden:
		hint = ErrDenied
	case e != nil && e.status == http.StatusNotFound && strings.Contains(e.message, "bucket does not exist"):
		hint = ErrNoBucket
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		hint = ErrUnreachable
	}
	if hint == nil {
		return err
	}
	return fmt.Errorf("%w: %w", hint, err)
}

// writeError tells failures that certainly wrote nothing from those that leave it open.
func writeError(verb, key string, err error) error {
	code := status(err)
	switch {
	case err == nil:
		return nil
	case code >= 300 && code < 500, errors.Is(err, ErrCredentials), errors.Is(err, ErrUnreachable):
		return fmt.Errorf("%s %s: %w", verb, key, err)
	}
	return fmt.Errorf("%s %s: %w: %w", verb, key, objstore.ErrUnknownOutcome, err)
}

func readError(verb, key string, err error) error {
	switch code := status(err); {
	case errors.Is(err, ErrNoBucket):
	case code == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", verb, key, objstore.ErrNotFound)
	case code == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%s %s: %w", verb, key, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%s %s: %w", verb, key, err)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d/2 + rand.N(d)):
		return nil
	}
}
