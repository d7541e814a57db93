package parquet

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
)

// openValues begins with the values of a page.
func (l *leafReader) openValues(encoding int64, body []byte) (err error) {
	if encoding == encPlainDictionary {
		encoding = encDictionary
	}
	l.encoding, l.body, l.inPlace, l.bit, l.codes = encoding, body, false, 0, hybrid{} // a page without a byte has no codes of the one before
	l.delta, l.suffix, l.prev = deltaReader{group: l.delta.group[:0]}, deltaReader{group: l.suffix.group[:0]}, l.prev[:0]
	integer := l.kind == kindInt32 || l.kind == kindInt64
	switch {
	case encoding == encPlain:
		return nil
	case len(body) == 0: // no slot of the page has a value
		return nil
	case encoding == encDictionary && l.kind != kindBool:
		if !l.dict.loaded {
			return damaged("column %q: a page of codes without a dictionary", l.name)
		}
		if body[0] > 32 {
			return damaged("column %q: codes of %d bits", l.name, body[0])
		}
		l.codes = newHybrid(body[1:], int(body[0]))
		return nil
	case encoding == encRLE && l.kind == kindBool:
		levels, _, err := levelBytes(body)
		l.codes = newHybrid(levels, 1)
		return err
	case encoding == encDelta && integer:
		return l.delta.open(body)
	case encoding == encDeltaLength && l.kind == kindBytes:
		if err := l.delta.open(body); err != nil {
			return err
		}
		l.body, err = l.delta.rest()
		return err
	case encoding == encDeltaBytes && l.kind == kindBytes:
		if err := l.delta.open(body); err != nil {
			return err
		}
		if body, err = l.delta.rest(); err != nil {
			return err
		}
		if err := l.suffix.open(body); err != nil {
			return err
		}
		l.body, err = l.suffix.rest()
		return err
	case encoding == encSplit && l.kind != kindBool && l.kind != kindBytes:
		return nil
	}
	return unsupported("encoding %d of a column of physical type %d", encoding, l.kind)
}

// decode appends n values of the page to the batch.
func (l *leafReader) decode(n int) error {
	if n == 0 {
		return nil
	}
	if l.kind == kindBytes {
		return l.decodeBytes(n)
	}
	if l.encoding == encPlain && l.kind != kindBool && len(l.body)/l.width < n {
		return l.tooFew()
	}
	dst, err := l.vals.extend(n * l.width)
	if err != nil {
		return err
	}
	switch {
	case l.kind == kindBool:
		return l.decodeBools(dst)
	case l.encoding == encPlain:
		l.body = l.body[copy(dst, l.body):]
		return nil
	case l.encoding == encDictionary:
		return l.look(dst, n)
	case l.encoding == encDelta:
		return l.differences(dst, n)
	}
	return l.gatherStreams(dst, n)
}

func (l *leafReader) tooFew() error {
	return damaged("column %q: a page with fewer values than levels", l.name)
}

func (l *leafReader) decodeBools(dst []byte) error {
	if l.encoding == encRLE {
		return fill(&l.codes, dst)
	}
	if len(dst) > 8*len(l.body)-l.bit {
		return l.tooFew()
	}
	unpack(dst, l.body, l.bit, 1)
	l.bit += len(dst)
	return nil
}

func (l *leafReader) differences(dst []byte, n int) error {
	for n > 0 {
		v, err := l.delta.take(n)
		if err != nil {
			return err
		}
		n -= len(v)
		if l.width == 8 {
			copy(arrow.Int64Traits.CastFromBytes(dst), v)
			dst = dst[8*len(v):]
			continue
		}
		for i, x := range v {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(x))
		}
		dst = dst[4*len(v):]
	}
	return nil
}

// gatherStreams reads BYTE_STREAM_SPLIT: the first bytes of all values of the page, then the second ones, and so on.
func (l *leafReader) gatherStreams(dst []byte, n int) error {
	all := len(l.body) / l.width
	if n > all-l.bit {
		return l.tooFew()
	}
	for j := range l.width {
		stream := l.body[j*all+l.bit:][:n]
		for i, b := range stream {
			dst[i*l.width+j] = b
		}
	}
	l.bit += n
	return nil
}

// nextCodes gives the next codes, at most n, each of which is in the dictionary.
func (l *leafReader) nextCodes(n int) ([]uint32, error) {
	if l.index == nil {
		l.index = make([]uint32, fewSlots)
	}
	v := l.index[:min(n, fewSlots)]
	if err := fill(&l.codes, v); err != nil {
		return nil, err
	}
	most := uint32(0)
	for _, x := range v {
		most = max(most, x)
	}
	if int(most) >= l.dict.n {
		return nil, damaged("column %q: code %d of a dictionary of %d values", l.name, most, l.dict.n)
	}
	return v, nil
}

// look gives the values of a fixed width that codes stand for.
func (l *leafReader) look(dst []byte, n int) error {
	for n > 0 {
		codes, err := l.nextCodes(n)
		if err != nil {
			return err
		}
		switch l.width {
		case 4:
			from, to := arrow.Uint32Traits.CastFromBytes(l.dict.data), arrow.Uint32Traits.CastFromBytes(dst)[:len(codes)]
			for i, x := range codes {
				to[i] = from[x]
			}
		case 8:
			from, to := arrow.Uint64Traits.CastFromBytes(l.dict.data), arrow.Uint64Traits.CastFromBytes(dst)[:len(codes)]
			for i, x := range codes {
				to[i] = from[x]
			}
		default:
			for i, x := range codes {
				copy(dst[i*l.width:][:l.width], l.dict.data[int(x)*l.width:])
			}
		}
		dst = dst[len(codes)*l.width:]
		n -= len(codes)
	}
	return nil
}

// dictionary holds the values of a dictionary page.
type dictionary struct {
	mem    allocator
	loaded bool
	n      int
	data   []byte // the values one after the other
	places []spot
	most   int // bytes of the longest byte string
}

// spot is where a byte string stands in the dictionary's data.
type spot struct{ at, size uint32 }

func (d *dictionary) free() {
	d.mem.Free(d.data[:cap(d.data)])
	d.data = nil
}

// loadDictionary reads a dictionary page. The dictionary has a copy, since the page's memory is used again.
func (l *leafReader) loadDictionary(h *pageHeader) error {
	d := &l.dict
	if d.loaded {
		return damaged("column %q has two dictionaries", l.name)
	}
	if l.begun {
		return damaged("column %q has its dictionary behind values", l.name)
	}
	if h.encoding != encPlain && h.encoding != encPlainDictionary {
		return unsupported("a dictionary of encoding %d", h.encoding)
	}
	packed, err := l.pages.take(h)
	if err != nil {
		return err
	}
	body, err := l.pages.unfold(h, packed, 0)
	if err != nil {
		return err
	}
	if l.kind == kindBool {
		return unsupported("a dictionary of booleans")
	}
	d.loaded, d.n = true, int(h.slots)
	d.data = d.mem.AllocateDirty(len(body) + overread)[:len(body)]
	copy(d.data, body)
	if l.kind != kindBytes {
		if d.n > len(body)/l.width {
			return damaged("column %q: a dictionary of %d values in %d bytes", l.name, d.n, len(body))
		}
		return nil
	}
	if d.n > len(body)/4 {
		return damaged("column %q: a dictionary of %d values in %d bytes", l.name, d.n, len(body))
	}
	d.places = make([]spot, d.n)
	at := 0
	for i := range d.places {
		if len(body)-at < 4 {
			return damaged("column %q: its dictionary ends %d values early", l.name, d.n-i)
		}
		size := int(binary.LittleEndian.Uint32(body[at:]))
		if at += 4; size > len(body)-at {
			return damaged("column %q: a value of %d bytes where its dictionary has %d", l.name, size, len(body)-at)
		}
		d.places[i] = spot{uint32(at), uint32(size)}
		d.most = max(d.most, size)
		at += size
	}
	return nil
}
