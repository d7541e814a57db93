package wire

import (
	"slices"
	"sync"
	"sync/atomic"
)

const (
	mostWaiting = 16       // requests of one connection that wait for the disk together
	takenBytes  = 64 << 10 // of a request that the reader begins: it reads no other one meanwhile
)

// waiting are the requests of a connection that are begun and not answered, oldest first: Produce requests whose batches
// have their offsets and wait for the disk. The next one is begun meanwhile, so that one sync serves them all. Answers go in
// the order of the requests, and any other request is begun when all before it are answered.
//
// Two goroutines use it. The loop answers, and begins what the reader has left to it. The reader begins a small Produce
// request by itself when all before it are begun, and answers it when all before it are answered and it waits for nothing:
// to wake the loop takes longer than that.
type waiting struct {
	c    *conn
	left atomic.Int32  // frames that the reader has left to the loop, and that are not begun; one more when the loop is to end
	wake chan struct{} // holds one when the oldest request may be answered

	mu   sync.Mutex
	reqs []underway // the reader appends, and the loop
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
		select {
		case f, open := <-w.c.frames:
			if !open {
				return w.finishAll()
			}
			if err := w.begin(f); err != nil {
				return err // all that comes is left to the loop, which ends
			}
			w.left.Add(-1)
		case <-w.wake:
		}
	}
}

// take begins a request on the goroutine that has read it, if that is for the reader to do. After an error the connection
// is to end.
func (w *waiting) take(f *frame) (taken bool, err error) {
	c := w.c
	if f.key != keyProduce || len(f.body) > takenBytes || c.s.gateway != nil || !w.free() || c.ahead.holds(f) {
		return false, nil
	}
	a, err := c.s.dispatch(c.ctx, c, f)
	switch {
	case err != nil || a.ready == nil:
		w.push(*f, settled(a, err))
	case isClosed(a.ready) && w.count() == 0 && w.left.Load() == 0: // in this order, see free
		return true, w.answer(f, a)
	default:
		w.push(*f, a)
	}
	return true, nil
}

// free says whether the reader may begin a request. What the loop begins is among those that wait before it is no longer left to
// the loop, and what ends the connection is left to it before it no longer waits: so left is looked at on both sides.
func (w *waiting) free() bool { return w.left.Load() == 0 && !w.full() && w.left.Load() == 0 }

// settled is an answer, or an error that ends the connection, when all before it are answered.
func settled(a answer, err error) answer {
	return answer{ready: closed, last: err != nil, done: a.done, files: a.files, whole: func() (answer, error) { return a, err }}
}

// push takes a request among those that wait.
func (w *waiting) push(f frame, a answer) {
	w.mu.Lock()
	w.reqs = append(w.reqs, underway{f, a})
	w.mu.Unlock()
	if isClosed(a.ready) {
		w.signal()
	}
}

// ready is called when the answer of a request is there, by the goroutine that has it: it does not block. Where that is before the
// request is pushed, push finds it.
func (w *waiting) ready() {
	if w.count() > 0 {
		w.signal()
	}
}

func (w *waiting) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *waiting) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.reqs)
}

// oldest gives the request that is answered next.
func (w *waiting) oldest() (u underway, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reqs) == 0 {
		return underway{}, false
	}
	return w.reqs[0], true
}

func (w *waiting) answered() bool {
	u, ok := w.oldest()
	return ok && isClosed(u.answer.ready)
}

// closed is what is always ready.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// full says whether nothing is begun behind what waits.
func (w *waiting) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.reqs)
	return n >= mostWaiting || n > 0 && w.reqs[n-1].answer.last
}

// begin takes a request to where it waits, or answers it. After an error those before it are answered.
func (w *waiting) begin(f frame) error {
	c := w.c
	alone := f.key != keyProduce || c.ahead.holds(&f)
	for alone && w.count() > 0 || w.full() {
		if err := w.finish(); err != nil {
			c.over(&f, answer{})
			return err
		}
	}
	c.ahead.hold(c.ctx, &f) // a client that keeps to what it was told does not notice
	a, err := c.s.dispatch(c.ctx, c, &f)
	if err == nil && a.ready != nil {
		w.push(f, a)
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
	for w.count() > 0 {
		if err := w.finish(); err != nil {
			return err
		}
	}
	return nil
}

// finish answers the oldest request when it can be.
func (w *waiting) finish() error {
	u, _ := w.oldest()
	<-u.answer.ready
	err := w.answer(&u.frame, u.answer)
	if err != nil {
		w.left.Add(1) // the connection ends: the reader begins nothing more, and answers nothing
	}
	w.dropOldest()
	return err
}

func (w *waiting) dropOldest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reqs = slices.Delete(w.reqs, 0, 1) // there are few
}

// answer answers a request that waits for nothing.
func (w *waiting) answer(f *frame, ready answer) error {
	a, err := ready.whole()
	if err == nil {
		err = w.c.send(a)
	}
	w.c.over(f, a)
	return err
}

// abandon lets go of requests that nobody answers, when the reader is gone. Their memory is the log's as long as it has their
// batches.
func (w *waiting) abandon() {
	for u, ok := w.oldest(); ok; u, ok = w.oldest() {
		<-u.answer.ready
		w.c.over(&u.frame, u.answer)
		w.dropOldest()
	}
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
