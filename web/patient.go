package web

import (
	"net/http"
	"time"
)

// patient gives every write to a client a deadline of its own: a stream may last for ever, and be quiet for long,
// but a client that takes nothing is cut off and its place is free.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController // of ResponseWriter
	timeout time.Duration
}

// patientPiece is what must be taken within one timeout. It is small, so that a slow line is no reason.
const patientPiece = 64 << 10

func newPatient(w http.ResponseWriter, timeout time.Duration) *patient {
	return &patient{w, http.NewResponseController(w), timeout}
}

func (p *patient) extend() error { return p.control.SetWriteDeadline(time.Now().Add(p.timeout)) }

// Write is http.ResponseWriter's.
func (p *patient) Write(b []byte) (n int, err error) {
	for {
		if err := p.extend(); err != nil {
			return n, err
		}
		k, err := p.ResponseWriter.Write(b[n:min(n+patientPiece, len(b))])
		if n += k; err != nil || n == len(b) {
			return n, err
		}
	}
}

// FlushError is what http.ResponseController calls.
func (p *patient) FlushError() error {
	if err := p.extend(); err != nil {
		return err
	}
	return p.control.Flush()
}

// Unwrap gives http.ResponseController the rest.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
