package parquet

import (
	"encoding/binary"

	"github.com/klauspost/compress/s2"
)

// A page of long byte strings is mostly their bytes, which are what Arrow wants, in its order. Such a page is
// decompressed straight into the batch, with its first value where the batch goes on: what stands in front of the
// values then lies over the last bytes of the batch for a moment, and these are put back.

// What may stand in front of the values of a page that is read straight, in bytes: as much is looked at first, and at most.
const (
	leastFront = 256
	mostFront  = 4 << 10
)

// straight opens a page whose slots all belong to the batch, so that its values are where the batch wants them. It says
// no, before anything has changed, where it cannot; then the page is to be opened as others are, which also finds what
// is wrong with it.
func (l *leafReader) straight(h *pageHeader, packed []byte) (ok bool, err error) {
	if h.slots > int64(l.want) || l.codec != Snappy || h.encoding != encDeltaLength || l.kind != kindBytes || h.typ != dataPage || l.maxRep > 0 || h.defs != encRLE && l.maxDef > 0 {
		return false, nil
	}
	if n, err := s2.DecodedLen(packed); err != nil || int64(n) != h.raw {
		return false, nil
	}
	raw, at := int(h.raw), len(l.data.b)
	defs, before := l.openFront(packed)
	if before == 0 || before > at || before > raw {
		return false, nil
	}
	if err := l.data.room(raw - before + overread); err != nil {
		return false, err
	}
	page := l.data.b[at-before : at-before+raw]
	l.kept = append(l.kept[:0], page[:before]...)
	_, err = s2.Decode(page, packed)
	copy(page, l.kept)
	if err != nil {
		return false, damaged("a snappy page: %v", err)
	}
	l.left = int(h.slots)
	l.defs, l.reps = newHybrid(defs, widthOf(uint64(l.maxDef))), hybrid{}
	l.encoding, l.body, l.inPlace = encDeltaLength, page[before:], true
	return true, nil
}

// openFront begins with the levels and the lengths of a page and says how many bytes they have; 0 when that is not known.
func (l *leafReader) openFront(packed []byte) (defs []byte, before int) {
	for room := leastFront; room <= mostFront; room *= 4 {
		if cap(l.front) < room {
			l.front = make([]byte, 0, room)
		}
		l.front = snappyFront(l.front[:0:room], packed)
		front := l.front
		if l.maxDef > 0 {
			var err error
			if defs, front, err = levelBytes(front); err != nil {
				continue
			}
		}
		if l.delta.open(front) != nil {
			continue
		}
		if rest, err := l.delta.rest(); err == nil {
			return defs, len(l.front) - len(rest)
		}
	}
	return nil, 0
}

// snappyFront decodes the beginning of what snappy has compressed: what fits into dst's memory, or less.
func snappyFront(dst, src []byte) []byte {
	_, n := binary.Uvarint(src)
	if n <= 0 {
		return dst
	}
	for src = src[n:]; len(src) >= 5 && len(dst) < cap(dst); {
		tag, size, offset := src[0], 0, 0
		switch tag & 3 {
		case 0:
			size = int(tag>>2) + 1
			src = src[1:]
			if extra := size - 60; extra > 0 {
				var length [4]byte
				copy(length[:], src[:extra])
				size = int(binary.LittleEndian.Uint32(length[:])) + 1
				src = src[extra:]
			}
			if size = min(size, cap(dst)-len(dst)); size > len(src) || size <= 0 {
				return dst
			}
			dst = append(dst, src[:size]...)
			src = src[size:]
			continue
		case 1:
			size, offset = 4+int(tag>>2&7), int(tag&0xe0)<<3|int(src[1])
			src = src[2:]
		case 2:
			size, offset = int(tag>>2)+1, int(binary.LittleEndian.Uint16(src[1:]))
			src = src[3:]
		case 3:
			size, offset = int(tag>>2)+1, int(binary.LittleEndian.Uint32(src[1:]))
			src = src[5:]
		}
		if offset <= 0 || offset > len(dst) {
			return dst
		}
		for size = min(size, cap(dst)-len(dst)); size > 0; size-- {
			dst = append(dst, dst[len(dst)-offset])
		}
	}
	return dst
}
