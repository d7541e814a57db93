package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 library reads a frame through buffers of the largest block that its header names. Clients that keep that library's
// default name 4 MiB, for batches of a few KiB. Here the blocks of a frame go straight to where they are wanted.

var (
	errLZ4Short    = errors.New("the LZ4 frame ends early")
	errLZ4Checksum = errors.New("a checksum of the LZ4 frame is wrong")
)

const (
	lz4Magic     = 0x184d2204
	lz4Skippable = 0x184d2a50 // and the 15 after it: a length and so many bytes to pass over
	lz4Window    = 64 << 10   // that a linked block may copy from
)

// lz4Flags are the first byte of a frame's descriptor.
type lz4Flags byte

func (f lz4Flags) linked() bool          { return f&0x20 == 0 }
func (f lz4Flags) blockChecksum() bool   { return f&0x10 != 0 }
func (f lz4Flags) size() bool            { return f&0x08 != 0 }
func (f lz4Flags) contentChecksum() bool { return f&0x04 != 0 }
func (f lz4Flags) dictionary() bool      { return f&0x01 != 0 }

// lz4Checks says whether the checksums of blocks and of contents are verified.
type lz4Checks bool

const (
	lz4Checked lz4Checks = true
	lz4Trusted lz4Checks = false
)

// decompressLZ4 reads the frames of src, one behind the other (lz4 Frame format 1.6.4).
func decompressLZ4(dst, src []byte, limit int, checks lz4Checks) (_ []byte, err error) {
	dst = dst[:0]
	for first := true; first || len(src) > 0; first = false {
		if len(src) < 8 {
			return dst, errLZ4Short
		}
		magic, n := binary.LittleEndian.Uint32(src), binary.LittleEndian.Uint32(src[4:])
		switch {
		case magic == lz4Magic:
			if dst, src, err = lz4Frame(dst, src[4:], limit, checks); err != nil {
				return dst, err
			}
		case magic&^15 != lz4Skippable:
			return dst, fmt.Errorf("an LZ4 frame does not begin with %#08x", magic)
		case uint64(n) > uint64(len(src)-8):
			return dst, errLZ4Short
		default:
			src = src[8+n:]
		}
	}
	return dst, nil
}

// lz4Frame appends the content of the frame whose descriptor src begins with, and gives what is behind it.
func lz4Frame(dst, src []byte, limit int, checks lz4Checks) (_, rest []byte, err error) {
	flags, end := lz4Flags(src[0]), 2
	largest := 1 << (8 + 2*(src[1]>>4&7)) // 64 KiB, 256 KiB, 1 MiB, 4 MiB
	if flags.size() {
		end += 8
	}
	switch {
	case flags>>6 != 1 || flags&2 != 0 || largest < 64<<10 || src[1]&0x8f != 0:
		return dst, nil, fmt.Errorf("an LZ4 frame with the descriptor % x is not known", src[:2])
	case flags.dictionary():
		return dst, nil, errors.New("an LZ4 frame needs a dictionary, and Kafka has none")
	case len(src) <= end:
		return dst, nil, errLZ4Short
	case src[end] != byte(xxh32(src[:end])>>8):
		return dst, nil, errLZ4Checksum
	}
	start, descriptor := len(dst), src[2:end]
	for src = src[end+1:]; ; {
		if len(src) < 4 {
			return dst, nil, errLZ4Short
		}
		head := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if head == 0 {
			break
		}
		n, sum := int(head&^(1<<31)), 0
		if flags.blockChecksum() {
			sum = 4
		}
		if n > len(src)-sum || n > largest+largest/255+16 {
			return dst, nil, errLZ4Short
		}
		block := src[:n]
		if sum > 0 && bool(checks) && binary.LittleEndian.Uint32(src[n:]) != xxh32(block) {
			return dst, nil, errLZ4Checksum
		}
		src = src[n+sum:]
		var window []byte
		if flags.linked() {
			window = dst[max(start, len(dst)-lz4Window):]
		}
		if dst, err = lz4Block(dst, block, window, head>>31 == 1, largest, limit); err != nil {
			return dst, nil, err
		}
	}
	if flags.size() && binary.LittleEndian.Uint64(descriptor) != uint64(len(dst)-start) {
		return dst, nil, fmt.Errorf("an LZ4 frame of %d bytes says that it has %d", len(dst)-start, binary.LittleEndian.Uint64(descriptor))
	}
	if flags.contentChecksum() {
		if len(src) < 4 {
			return dst, nil, errLZ4Short
		}
		if bool(checks) && binary.LittleEndian.Uint32(src) != xxh32(dst[start:]) {
			return dst, nil, errLZ4Checksum
		}
		src = src[4:]
	}
	return dst, src, nil
}

// lz4Block appends the content of a block. How much that is stands nowhere: room for a few times as much is tried first, and
// what the next block may need is there already when its like came before.
func lz4Block(dst, block, window []byte, plain bool, largest, limit int) ([]byte, error) {
	left := limit - len(dst)
	if plain {
		if len(block) > min(left, largest) {
			return dst, errTooLarge
		}
		return append(dst, block...), nil
	}
	// A byte of a block stands for 255 at most, so a few bytes cannot make us allocate the whole limit.
	most := min(largest, 255*len(block)+16)
	room := min(max(4*len(block), 4<<10), most, left)
	for {
		dst = slices.Grow(dst, room)
		room = min(cap(dst)-len(dst), most, left)
		if len(window) > 0 {
			window = dst[len(dst)-len(window):] // it may have moved
		}
		n, err := lz4.UncompressBlockWithDict(block, dst[len(dst):len(dst)+room], window)
		switch {
		case err == nil:
			return dst[:len(dst)+n], nil
		case room == left && left < most:
			return dst, errTooLarge
		case room == most:
			return dst, fmt.Errorf("an LZ4 block is damaged: %w", err)
		}
		room = min(2*room, most, left)
	}
}

// xxh32 is the checksum of LZ4 frames: XXH32 with seed 0 (xxHash fast digest algorithm, section 3).
func xxh32(b []byte) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	h, n := uint32(p5), uint32(len(b))
	if len(b) >= 16 {
		v1, v2, v3, v4 := uint32(p1), uint32(p2), uint32(0), uint32(0)
		v1 += p2
		v4 -= p1
		for ; len(b) >= 16; b = b[16:] {
			v1 = bits.RotateLeft32(v1+binary.LittleEndian.Uint32(b)*p2, 13) * p1
			v2 = bits.RotateLeft32(v2+binary.LittleEndian.Uint32(b[4:])*p2, 13) * p1
			v3 = bits.RotateLeft32(v3+binary.LittleEndian.Uint32(b[8:])*p2, 13) * p1
			v4 = bits.RotateLeft32(v4+binary.LittleEndian.Uint32(b[12:])*p2, 13) * p1
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
