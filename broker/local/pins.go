package local

import "sync"

// pins counts the files that stay open for answers. An active segment's is open anyway, and is not counted until the segment
// ends: its writer closes then, and the file, perhaps deleted, is the answer's. While there are too many, no answer more
// is left in any file, so there are never more than most and one a partition.
type pins struct {
	most int

	mu   sync.Mutex
	held int // files
}

// pinned is what pins knows of a segment with a writer.
type pinned struct {
	answers int  // that lie in the writer's file
	ended   bool // the file is not the active one any more
}

// take counts an answer in the file of a view, until give is called; not ok when there are too many.
func (p *pins) take(v view) (give func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held >= p.most {
		return nil, false
	}
	if v.h != nil {
		p.held++
		return p.giveHandle, true
	}
	s := &v.s.pinned
	if s.answers++; s.answers == 1 && s.ended {
		p.held++
	}
	return func() { p.giveWriter(s) }, true
}

func (p *pins) giveHandle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
}

func (p *pins) giveWriter(s *pinned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.answers--; s.answers == 0 && s.ended {
		p.held--
	}
}

// end is called when a segment is not the active one any more.
func (p *pins) end(s *seg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.pinned.ended {
		s.pinned.ended = true
		if s.pinned.answers > 0 {
			p.held++
		}
	}
}
