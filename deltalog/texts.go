package deltalog

import (
	"errors"
	"math"
	"sync/atomic"
	"unsafe"
)

// texts holds the text of a block's rows in one piece of memory. One goroutine puts; any number may read what was put
// before they got the block, meanwhile: what was put stays where it is within the memory, and when that is moved into
// larger memory, the old one is still right for who has it.
type texts struct {
	base       atomic.Pointer[byte]
	used, room uint32 // bytes; of the goroutine that puts
}

// span is a place in texts. The zero span is the empty text.
type span struct{ from, size uint32 }

var errTexts = errors.New("256 files have more than 4 GiB of text")

// at gives a text, which keeps the memory alive for as long as somebody has it.
func (t *texts) at(s span) string {
	if s.size == 0 {
		return ""
	}
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(t.base.Load()), s.from)), s.size)
}

func (t *texts) put(text string) (span, error) {
	if len(text) == 0 {
		return span{}, nil
	}
	need := int64(t.used) + int64(len(text))
	if need > math.MaxUint32 {
		return span{}, errTexts
	}
	if need > int64(t.room) {
		t.move(min(max(need+need/2, 256), math.MaxUint32))
	}
	s := span{t.used, uint32(len(text))}
	copy(t.bytes()[t.used:], text)
	t.used = uint32(need)
	return s, nil
}

// reserve makes room before the first text.
func (t *texts) reserve(room int) {
	if room > 0 {
		t.move(int64(room))
	}
}

// close gives back room that is not used, when that is much, and says how much a next block may want. Call it when
// no row will come.
func (t *texts) close() (next int) {
	if t.room-t.used > t.used/8 {
		t.move(int64(t.used))
	}
	return int(min(int64(t.used)+int64(t.used)/16, math.MaxUint32))
}

func (t *texts) bytes() []byte { return unsafe.Slice(t.base.Load(), t.room) }

func (t *texts) move(room int64) {
	to := make([]byte, room)
	if room == 0 {
		t.room = 0
		return
	}
	copy(to, t.bytes()[:t.used])
	t.room = uint32(room)
	t.base.Store(&to[0])
}
