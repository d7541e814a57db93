package wire

import "slices"

// mostWaiting bounds the requests of one connection that wait for the disk together.
const mostWaiting = 16

// waiting are the requests of a connection that are begun and not answered, oldest first: Produce requests whose batches
// have their offsets and wait for the disk. The next one is begun meanwhile, so that one sync serves them all. Answers go in
// the order of the requests, and any other request is begun when all before it are answered. One goroutine uses it.
type waiting struct {
	c    *conn
	reqs []underway
}

// underway is a request that is begun.
type underway struct {
	frame  frame
	answer answer
}

// loop answers the frames of the connection until there are no more.
func (w *waiting) loop() error {
	for {
		if w.answered() { // before the next is looked at
			if err := w.finish(); err != nil {
				return err
			}
			continue
		}
		frames := w.c.frames
		if w.full() {
			frames = nil
		}
		select {
		case f, open := <-frames:
			if !open {
				return w.finishAll()
			}
			if err := w.begin(f); err != nil {
				return err
			}
		case <-w.ready():
			if err := w.finish(); err != nil {
				return err
			}
		}
	}
}

// ready is closed when the oldest request can be answered; nil when there is none.
func (w *waiting) ready() <-chan struct{} {
	if len(w.reqs) == 0 {
		return nil
	}
	return w.reqs[0].answer.ready
}

func (w *waiting) answered() bool {
	select {
	case <-w.ready():
		return true
	default:
		return false
	}
}

// full says whether nothing is begun behind what waits.
func (w *waiting) full() bool {
	n := len(w.reqs)
	return n >= mostWaiting || n > 0 && w.reqs[n-1].answer.last
}

// begin takes a request to where it waits, or answers it. After an error those before it are answered.
func (w *waiting) begin(f frame) error {
	c := w.c
	if f.key != keyProduce || c.ahead.holds(&f) {
		if err := w.finishAll(); err != nil {
			c.over(&f, answer{})
			return err
		}
	}
	c.ahead.hold(c.ctx, &f) // a client that keeps to what it was told does not notice
	a, err := c.s.dispatch(c.ctx, c, &f)
	if err == nil && a.ready != nil {
		w.reqs = append(w.reqs, underway{f, a})
		return nil
	}
	if before := w.finishAll(); err == nil {
		err = before
	}
	if err == nil {
		err = c.send(a)
	}
	c.over(&f, a)
	return err
}

// finishAll waits for all requests and answers them.
func (w *waiting) finishAll() error {
	for len(w.reqs) > 0 {
		if err := w.finish(); err != nil {
			return err
		}
	}
	return nil
}

// finish answers the oldest request when it can be.
func (w *waiting) finish() error {
	b := &w.reqs[0]
	<-b.answer.ready
	a, err := b.answer.whole()
	if err == nil {
		err = w.c.send(a)
	}
	w.c.over(&b.frame, a)
	w.reqs = slices.Delete(w.reqs, 0, 1) // there are few
	return err
}

// abandon lets go of requests that nobody answers. Their memory is the log's as long as it has their batches.
func (w *waiting) abandon() {
	for i := range w.reqs {
		b := &w.reqs[i]
		<-b.answer.ready
		w.c.over(&b.frame, b.answer)
	}
	w.reqs = nil
}

// send writes an answer.
func (c *conn) send(a answer) (err error) {
	switch {
	case a.parts != nil:
		err = c.writeParts(a.parts)
	case len(a.out) > 0:
		err = c.write(a.out)
	}
	if err == nil {
		err = a.end
	}
	return err
}

// over lets go of all that a request held.
func (c *conn) over(f *frame, a answer) {
	a.release()
	if c.reuses(f.key) {
		c.s.buffers.put(f.body)
		f.body = nil
	}
	c.s.budget.Release(f.held)
	c.ahead.leave(f, a.mute)
}
