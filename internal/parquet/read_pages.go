package parquet

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Source is a file. ReadAt fills all of what it is given, or says why not.
type Source interface {
	io.ReaderAt
	Size() int64
}

// pages gives the pages of a chunk one after the other.
type pages struct {
	src   Source
	at    int64 // of the file: first byte that was not asked for
	end   int64 // of the chunk
	ahead int64 // bytes to ask for at once, about
	// wanted are the parts that will be asked for, where that is known: no more is read ahead.
	wanted []byteSpan
	buf    []byte // what is read goes here
	have   []byte // the part of it that was not used
	codec  Codec
	mem    allocator
	body   []byte // of the last page, where it was compressed
}

// Limits of what a header may ask for: the first bounds headers, the others what a small file can unfold to. A page
// of up to plausiblePage bytes may be compressed as well as its bytes allow.
const (
	mostHeader    = 16 << 20
	plausiblePage = 64 << 20
	mostRatio     = 1 << 10
)

// overread is the room behind a page's bytes that copies of short values may read.
const overread = 32

// more reads until n bytes are there. What it gave before is then no longer good.
func (p *pages) more(n int64) error {
	missing := n - int64(len(p.have))
	if missing <= 0 {
		return nil
	}
	if missing > p.end-p.at {
		return damaged("a chunk that ends at byte %d, %d too early", p.end, missing-(p.end-p.at))
	}
	missing = min(max(missing, min(p.ahead, p.rest())), p.end-p.at)
	if size := p.src.Size(); p.at > size || missing > size-p.at { // before memory is taken for it
		return damaged("a chunk that has %d bytes at %d, in a file of %d", missing, p.at, size)
	}
	kept := int64(len(p.have))
	if kept+missing > int64(cap(p.buf)) {
		buf := p.mem.AllocateDirty(int(kept + missing))
		copy(buf, p.have)
		p.mem.Free(p.buf)
		p.buf = buf[:cap(buf)]
	} else {
		copy(p.buf[:kept], p.have)
	}
	p.have = p.buf[:kept]
	if n, err := p.src.ReadAt(p.buf[kept:kept+missing], p.at); int64(n) < missing {
		return fmt.Errorf("read %d bytes at %d: %w", missing, p.at, err)
	}
	p.at += missing
	p.have = p.buf[:kept+missing]
	return nil
}

// rest is how many bytes from at on will be asked for.
func (p *pages) rest() int64 {
	for len(p.wanted) > 0 && p.wanted[0].to <= p.at {
		p.wanted = p.wanted[1:]
	}
	switch {
	case p.wanted == nil:
		return p.end - p.at
	case len(p.wanted) == 0 || p.at < p.wanted[0].from:
		return 0
	}
	return p.wanted[0].to - p.at
}

// place is where in the file the next byte stands.
func (p *pages) place() int64 { return p.at - int64(len(p.have)) }

// jump goes to a place that is not before the one where it is.
func (p *pages) jump(to int64) {
	n := to - p.place()
	if n <= int64(len(p.have)) {
		p.have = p.have[n:]
		return
	}
	p.have, p.at = nil, to
}

// done says whether the chunk has no more bytes.
func (p *pages) done() bool { return len(p.have) == 0 && p.at >= p.end }

// header reads the next header.
func (p *pages) header() (pageHeader, error) {
	for want := int64(64); ; want *= 2 {
		want = max(want, int64(len(p.have)))
		if err := p.more(min(want, int64(len(p.have))+p.end-p.at)); err != nil {
			return pageHeader{}, err
		}
		h, n, err := parsePageHeader(p.have[:min(len(p.have), mostHeader)])
		if err == errShort && len(p.have) < mostHeader && p.at < p.end {
			continue
		}
		if err == errShort {
			err = damaged("it is cut off, or longer than %d bytes", mostHeader)
		}
		if err != nil {
			return h, fmt.Errorf("page header %d bytes before the end of its chunk: %w", p.end-p.at+int64(len(p.have)), err)
		}
		p.have = p.have[n:]
		return h, nil
	}
}

// skip passes over the page of a header.
func (p *pages) skip(h *pageHeader) {
	n := min(h.packed, int64(len(p.have)))
	p.have = p.have[n:]
	p.at += h.packed - n // beyond the end is noticed by the next read
}

// take gives the bytes of the page of a header as they stand in the file, good until more are read.
func (p *pages) take(h *pageHeader) ([]byte, error) {
	if err := p.more(h.packed); err != nil {
		return nil, err
	}
	packed := p.have[:h.packed]
	p.have = p.have[h.packed:]
	if h.checked && crc32.ChecksumIEEE(packed) != uint32(h.crc) {
		return nil, damaged("a page has checksum %08x, its header says %08x", crc32.ChecksumIEEE(packed), uint32(h.crc))
	}
	if h.raw > plausiblePage && h.raw > mostRatio*h.packed {
		return nil, damaged("a page of %d bytes that says it unfolds to %d", h.packed, h.raw)
	}
	return packed, nil
}

// unfold gives the bytes of a page, good until the next call. The first plain ones are not compressed.
func (p *pages) unfold(h *pageHeader, packed []byte, plain int64) ([]byte, error) {
	if plain > h.packed || plain > h.raw {
		return nil, damaged("a page of %d bytes with levels of %d", h.packed, plain)
	}
	if p.codec == Uncompressed || h.plain {
		if h.raw != h.packed {
			return nil, damaged("an uncompressed page of %d bytes whose header says %d", h.packed, h.raw)
		}
		return packed, nil
	}
	if int64(cap(p.body)) < h.raw+overread {
		p.mem.Free(p.body)
		p.body = p.mem.AllocateDirty(int(h.raw + overread))
	}
	body := p.body[:h.raw]
	copy(body, packed[:plain])
	if err := p.unpack(body[plain:], packed[plain:]); err != nil {
		return nil, err
	}
	return body, nil
}

// unpack decompresses src, which fills dst.
func (p *pages) unpack(dst, src []byte) error {
	if len(dst) == 0 { // all values are null: some writers then compress nothing, some write nothing
		return nil
	}
	var got []byte
	var err error
	switch p.codec {
	case Snappy:
		n, lengthErr := s2.DecodedLen(src)
		if lengthErr != nil || n != len(dst) {
			return damaged("a snappy page of %d bytes, its header says %d", n, len(dst))
		}
		got, err = s2.Decode(dst, src)
	case Gzip:
		got, err = dst, unpackGzip(dst, src)
	case LZ4:
		got, err = dst, unpackLZ4(dst, src)
	case LZ4Raw:
		got, err = dst, unpackBlock(dst, src)
	case Zstd:
		decoder, fault := zstdDecoder()
		if fault != nil {
			return fault
		}
		got, err = decoder.DecodeAll(src, dst[:0:len(dst)])
	}
	if err != nil {
		return damaged("a %s page: %v", p.codec, err)
	}
	if len(got) != len(dst) {
		return damaged("a %s page of %d bytes, its header says %d", p.codec, len(got), len(dst))
	}
	return nil
}

// zstdDecoder is shared by all chunks; it writes no more than there is room for.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.IgnoreChecksum(false))
})

func (p *pages) close() {
	p.mem.Free(p.body)
	p.mem.Free(p.buf)
	p.body, p.buf, p.have = nil, nil, nil
}

// levelBytes cuts the levels of a v1 page, which have their length in front, off its bytes.
func levelBytes(b []byte) (levels, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, damaged("a page of %d bytes without its levels", len(b))
	}
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, damaged("levels of %d bytes in a page with %d", n, len(b))
	}
	return b[:n], b[n:], nil
}
