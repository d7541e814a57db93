package tiering

import (
	"context"
)

// Each combination of partition values is a file of a commit. Producers choose the values, so their number in a commit is
// bounded (I8): a worker that has seen enough of them stops after the batch and waits for the cut, which it takes ahead
// of the chunks that were dispatched before. The session hears of that, since these chunks are of no commit yet.

// maxValues is how many combinations of partition values a worker collects for a commit, but for those of its last batch.
const maxValues = 512

// valueSet has the combinations of partition values of a worker since the last cut.
type valueSet map[string]struct{}

func (v valueSet) full() bool { return len(v) >= maxValues }

// note adds the values of the rows from one on.
func (v valueSet) note(s *session, r *rows, from int) {
	cols := s.keyColumns(r, from)
	var key []byte
	for row := range r.sys.Rows() - from {
		if row > 0 && sameKey(cols, row) {
			continue
		}
		key = key[:0]
		for _, c := range cols {
			key = appendKey(key, c, row)
		}
		if _, known := v[string(key)]; !known {
			v[string(key)] = struct{}{}
		}
	}
}

// next gives what is to be done next; false when ctx has ended.
func (w *worker) next(ctx context.Context) (message, bool) {
	if len(w.backlog) > 0 && ctx.Err() == nil {
		m := w.backlog[0]
		w.backlog = w.backlog[1:]
		return m, true
	}
	select {
	case <-ctx.Done():
		return message{}, false
	case m := <-w.in:
		return m, true
	}
}

// awaitCut asks for a cut and makes it, in the middle of a chunk. Chunks that come before it wait: their memory is in
// the budget already.
func (w *worker) awaitCut(ctx context.Context) error {
	w.press()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-w.in:
			if m.cut == nil {
				w.backlog = append(w.backlog, m)
				continue
			}
			out, err := w.cut(ctx)
			if err != nil {
				return err
			}
			out.more = true
			m.cut <- out
			return nil
		}
	}
}
