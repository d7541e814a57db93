package parquet

import (
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
)

// Pool keeps the buffers of writers for files of the same columns. The zero value is ready for use.
type Pool struct {
	writers   sync.Pool
	scratches sync.Pool
	blocks    blockPool
}

// maxScratch is the largest page whose memory is used again.
const maxScratch = 2 << 20

// scratch gives memory to work in; it goes back to scratches.
func (p *Pool) scratch() *scratch {
	if s, ok := p.scratches.Get().(*scratch); ok && cap(s.free.plain) <= maxScratch && cap(s.idx) <= maxScratch {
		return s
	}
	return &scratch{}
}

// maxKept is the largest buffer of a column that waits for another file: a single huge value must not hold
// memory for ever.
const maxKept = 256 << 10

// NewWriter begins a file, as the function does.
func (p *Pool) NewWriter(sink io.Writer, schema *arrow.Schema, opts Options) (*Writer, error) {
	if w, ok := p.writers.Get().(*Writer); ok && w.opts == opts.withDefaults() && w.schema.Equal(schema) {
		w.reset(sink)
		return w, nil
	}
	return newWriter(sink, schema, opts, p)
}

// Put takes the buffers of a writer that nobody uses any more, closed or not.
func (p *Pool) Put(w *Writer) {
	w.sink = nil
	for _, c := range w.cols {
		c.out.reset()
		k := &c.kept
		k.plain, k.def, k.rep, k.i32, k.i64 = keep(k.plain, maxKept), keep(k.def, maxKept), keep(k.rep, maxKept), keep(k.i32, maxKept), keep(k.i64, maxKept)
		c.dict.page = keep(c.dict.page, maxDictBytes)
	}
	p.writers.Put(w)
}

func keep[T any](b []T, most int) []T {
	if cap(b) > most {
		return nil
	}
	return b
}
