package wire

import "time"

// pipe has the requests of one client that the cluster has and did not answer yet. The connection's worker sends them; a
// second goroutine reads the answers, which come in the order of the requests, and gives them to the client in that
// order. What the gateway answers itself, and what may wait, goes when all before it is through.
type pipe struct {
	c       *conn
	sent    chan *passing
	settled chan error // of each that is through; after the first error no answer is given any more
	out     int        // sent and not settled, as the worker knows
}

// relayLoop is answerLoop of a gateway.
func (c *conn) relayLoop() (err error) {
	p := &pipe{c: c, sent: make(chan *passing, pipelineDepth), settled: make(chan error, pipelineDepth)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.receiveLoop()
	}()
	for open := true; open && err == nil; {
		var f frame
		select {
		case f, open = <-c.frames:
			switch {
			case !open:
				err = p.drain()
			case p.takes(&f):
				err = p.send(&f)
			default:
				if err = p.drain(); err != nil {
					c.s.letGo(&f)
					break
				}
				err = c.answer(&f)
			}
		case err = <-p.settled:
			p.through()
		}
	}
	if err != nil && c.up.nc != nil {
		_ = c.up.nc.Close() // whatever is awaited comes to nothing
	}
	close(p.sent)
	<-done
	return err
}

// takes says whether others may be sent behind a frame before its answer is there.
func (p *pipe) takes(f *frame) bool {
	_, own := p.c.s.table[f.key]
	return !own && !mayWait(f.key)
}

// through notes that the oldest request is settled.
func (p *pipe) through() {
	p.out--
	p.c.up.used = time.Now()
}

// drain waits until all is answered.
func (p *pipe) drain() error { return p.atMost(0) }

// atMost waits until no more than n are not answered.
func (p *pipe) atMost(n int) error {
	for p.out > n {
		err := <-p.settled
		if p.through(); err != nil {
			return err
		}
	}
	return nil
}

// send gives a request to the cluster. After an error it is settled, and the connection ends.
func (p *pipe) send(f *frame) (err error) {
	c := p.c
	defer func() {
		if err != nil {
			c.s.letGo(f)
			c.ahead.leave(f, 0)
		}
	}()
	if err := c.s.admits(&c.proof, f.key); err != nil {
		return err
	}
	if err := p.atMost(cap(p.settled) - 1); err != nil {
		return err
	}
	if !c.up.fresh() {
		if err := p.drain(); err != nil {
			return err
		}
		if err := c.up.ready(c.ctx); err != nil {
			return err
		}
	}
	r, err := c.s.gateway.pass(c, f, func() {
		c.s.letGo(f)
		c.ahead.sent(f)
	})
	if err != nil {
		return err
	}
	if r.number, err = c.up.submit(c.ctx, f.body, r.x); err != nil {
		return err
	}
	c.up.used = time.Now()
	if r.x.quiet {
		c.ahead.leave(f, 0)
		return nil
	}
	r.frame = *f
	p.out++
	p.sent <- r
	return nil
}

// receiveLoop gives the answers to the client.
func (p *pipe) receiveLoop() {
	var failed error
	for r := range p.sent {
		if failed == nil {
			failed = p.settle(r)
		}
		p.c.ahead.leave(&r.frame, 0)
		p.settled <- failed
	}
}

func (p *pipe) settle(r *passing) error {
	out, mem, err := p.c.up.await(p.c.ctx, r.number, r.x)
	if err != nil {
		return err
	}
	p.c.s.metrics.took(r.began)
	defer mem.release()
	if out, err = p.c.s.gateway.back(p.c, r, out); err != nil {
		return err
	}
	return p.c.write(out)
}
