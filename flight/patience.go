package flight

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// patience ends an answer whose client takes nothing. gRPC waits for a client for as long as its connection stands; only
// the end of the handler ends a Send that waits.
type patience struct {
	timeout time.Duration
	lost    chan struct{}
}

// send gives what f sends timeout to get on its way. A message is on its way when the client has taken nearly all of
// those before it, so that one that takes slowly has timeout for each.
func (p *patience) send(f func() error) error {
	t := time.AfterFunc(p.timeout, func() {
		select {
		case p.lost <- struct{}{}:
		default: // that it is lost is known
		}
	})
	defer t.Stop()
	return f()
}

// patiently runs an answer, which has a place among the streams until it ends. It returns before run where patience is
// lost: gRPC then ends what run waits for, and what run holds is given back right behind that.
func (s *Server) patiently(run func(*patience) error) error {
	free, err := s.place()
	if err != nil {
		return err
	}
	p := &patience{timeout: s.cfg.SendTimeout, lost: make(chan struct{}, 1)}
	ended := make(chan error, 1)
	s.running.Go(func() {
		err := run(p)
		free() // before the client knows of the end, and comes again
		ended <- err
	})
	select {
	case err := <-ended:
		return err
	case <-p.lost:
		return status.Errorf(codes.DeadlineExceeded, "the client took nothing for %s: go on from the token of the last batch", s.cfg.SendTimeout)
	}
}

// patientBatches is a stream of batches that are sent with patience.
type patientBatches struct {
	flight.FlightService_DoGetServer
	patience *patience
}

// Send is what the writer of a stream calls.
func (b patientBatches) Send(d *flight.FlightData) error {
	return b.patience.send(func() error { return b.FlightService_DoGetServer.Send(d) })
}
