package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrDamaged says that the pages of a file are not what the format or the file's own footer say.
var ErrDamaged = errors.New("parquet: damaged file")

func damaged(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, a...))
}

// errShort says that a page header goes on behind the bytes that were given.
var errShort = errors.New("parquet: short page header")

// dataPageV2 is the page type whose levels are not compressed.
const dataPageV2 = 3

// pageHeader is what stands in front of a page.
type pageHeader struct {
	typ         int64
	raw, packed int64 // bytes, before and after compression
	crc         int64
	checked     bool // there is a crc
	slots       int64
	encoding    int64
	defs, reps  int64 // encodings of the levels of a v1 page; bytes of those of a v2 page
	plain       bool  // a v2 page whose values are not compressed
}

// parsePageHeader reads a header at the start of b and gives its length; errShort when b ends before it does.
func parsePageHeader(b []byte) (h pageHeader, n int, err error) {
	t := thriftReader{b: b}
	t.fields(0, func(id int, typ byte) {
		switch {
		case id == 1 && typ == thriftI32:
			h.typ = t.varint()
		case id == 2 && typ == thriftI32:
			h.raw = t.varint()
		case id == 3 && typ == thriftI32:
			h.packed = t.varint()
		case id == 4 && typ == thriftI32:
			h.crc, h.checked = t.varint(), true
		case (id == 5 || id == 7 || id == 8) && typ == thriftStruct:
			t.fields(1, func(field int, typ byte) { h.pageField(&t, id, field, typ) })
		default:
			t.skip(typ, 1)
		}
	})
	if t.err != nil {
		return h, 0, t.err
	}
	const most = 1<<31 - 1
	for _, v := range []int64{h.raw, h.packed, h.slots} {
		if v < 0 || v > most {
			return h, 0, damaged("a page header with a size of %d", v)
		}
	}
	return h, t.at, nil
}

// pageField reads a field of the struct of a page's own type: 5 data, 7 dictionary, 8 data of version 2.
func (h *pageHeader) pageField(t *thriftReader, kind, id int, typ byte) {
	const data, dictionary, v2 = 5, 7, 8
	switch {
	case kind == v2 && id == 7 && (typ == thriftTrue || typ == thriftFalse):
		h.plain = typ == thriftFalse
		return
	case typ != thriftI32:
		t.skip(typ, 2)
		return
	}
	v := t.varint()
	switch {
	case id == 1:
		h.slots = v
	case id == 2 && kind != v2, id == 4 && kind == v2:
		h.encoding = v
	case id == 3 && kind == data, id == 5 && kind == v2:
		h.defs = v
	case id == 4 && kind == data, id == 6 && kind == v2:
		h.reps = v
	}
}

// thriftReader reads Thrift's compact protocol. Its error is sticky, and nothing behind it has a meaning.
type thriftReader struct {
	b   []byte
	at  int
	err error
}

// deepest is how far structs and lists may nest.
const deepest = 16

func (t *thriftReader) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *thriftReader) byte() byte {
	if t.err != nil || t.at >= len(t.b) {
		t.fail(errShort)
		return 0
	}
	t.at++
	return t.b[t.at-1]
}

func (t *thriftReader) uvarint() uint64 {
	if t.err != nil {
		return 0
	}
	v, n := binary.Uvarint(t.b[t.at:])
	if n <= 0 {
		if n < 0 {
			t.fail(damaged("a number of more than 64 bits in a page header"))
		}
		t.fail(errShort)
		return 0
	}
	t.at += n
	return v
}

func (t *thriftReader) varint() int64 {
	v := t.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// fields calls f for each field of a struct; f reads or skips its value.
func (t *thriftReader) fields(depth int, f func(id int, typ byte)) {
	if depth > deepest {
		t.fail(damaged("a page header that nests too deeply"))
	}
	id := 0
	for t.err == nil {
		head := t.byte()
		if t.err != nil || head == 0 {
			return
		}
		if d := int(head >> 4); d > 0 {
			id += d
		} else {
			id = int(int16(t.varint()))
		}
		f(id, head&15)
	}
}

func (t *thriftReader) advance(n uint64) {
	if t.err == nil && n > uint64(len(t.b)-t.at) {
		t.fail(errShort)
	}
	if t.err == nil {
		t.at += int(n)
	}
}

// skip passes over a value of a field.
func (t *thriftReader) skip(typ byte, depth int) {
	const double, set, mapping = 7, 10, 11
	switch typ {
	case thriftTrue, thriftFalse: // the type is the value
	case thriftByte:
		t.advance(1)
	case thriftI16, thriftI32, thriftI64:
		t.uvarint()
	case double:
		t.advance(8)
	case thriftBinary:
		t.advance(t.uvarint())
	case thriftList, set:
		head := t.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = t.uvarint()
		}
		t.skipMany(n, depth, head&15)
	case mapping:
		if n := t.uvarint(); n > 0 {
			kinds := t.byte()
			t.skipMany(n, depth, kinds>>4, kinds&15)
		}
	case thriftStruct:
		t.fields(depth+1, func(_ int, typ byte) { t.skip(typ, depth+1) })
	default:
		t.fail(damaged("a page header with a field of type %d", typ))
	}
}

// skipMany passes over n times the elements of a list or a map.
func (t *thriftReader) skipMany(n uint64, depth int, types ...byte) {
	if depth > deepest {
		t.fail(damaged("a page header that nests too deeply"))
	}
	for ; n > 0 && t.err == nil; n-- {
		for _, typ := range types {
			if typ == thriftTrue || typ == thriftFalse { // in lists a byte each
				typ = thriftByte
			}
			t.skip(typ, depth+1)
		}
	}
}
