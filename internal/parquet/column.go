package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// ErrTooLarge says that a value, or the page around it, has more bytes than the format can say.
var ErrTooLarge = errors.New("parquet: value too large")

// Encodings and page types of the format.
const (
	encPlain       = 0
	encRLE         = 3
	encDelta       = 5
	encDeltaLength = 6
	encDictionary  = 8

	dataPage       = 0
	dictionaryPage = 2
)

// A page ends at pageBytes of plain values or pageRows levels, whichever comes first: who looks for one offset decodes a
// page of it.
const (
	pageBytes = 64 << 10
	pageRows  = 8 << 10
)

// headroom is kept free in front of plain values, so that short levels, and the lengths of long values, need no copy of
// the values.
const headroom = 512

// column writes the chunks of one leaf.
type column struct {
	leaf
	opts   *Options
	codec  compressor
	opaque bool
	*scratch

	// The page that is being filled. Levels are explicit only from the first null or list on.
	slots   int
	values  int
	rows    int
	partial bool
	split   bool    // byte strings stand in plain without their lengths, which are in i32
	of      Bounds  // its values; of byte strings only when it is encoded
	pending         // in use between take and leave
	kept    pending // the rest of the time
	own     bool    // pending is the memory of kept

	// The chunk that is being filled.
	out      blocks // data pages with their headers
	levels   int64
	raw      int64 // bytes of its pages before compression, with headers
	encoding int   // of the pages to come; -1 before the first
	method   Codec // methodUnknown before the first page
	dict     dict
	pages    [9]int // data pages by encoding
	bounds   Bounds // of its pages
	index    pageIndex
	file     Bounds // of the chunks before
}

// pending are the levels and values of a page.
type pending struct {
	def   []uint8
	rep   []uint8
	plain []byte  // headroom, then values as PLAIN has them; booleans as a byte each, of a split page no lengths
	i32   []int32 // or these; the lengths of a split page
	i64   []int64
}

// set copies o.
func (p *pending) set(o *pending) {
	p.def, p.rep = append(p.def[:0], o.def...), append(p.rep[:0], o.rep...)
	p.plain, p.i32, p.i64 = append(p.plain[:0], o.plain...), append(p.i32[:0], o.i32...), append(p.i64[:0], o.i64...)
}

func (p *pending) clear() {
	p.def, p.rep, p.plain, p.i32, p.i64 = p.def[:0], p.rep[:0], p.plain[:0], p.i32[:0], p.i64[:0]
}

// scratch is memory that means nothing between two calls. Whatever writes at the moment has one, so that the
// columns of all files that are open share a few that stay in the processor's cache.
type scratch struct {
	free       pending // for the page of the column that is at work
	idx, idx2  []int32
	def2, rep2 []uint8
	page, comp []byte
	codes      []uint32
	seen       []uint64 // bits by code
	head       thrift
}

const methodUnknown Codec = -1

func (c *column) reset() {
	c.emptyPage()
	c.kept.clear()
	c.startChunk()
	c.file.reset()
}

func (c *column) emptyPage() {
	c.slots, c.values, c.rows, c.partial = 0, 0, 0, false
	c.of.reset()
}

func (c *column) startPage() {
	c.emptyPage()
	c.clear()
	c.plain = append(c.plain, make([]byte, headroom)...)
	c.split = c.opaque || c.encoding == encDeltaLength
}

// A page that holds less than both of these when a batch ends waits for the next one: pages should not be tiny.
const (
	leastBytes = 32 << 10
	leastRows  = 8 << 10
)

// take begins to work on the page. All columns of a writer fill their pages in the same memory, one after the
// other, so that it stays in the processor's cache; but a page that waits is filled up where it is.
func (c *column) take() {
	if c.own = c.slots > 0; c.own {
		c.pending, c.kept = c.kept, pending{}
		return
	}
	c.pending, c.free = c.free, pending{}
	c.startPage()
}

// leave keeps what there is of a page, and leaves the shared memory to the next column.
func (c *column) leave() {
	if c.own {
		c.kept, c.pending = c.pending, pending{}
		return
	}
	if c.slots > 0 {
		c.kept.set(&c.pending)
	}
	c.free, c.pending = c.pending, pending{}
}

func (c *column) startChunk() {
	c.out.reset()
	c.levels, c.raw, c.encoding, c.method = 0, 0, -1, methodUnknown
	c.pages = [9]int{}
	c.dict.reset()
	c.bounds.reset()
	c.index.reset()
}

// write appends all rows of a column of a batch.
func (c *column) write(a arrow.Array) error {
	c.take()
	defer c.leave()
	rows := a.Len()
	for from := 0; from < rows; {
		to := c.fits(a, from)
		if to == from { // nothing more goes into this page
			if err := c.flush(); err != nil {
				return err
			}
			continue
		}
		p, err := c.descend(a, from, to)
		if err != nil {
			return err
		}
		if err := c.gather(&p); err != nil {
			return err
		}
		c.values += p.len()
		c.rows += to - from
		if c.slots >= pageRows || c.size() >= pageBytes {
			if err := c.flush(); err != nil {
				return err
			}
		}
		from = to
	}
	if c.slots >= leastRows || c.size() >= leastBytes {
		return c.flush()
	}
	return nil
}

// end writes the last page of a chunk.
func (c *column) end() error {
	c.take()
	defer c.leave()
	return c.flush()
}

// size is the number of bytes of the values.
func (p *pending) size() int {
	return max(0, len(p.plain)-headroom) + 4*len(p.i32) + 8*len(p.i64)
}

// flush encodes the page, compresses it and appends it to the chunk.
func (c *column) flush() error {
	if c.slots == 0 {
		return nil
	}
	if c.encoding < 0 || c.encoding == encDictionary && c.dict.full() {
		c.choose()
	}
	kept := c.encoding
	defer func() { c.encoding = kept }()
	levels := appendHybrid[uint8]
	switch {
	case (kept == encDelta || kept == encDeltaLength) && c.values == 0:
		// Spark fails when it skips rows of a page of differences that has no value.
		c.encoding = encPlain
	case kept == encDelta && c.values < c.slots:
		// Spark 4.2, when it skips rows by the page index and all that it skips of a bit-packed group are nulls, begins anew with
		// the first of the differences, and gives wrong values. It knows what to do with runs.
		if levels = appendRuns; runsCost*runs(c.def) > c.size() {
			levels, c.encoding = appendHybrid, encPlain
		}
	}
	c.page = c.page[:0]
	if c.maxRep > 0 {
		c.page = appendLevels(c.page, c.rep, widthOf(uint64(c.maxRep)), appendHybrid)
	}
	if c.maxDef > 0 {
		if c.partial {
			c.page = appendLevels(c.page, c.def, widthOf(uint64(c.maxDef)), levels)
		} else {
			c.page = appendConstant(c.page, c.slots, c.maxDef)
		}
	}
	body := c.encode()
	c.of.Nulls += int64(c.slots - c.values)
	c.bounds.merge(&c.of)
	c.levels += int64(c.slots)
	c.pages[c.encoding]++
	head, data, err := c.pack(body, dataPage, c.slots, c.encoding)
	if err != nil {
		return err
	}
	c.out.append(head)
	c.out.append(data)
	c.index.add(&c.of, &c.leaf, len(head)+len(data), int64(c.rows))
	c.startPage()
	return nil
}

// encode puts the values behind the levels in page, and gives both.
func (c *column) encode() []byte {
	switch {
	case c.kind == kindBool:
		c.page = appendBits(c.page, c.plain[headroom:])
		return c.page
	case c.kind == kindInt32:
		boundInts(&c.of, c.i32)
		c.page = encodeInts(c, c.i32, 4)
		return c.page
	case c.kind == kindInt64:
		boundInts(&c.of, c.i64)
		c.page = encodeInts(c, c.i64, 8)
		return c.page
	case c.encoding == encDictionary:
		c.codeBytes(math.MaxInt)
		c.boundCodes()
		c.page = c.appendCodes(c.page)
		return c.page
	case c.kind == kindBytes && c.split:
		if !c.opaque {
			c.boundSplit()
		}
		return c.encodeSplit()
	case c.kind == kindBytes:
		c.boundBytes()
	}
	if c.encoding == encDeltaLength {
		c.page = c.appendLengths(c.page)
		return c.page
	}
	return c.joined()
}

// joined gives page and the values behind it.
func (c *column) joined() []byte {
	if n := len(c.page); n <= headroom {
		copy(c.plain[headroom-n:], c.page)
		return c.plain[headroom-n:]
	}
	c.page = append(c.page, c.plain[headroom:]...)
	return c.page
}

// boundBytes looks at byte strings as PLAIN has them.
func (c *column) boundBytes() {
	for rest := c.plain[headroom:]; len(rest) > 0; {
		n := 4 + int(binary.LittleEndian.Uint32(rest))
		c.of.bytes(rest[4:n], c.opts.KeepBytes)
		rest = rest[n:]
	}
}

// boundSplit is boundBytes for a split page.
func (c *column) boundSplit() {
	values := c.plain[headroom:]
	for _, n := range c.i32 {
		c.of.bytes(values[:n], c.opts.KeepBytes)
		values = values[n:]
	}
}

func (c *column) encodeSplit() []byte {
	if c.encoding == encDeltaLength {
		c.page = appendDelta(c.page, c.i32)
		return c.joined()
	}
	values := c.plain[headroom:]
	for _, n := range c.i32 {
		c.page = append(binary.LittleEndian.AppendUint32(c.page, uint32(n)), values[:n]...)
		values = values[n:]
	}
	return c.page
}

// appendLengths writes byte strings with the lengths of all in front: the first page of a chunk, which is not split yet.
func (c *column) appendLengths(dst []byte) []byte {
	values := c.plain[headroom:]
	c.idx = c.idx[:0]
	for rest := values; len(rest) > 0; {
		n := binary.LittleEndian.Uint32(rest)
		c.idx = append(c.idx, int32(n))
		rest = rest[4+n:]
	}
	dst = slices.Grow(appendDelta(dst, c.idx), len(values)-4*len(c.idx))
	for _, n := range c.idx {
		dst = append(dst, values[4:4+n]...)
		values = values[4+n:]
	}
	return dst
}

// boundCodes looks at each value of the page once, however often it is there.
func (c *column) boundCodes() {
	c.seen = append(c.seen[:0], make([]uint64, (c.dict.n+63)/64)...)
	rest := c.plain[headroom:]
	for _, code := range c.codes {
		n := 4 + int(binary.LittleEndian.Uint32(rest))
		if bit := uint64(1) << (code & 63); c.seen[code>>6]&bit == 0 {
			c.seen[code>>6] |= bit
			c.of.bytes(rest[4:n], c.opts.KeepBytes)
		}
		rest = rest[n:]
	}
}

func encodeInts[T int32 | int64](c *column, v []T, width int) []byte {
	switch c.encoding {
	case encDelta:
		return appendDelta(c.page, v)
	case encDictionary:
		c.codes = c.codes[:0]
		for _, x := range v {
			code, _ := c.dict.number(uint64(x)&mask[T](), width)
			c.codes = append(c.codes, code)
		}
		return c.appendCodes(c.page)
	}
	return appendInts(c.page, v)
}

func appendInts[T int32 | int64](dst []byte, v []T) []byte {
	if mask[T]() == math.MaxUint32 {
		for _, x := range v {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(x))
		}
		return dst
	}
	for _, x := range v {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(x))
	}
	return dst
}

// appendBits packs booleans.
func appendBits(dst, v []byte) []byte {
	for ; len(v) >= 8; v = v[8:] {
		// The multiplication gathers the lowest bits of 8 bytes in the highest byte.
		dst = append(dst, byte(binary.LittleEndian.Uint64(v)*0x0102040810204080>>56))
	}
	if len(v) > 0 {
		var b byte
		for i, x := range v {
			b |= x << i
		}
		dst = append(dst, b)
	}
	return dst
}

// codeBytes replaces the first values by their numbers in the dictionary.
func (c *column) codeBytes(limit int) {
	c.codes = c.codes[:0]
	for rest := c.plain[headroom:]; len(rest) > 0 && len(c.codes) < limit; {
		n := 4 + int(binary.LittleEndian.Uint32(rest))
		code, _ := c.dict.bytes(rest[4:n])
		c.codes = append(c.codes, code)
		rest = rest[n:]
	}
}

func (c *column) appendCodes(dst []byte) []byte {
	w := c.dict.width()
	return appendHybrid(append(dst, byte(w)), c.codes, w)
}

func appendLevels(dst []byte, levels []uint8, width int, add func(dst []byte, levels []uint8, width int) []byte) []byte {
	at := len(dst)
	dst = add(append(dst, 0, 0, 0, 0), levels, width)
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

func appendConstant(dst []byte, n int, level uint8) []byte {
	at := len(dst)
	dst = appendRun(append(dst, 0, 0, 0, 0), n, uint64(level), widthOf(uint64(level)))
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// pack gives a page as it stands in the file. The first one decides whether the chunk is compressed at all.
func (c *column) pack(body []byte, typ, n, encoding int) (head, data []byte, err error) {
	if len(body) > math.MaxInt32-headroom {
		return nil, nil, fmt.Errorf("%w: column %q: a page of %d bytes", ErrTooLarge, c.name, len(body))
	}
	data = body
	if c.method != Uncompressed {
		if data, err = c.codec.compress(c.comp, body); err != nil {
			return nil, nil, fmt.Errorf("compress column %q: %w", c.name, err)
		}
		c.comp = data[:0]
		if c.method == methodUnknown {
			c.method = c.opts.Codec
			if 10*len(data) > 9*len(body) {
				c.method, data = Uncompressed, body
			}
		}
	}
	if len(data) > math.MaxInt32 {
		return nil, nil, fmt.Errorf("%w: column %q: a page of %d bytes", ErrTooLarge, c.name, len(data))
	}
	head = c.header(typ, n, encoding, len(body), data)
	c.raw += int64(len(head) + len(body))
	return head, data, nil
}

func (c *column) header(typ, n, encoding, size int, data []byte) []byte {
	t := &c.head
	t.reset(t.b[:0])
	t.i32(1, typ)
	t.i32(2, size)
	t.i32(3, len(data))
	t.i32(4, int(int32(crc32.ChecksumIEEE(data))))
	if typ == dictionaryPage {
		t.begin(7)
		t.i32(1, n)
		t.i32(2, encoding)
	} else {
		t.begin(5)
		t.i32(1, n)
		t.i32(2, encoding)
		t.i32(3, encRLE)
		t.i32(4, encRLE)
	}
	t.end()
	t.stop()
	return t.b
}
