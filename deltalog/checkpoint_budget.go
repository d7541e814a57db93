package deltalog

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A few bytes of Parquet can stand for any number. What the columns of a checkpoint file take at a time has one limit for all
// of them, and so has the text that is left of it.
const (
	// mostUnfolded bounds the memory of the pages, dictionaries and batches of all columns, beyond packedRatio times the bytes of
	// the file and, as a table of many columns has bounds of each, leafUnfolds for each column, of which wideUnfolds bounds the sum.
	mostUnfolded = 256 << 20
	packedRatio  = 4
	leafUnfolds  = 512 << 10 // a page, what of the chunk is read ahead, a batch
	wideUnfolds  = 2 << 30
	// mostText bounds what the files of a checkpoint keep, where that is also more than mostTextRatio times its size.
	mostText      = 256 << 20
	mostTextRatio = 256
)

// errUnfolds says that a checkpoint is small and what it stands for is not.
var errUnfolds = errors.New("a small file that unfolds to too much")

// unfolding is the allocator of all columns of a file. An allocator has no way to say no but a panic, which ends in
// parseParquet as an error of the file. What one row group gives back serves the next one: columns are closed when nobody has
// a text of theirs any more.
type unfolding struct {
	memory.Allocator
	left, all int64
	spare     [][]byte
}

// mostSpare bounds the buffers that wait to be used again, and spareBytes each of them.
const (
	mostSpare  = 32
	spareBytes = 4 << 20
)

// begin starts a row group with so many columns in a file of the given size: whatever was there for another one is garbage.
func (u *unfolding) begin(size int64, leaves int) {
	u.all = mostUnfolded + packedRatio*size + min(int64(leaves)*leafUnfolds, wideUnfolds)
	u.left = u.all
}

func (u *unfolding) charge(n int) {
	if u.left -= int64(n); u.left < 0 {
		panic(fmt.Errorf("%w: the columns of one row group take more than %d MiB at a time", errUnfolds, u.all>>20))
	}
}

// Allocate gives memory, or panics with errUnfolds.
func (u *unfolding) Allocate(size int) []byte {
	u.charge(size)
	return u.Allocator.Allocate(size)
}

// AllocateDirty is Allocate for who overwrites all of it.
func (u *unfolding) AllocateDirty(size int) []byte {
	best := -1
	for i, b := range u.spare {
		if cap(b) >= size && cap(b) <= 2*size+4096 && (best < 0 || cap(b) < cap(u.spare[best])) {
			best = i
		}
	}
	if best < 0 {
		return u.Allocate(size)
	}
	b := u.spare[best]
	u.charge(cap(b))
	last := len(u.spare) - 1
	u.spare[best] = u.spare[last]
	u.spare = u.spare[:last]
	return b[:size]
}

// Reallocate gives memory with what is in b, or panics with errUnfolds.
func (u *unfolding) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	u.charge(size - cap(b))
	return u.Allocator.Reallocate(size, b)
}

// Free takes it back.
func (u *unfolding) Free(b []byte) {
	u.left = min(u.left+int64(cap(b)), u.all)
	if n := cap(b); n > 0 && n <= spareBytes && len(u.spare) < mostSpare {
		u.spare = append(u.spare, b[:0:n])
	}
}

// textBytes is what the text of adds and removes takes.
func (a *actions) textBytes() (n int64) {
	for i := range a.adds {
		n += int64(len(a.adds[i].Path) + len(a.adds[i].Stats))
	}
	for i := range a.removes {
		n += int64(len(a.removes[i].Path))
	}
	for _, t := range a.tagTexts {
		n += int64(len(t))
	}
	return n
}
