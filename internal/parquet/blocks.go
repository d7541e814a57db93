package parquet

import "sync"

// blockSizes are the sizes of the blocks that a chunk is gathered in: the first is small, since most columns of
// a quiet partition are.
var blockSizes = [...]int{8 << 10, 32 << 10, 128 << 10}

// blockPool keeps blocks that are not in use. A chunk in blocks grows without a copy, and the blocks of one
// chunk serve any other after it.
type blockPool [len(blockSizes)]sync.Pool

func (p *blockPool) get(class int) []byte {
	if b, ok := p[class].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, blockSizes[class])
}

func (p *blockPool) put(b []byte) {
	for class, size := range blockSizes {
		if cap(b) == size {
			p[class].Put(&b)
			return
		}
	}
}

// blocks are the bytes of a chunk.
type blocks struct {
	pool *blockPool
	list [][]byte
	size int
}

func (b *blocks) append(data []byte) {
	b.size += len(data)
	for len(data) > 0 {
		last := len(b.list) - 1
		if last < 0 || len(b.list[last]) == cap(b.list[last]) {
			last++
			b.list = append(b.list, b.pool.get(min(last, len(blockSizes)-1)))
		}
		n := min(len(data), cap(b.list[last])-len(b.list[last]))
		b.list[last] = append(b.list[last], data[:n]...)
		data = data[n:]
	}
}

// reset gives the blocks back.
func (b *blocks) reset() {
	for i, x := range b.list {
		b.pool.put(x)
		b.list[i] = nil
	}
	b.list, b.size = b.list[:0], 0
}
