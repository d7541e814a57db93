package local

import (
	"container/list"
	"errors"
	"sync"
	"syscall"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/segment"
)

// handles keeps the files of sealed segments open for the next read, those that were used last. What is in use
// stays open whatever the limit, so readers never wait for each other.
type handles struct {
	fs  vfs.FS
	max int

	mu    sync.Mutex
	bySeg map[*seg]*handle
	order *list.List // of *handle, the last used first
}

// handle is a segment's reader, shared by all that read the segment.
type handle struct {
	*segment.Reader
	seg  *seg
	refs int
	in   *list.Element // nil when it is no longer in the list
}

func newHandles(fsys vfs.FS, limit int) *handles {
	return &handles{fs: fsys, max: limit, bySeg: map[*seg]*handle{}, order: list.New()}
}

// get gives the reader of a sealed segment. It is given back by put.
func (h *handles) get(dir string, s *seg, info segment.Info) (*handle, error) {
	if e := h.lookup(s); e != nil {
		return e, nil
	}
	r, err := segment.Open(h.fs, dir, info.Base)
	if outOfHandles(err) {
		h.shrink(0)
		r, err = segment.Open(h.fs, dir, info.Base)
	}
	if err != nil {
		return nil, err
	}
	r.Limit(info.Size)
	e := &handle{Reader: r, seg: s, refs: 1}
	h.mu.Lock()
	if h.bySeg[s] == nil { // else somebody was faster, and this one is for one use
		h.bySeg[s], e.in = e, h.order.PushFront(e)
	}
	h.mu.Unlock()
	h.shrink(h.max)
	return e, nil
}

// outOfHandles says whether an open found no handle free, in the process or the machine: nothing was done, and it can be tried again.
func outOfHandles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (h *handles) lookup(s *seg) *handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.bySeg[s]
	if e != nil {
		e.refs++
		h.order.MoveToFront(e.in)
	}
	return e
}

func (h *handles) put(e *handle) {
	h.mu.Lock()
	e.refs--
	last := e.refs == 0 && e.in == nil
	h.mu.Unlock()
	if last {
		_ = e.Close() // read only: nothing can be lost
	}
}

// drop forgets a segment. Its files are closed when the last read is through.
func (h *handles) drop(s *seg) {
	h.mu.Lock()
	e := h.bySeg[s]
	idle := e != nil && h.outLocked(e)
	h.mu.Unlock()
	if idle {
		_ = e.Close() // read only
	}
}

// outLocked takes a handle out of the list and tells whether it is to be closed.
func (h *handles) outLocked(e *handle) bool {
	delete(h.bySeg, e.seg)
	h.order.Remove(e.in)
	e.in = nil
	return e.refs == 0
}

// shrink closes what was not used for longest.
func (h *handles) shrink(limit int) {
	var idle []*handle
	h.mu.Lock()
	for at := h.order.Back(); at != nil && h.order.Len() > limit; {
		e := at.Value.(*handle)
		at = at.Prev()
		if e.refs == 0 && h.outLocked(e) {
			idle = append(idle, e)
		}
	}
	h.mu.Unlock()
	for _, e := range idle {
		_ = e.Close() // read only
	}
}

func (h *handles) close() { h.shrink(0) }
