package tiering_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
)

// outage is a decoder whose schemas are out of reach for a while.
type outage struct {
	decode.Decoder
	calls, down *atomic.Int64
}

func (o outage) Append(v []byte) error {
	if o.calls.Add(1) > 30 && o.down.Add(-1) >= 0 {
		return &decode.UnavailableError{Err: errors.New("registry is down")}
	}
	return o.Decoder.Append(v)
}

// I7: what a decoder cannot do yet is tried again from the table; it is neither a dead letter nor a hole.
func TestOutageOfTheDecoderPauses(t *testing.T) {
	r := newRig(t, 2)
	r.fill(50, 7)
	var calls, down atomic.Int64
	down.Store(9)
	r.cfg.NewDecoder = func(payload *arrow.Schema) (decode.Decoder, error) {
		d, err := decode.ForTable(payload)
		return outage{d, &calls, &down}, err
	}
	s := r.mustRun()
	if down.Load() > 0 || s.DeadLetters != 0 {
		t.Errorf("%d refusals left, %d dead letters", down.Load(), s.DeadLetters)
	}
	r.check()
}
