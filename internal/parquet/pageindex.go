package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// IndexKey is the footer's key under which stands where the page index of the file is, and its CRC-32 (IEEE): "offset
// length checksum", the checksum in hexadecimal. The format has none for it, and damage there would leave out rows.
const IndexKey = "ledgerlake.page-index"

// The orders that a column index may be in.
const (
	unordered  = 0
	ascending  = 1
	descending = 2
)

// pageIndex gathers what the page index (parquet.thrift: ColumnIndex, OffsetIndex) says of the pages of a chunk.
type pageIndex struct {
	pages  []indexedPage
	limits []byte // smallest and largest values, as PLAIN has them without length
	rows   int64
	void   bool // a page's limits are not known, so there is no column index
}

// indexedPage is a data page. Its smallest value is limits[at:mid], its largest limits[mid:end]; both are empty when all
// of it is null.
type indexedPage struct {
	size         int32 // bytes, with the header
	first        int64 // row of the chunk
	nulls        int64
	empty        bool
	at, mid, end int
}

func (x *pageIndex) reset() {
	x.pages, x.limits, x.rows, x.void = x.pages[:0], x.limits[:0], 0, false
}

// size is about the bytes that it will have in the file.
func (x *pageIndex) size() int { return 16*len(x.pages) + len(x.limits) }

// add appends a page of some rows, whose bounds count its nulls.
func (x *pageIndex) add(b *Bounds, l *leaf, size int, rows int64) {
	p := indexedPage{size: int32(size), first: x.rows, nulls: b.Nulls, at: len(x.limits), empty: !b.Any && !b.NaN}
	x.rows += rows
	if !p.empty {
		lo, hi, _, _, ok := b.plain(l)
		x.void = x.void || !ok
		x.limits = append(x.limits, lo...)
		p.mid = len(x.limits)
		x.limits = append(x.limits, hi...)
	} else {
		p.mid = p.at
	}
	p.end = len(x.limits)
	x.pages = append(x.pages, p)
}

// appendColumn writes the ColumnIndex.
func (x *pageIndex) appendColumn(t *thrift, l *leaf) {
	t.list(1, thriftTrue, len(x.pages))
	for i := range x.pages {
		t.elemBool(x.pages[i].empty)
	}
	t.list(2, thriftBinary, len(x.pages))
	for i := range x.pages {
		t.elemBytes(x.least(i))
	}
	t.list(3, thriftBinary, len(x.pages))
	for i := range x.pages {
		t.elemBytes(x.most(i))
	}
	t.i32(4, x.order(l))
	t.list(5, thriftI64, len(x.pages))
	for i := range x.pages {
		t.elemI64(x.pages[i].nulls)
	}
	t.stop()
}

func (x *pageIndex) least(i int) []byte { return x.limits[x.pages[i].at:x.pages[i].mid] }
func (x *pageIndex) most(i int) []byte  { return x.limits[x.pages[i].mid:x.pages[i].end] }

// order says how the limits of the pages that have some grow.
func (x *pageIndex) order(l *leaf) int {
	up, down, last := true, true, -1
	for i := range x.pages {
		if x.pages[i].empty {
			continue
		}
		if last >= 0 {
			lo, hi := l.compare(x.least(last), x.least(i)), l.compare(x.most(last), x.most(i))
			up, down = up && lo <= 0 && hi <= 0, down && lo >= 0 && hi >= 0
		}
		last = i
	}
	switch {
	case up:
		return ascending
	case down:
		return descending
	}
	return unordered
}

// appendOffsets writes the OffsetIndex of pages that begin at a place of the file.
func (x *pageIndex) appendOffsets(t *thrift, at int64) {
	t.list(1, thriftStruct, len(x.pages))
	for i := range x.pages {
		t.elem()
		t.i64(1, at)
		t.i32(2, int(x.pages[i].size))
		t.i64(3, x.pages[i].first)
		t.end()
		at += int64(x.pages[i].size)
	}
	t.stop()
}

// compare orders two values as PLAIN has them without length, in the order of their type.
func (x *leaf) compare(a, b []byte) int {
	le := binary.LittleEndian
	order := func(less, more bool) int {
		switch {
		case less:
			return -1
		case more:
			return 1
		}
		return 0
	}
	switch x.kind {
	case kindInt32:
		v, w := int32(le.Uint32(a)), int32(le.Uint32(b))
		return order(v < w, v > w)
	case kindInt64:
		v, w := int64(le.Uint64(a)), int64(le.Uint64(b))
		return order(v < w, v > w)
	case kindFloat:
		v, w := math.Float32frombits(le.Uint32(a)), math.Float32frombits(le.Uint32(b))
		return order(v < w, v > w)
	case kindDouble:
		v, w := math.Float64frombits(le.Uint64(a)), math.Float64frombits(le.Uint64(b))
		return order(v < w, v > w)
	case kindFixed: // the highest byte comes first, and has the sign
		if v, w := int8(a[0]), int8(b[0]); v != w {
			return order(v < w, v > w)
		}
	}
	return bytes.Compare(a, b)
}

// fileIndex is the page index of a file in work: it stands in front of the footer, all column indexes first, as other
// writers have it.
type fileIndex struct {
	columns, offsets []byte
	chunks           []chunkIndex
	t                thrift
}

// chunkIndex is where the index of a chunk is, in columns and offsets. Its chunk's place in the footer is behind at
// bytes of the row groups' metadata: there it is named, once its place in the file is known.
type chunkIndex struct {
	at                  int
	column, columnEnd   int // equal when there is none
	offsets, offsetsEnd int
}

func (x *fileIndex) reset() {
	x.columns, x.offsets, x.chunks = x.columns[:0], x.offsets[:0], x.chunks[:0]
}

// add appends the index of a chunk whose data pages begin at a place of the file.
func (x *fileIndex) add(c *column, at int, start int64) {
	k := chunkIndex{at: at, column: len(x.columns), offsets: len(x.offsets)}
	if !c.index.void && !c.opaque && c.maxRep == 0 {
		x.t.reset(x.columns)
		c.index.appendColumn(&x.t, &c.leaf)
		x.columns = x.t.b
	}
	x.t.reset(x.offsets)
	c.index.appendOffsets(&x.t, start)
	x.offsets = x.t.b
	k.columnEnd, k.offsetsEnd = len(x.columns), len(x.offsets)
	x.chunks = append(x.chunks, k)
}

// drop takes the last n chunks back: the index of a row group whose chunks have one page each says nothing that its
// statistics do not.
func (x *fileIndex) drop(n int) {
	first := x.chunks[len(x.chunks)-n]
	x.columns, x.offsets, x.chunks = x.columns[:first.column], x.offsets[:first.offsets], x.chunks[:len(x.chunks)-n]
}

// appendMetadata appends the row groups' metadata with the places of the index, which begins at a place of the file.
func (x *fileIndex) appendMetadata(t *thrift, metadata []byte, at int64) {
	from := 0
	for _, k := range x.chunks {
		t.b = append(t.b, metadata[from:k.at]...)
		from = k.at
		t.last = 3 // of ColumnChunk, the field before
		t.i64(4, at+int64(len(x.columns)+k.offsets))
		t.i32(5, k.offsetsEnd-k.offsets)
		if k.columnEnd > k.column {
			t.i64(6, at+int64(k.column))
			t.i32(7, k.columnEnd-k.column)
		}
	}
	t.b = append(t.b, metadata[from:]...)
}

// place is the value of IndexKey.
func (x *fileIndex) place(at int64) string {
	sum := crc32.Update(crc32.ChecksumIEEE(x.columns), crc32.IEEETable, x.offsets)
	return fmt.Sprintf("%d %d %08x", at, len(x.columns)+len(x.offsets), sum)
}
