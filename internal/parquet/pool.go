package parquet

import (
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
)

// Pool keeps the buffers of writers for files of the same columns. The zero value is ready for use.
type Pool struct {
	writers sync.Pool
	blocks  blockPool
}

// maxScratch is the largest buffer of a page that waits for another file: a single huge value must not hold
// memory for ever.
const maxScratch = 2 << 20

// NewWriter begins a file, as the function does.
func (p *Pool) NewWriter(sink io.Writer, schema *arrow.Schema, opts Options) (*Writer, error) {
	if w, ok := p.writers.Get().(*Writer); ok && w.opts == opts.withDefaults() && w.schema.Equal(schema) {
		w.reset(sink)
		return w, nil
	}
	return newWriter(sink, schema, opts, &p.blocks)
}

// Put takes the buffers of a writer that nobody uses any more, closed or not.
func (p *Pool) Put(w *Writer) {
	w.sink = nil
	for _, c := range w.cols {
		c.out.reset()
		c.plain = keep(c.plain, maxScratch)
		c.def, c.rep, c.i32, c.i64 = keep(c.def, maxScratch), keep(c.rep, maxScratch), keep(c.i32, maxScratch), keep(c.i64, maxScratch)
		c.dict.page = keep(c.dict.page, maxScratch)
	}
	*w.cols[0].scratch = scratch{} // a few pages: cheaper made again than watched
	p.writers.Put(w)
}

func keep[T any](b []T, most int) []T {
	if cap(b) > most {
		return nil
	}
	return b
}
