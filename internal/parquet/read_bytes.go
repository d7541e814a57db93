package parquet

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
)

// decodeBytes appends n byte strings to the batch.
func (l *leafReader) decodeBytes(n int) error {
	raw, err := l.offs.extend(4 * n)
	if err != nil {
		return err
	}
	ends := arrow.Int32Traits.CastFromBytes(raw)
	switch l.encoding {
	case encPlain:
		return l.plainBytes(ends)
	case encDictionary:
		return l.lookBytes(ends)
	case encDeltaLength:
		return l.lengthBytes(ends)
	}
	return l.sharedBytes(ends)
}

// short is the length up to which a value is copied in pieces of the size of two registers, the last one with what lies
// behind the value.
const short = 4 * overread

// copyShort copies the first size bytes, and fewer than overread more.
func copyShort(dst, src []byte, size int) {
	for at := 0; at < size; at += overread {
		*(*[overread]byte)(dst[at:]) = *(*[overread]byte)(src[at:])
	}
}

// plainBytes reads strings that each have their length in front.
func (l *leafReader) plainBytes(ends []int32) error {
	src := l.body
	room := len(src)
	if 2*len(ends) < l.left || room > mostAtOnce { // much of the page may be for later batches
		room = int(int64(room) * int64(len(ends)) / int64(max(l.left, len(ends))))
	}
	if err := l.data.room(room + overread); err != nil {
		return err
	}
	dst, n, p := l.data.b[:cap(l.data.b)], len(l.data.b), 0
	wide := src[:cap(src)]
	for i := range ends {
		if len(src)-p < 4 {
			return l.tooFew()
		}
		size := int(binary.LittleEndian.Uint32(src[p:]))
		if p += 4; size > len(src)-p {
			return damaged("column %q: a value of %d bytes where its page has %d", l.name, size, len(src)-p)
		}
		if size > len(dst)-n-overread {
			l.data.b = dst[:n]
			if err := l.data.room(size + overread); err != nil {
				return err
			}
			dst = l.data.b[:cap(l.data.b)]
		}
		if size <= short && p+size+overread <= len(wide) {
			copyShort(dst[n:], wide[p:], size)
		} else {
			copy(dst[n:], src[p:p+size])
		}
		p += size
		n += size
		ends[i] = int32(n)
	}
	l.data.b, l.body = dst[:n], src[p:]
	return nil
}

func (l *leafReader) lookBytes(ends []int32) error {
	for len(ends) > 0 {
		codes, err := l.nextCodes(len(ends))
		if err != nil {
			return err
		}
		places, total := l.dict.places, 0
		for _, x := range codes {
			total += int(places[x].size)
		}
		if err := l.data.room(total + overread); err != nil {
			return err
		}
		src := l.dict.data[:cap(l.dict.data)] // there is overread room behind the last value
		dst, n := l.data.b[:cap(l.data.b)], len(l.data.b)
		for i, x := range codes {
			at := places[x]
			if at.size <= short {
				copyShort(dst[n:], src[at.at:], int(at.size))
			} else {
				copy(dst[n:], src[at.at:at.at+at.size])
			}
			n += int(at.size)
			ends[i] = int32(n)
		}
		l.data.b = dst[:n]
		ends = ends[len(codes):]
	}
	return nil
}

// lengthBytes reads strings whose lengths stand in front of all of them.
func (l *leafReader) lengthBytes(ends []int32) error {
	for len(ends) > 0 {
		sizes, err := l.delta.take(len(ends))
		if err != nil {
			return err
		}
		n, total := len(l.data.b), 0
		for i, size := range sizes {
			if size = int64(int32(size)); size < 0 || size > int64(len(l.body)-total) {
				return damaged("column %q: a value of %d bytes where its page has %d", l.name, size, len(l.body)-total)
			}
			total += int(size)
			ends[i] = int32(n + total)
		}
		if l.inPlace {
			l.data.b = l.data.b[:n+total]
		} else {
			if err := l.data.room(total); err != nil {
				return err
			}
			l.data.b = append(l.data.b, l.body[:total]...)
		}
		l.body = l.body[total:]
		ends = ends[len(sizes):]
	}
	return nil
}

// sharedBytes reads strings that begin like the one before.
func (l *leafReader) sharedBytes(ends []int32) error {
	for len(ends) > 0 {
		shared, err := l.delta.take(len(ends))
		if err != nil {
			return err
		}
		for len(shared) > 0 {
			sizes, err := l.suffix.take(len(shared))
			if err != nil {
				return err
			}
			for i, size := range sizes {
				from, size := int64(int32(shared[i])), int64(int32(size))
				if from < 0 || from > int64(len(l.prev)) || size < 0 || size > int64(len(l.body)) {
					return damaged("column %q: a value of %d shared and %d own bytes where there are %d and %d", l.name, from, size, len(l.prev), len(l.body))
				}
				if err := l.data.room(int(from + size)); err != nil {
					return err
				}
				l.prev = append(l.prev[:from], l.body[:size]...)
				l.data.b = append(l.data.b, l.prev...)
				l.body = l.body[size:]
				ends[i] = int32(len(l.data.b))
			}
			shared, ends = shared[len(sizes):], ends[len(sizes):]
		}
	}
	return nil
}
