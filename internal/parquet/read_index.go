package parquet

import (
	"fmt"
	"hash/crc32"
	"strings"

	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// Bounds of what a page index may ask for; beyond them it counts as missing.
const (
	mostIndex   = 64 << 20 // bytes that are read at once of our own files, whose index is one piece
	mostForeign = 4 << 20  // bytes that are read at once of others, where each leaf of a row group has its own
	mostPages   = 32 << 20 // bytes that all that is kept of a row group takes

	smallestPage  = 8 // bytes of a page at least, with its header
	smallestPlace = 7 // bytes of a page in an OffsetIndex at least: three fields and the end of a struct
	smallestLimit = 3 // bytes of a page in a ColumnIndex at least, one in each list
)

// Index is the page index of a file. What it holds is advice: a reader without it reads more. So whatever of it cannot
// be what the format says counts as missing; of files that this package wrote all of it, unless its checksum is right. It is for one goroutine.
type Index struct {
	src    Source
	footer *metadata.FileMetaData
	whole  []byte // of our own files, from at on
	at     int64
	own    bool

	// What is known of the leaves of the row group that was asked for last. An entry may be nil.
	group  int
	leaves map[int]*Pages
	room   int64 // of mostPages
}

// ReadIndex looks for the page index of a file. The error is that of the source.
func ReadIndex(src Source, footer *metadata.FileMetaData) (*Index, error) {
	x := &Index{src: src, footer: footer, own: strings.HasPrefix(footer.GetCreatedBy(), "ledgerlake")}
	if !x.own {
		return x, nil
	}
	place := footer.KeyValueMetadata().FindValue(IndexKey)
	if place == nil {
		return x, nil
	}
	var at, size int64
	var sum uint32
	if n, err := fmt.Sscanf(*place, "%d %d %x", &at, &size, &sum); err != nil || n != 3 || !x.plausible(at, size) {
		return x, nil
	}
	b, err := x.read(at, size)
	if err == nil && crc32.ChecksumIEEE(b) == sum {
		x.whole, x.at = b, at
	}
	return x, err
}

func (x *Index) plausible(at, size int64) bool {
	most := int64(mostForeign)
	if x.own {
		most = mostIndex
	}
	return at > 0 && size > 0 && size <= most && at <= x.src.Size() && size <= x.src.Size()-at
}

func (x *Index) read(at, size int64) ([]byte, error) {
	b := make([]byte, size)
	if n, err := x.src.ReadAt(b, at); n < len(b) {
		return nil, fmt.Errorf("read the page index, %d bytes at %d: %w", size, at, err)
	}
	return b, nil
}

// part gives the bytes at a place that the footer names; nil when there is none.
func (x *Index) part(l *metadata.IndexLocation) ([]byte, error) {
	if l == nil || !x.plausible(l.Offset, int64(l.Length)) {
		return nil, nil
	}
	if !x.own {
		return x.read(l.Offset, int64(l.Length))
	}
	if from := l.Offset - x.at; from >= 0 && from+int64(l.Length) <= int64(len(x.whole)) {
		return x.whole[from : from+int64(l.Length)], nil
	}
	return nil, nil
}

// Pages are what the index says of the data pages of a leaf in a row group.
type Pages struct {
	First  []int64      // row of the row group that each begins with, and behind them the number of its rows
	Limits []PageLimits // of each; nil when they are not known
	at     []int64      // of the file
	size   []int64      // bytes, with the header
	looked bool         // for Limits
}

// Bytes of memory for each page.
const (
	placeBytes = 3 * 8
	limitBytes = 64
)

// PageLimits are what is known of the values of a page.
type PageLimits struct {
	Empty    bool   // all of it is null
	Nulls    int64  // -1 when it is not known
	Min, Max []byte // as PLAIN has them without length; those of byte strings may be cut: below all of them, and above
}

// Len is the number of pages.
func (p *Pages) Len() int { return len(p.at) }

// Pages gives those of a leaf, nil when nothing is known of them. The error is that of the source. What it gives shares
// memory with the Index, which keeps it until it is asked for another row group.
func (x *Index) Pages(group, leaf int) (*Pages, error) {
	p, err := x.places(group, leaf)
	if p == nil || err != nil || p.looked {
		return p, err
	}
	p.looked = true
	chunk, err := x.footer.RowGroup(group).ColumnChunk(leaf)
	if err != nil {
		return p, nil
	}
	at := chunk.GetColumnIndexLocation()
	if at == nil || !x.take(int64(p.Len()), limitBytes, x.shared(at)) {
		return p, nil
	}
	limits, err := x.part(at)
	if limits == nil || err != nil {
		p.looked = err == nil
		return p, err
	}
	p.Limits = parseColumn(limits, p.Len(), fixedWidth(x.footer.Schema.Column(leaf).PhysicalType(), x.footer.Schema.Column(leaf).TypeLength()))
	return p, nil
}

// places is Pages without a look for their limits.
func (x *Index) places(group, leaf int) (*Pages, error) {
	if x.leaves == nil || x.group != group {
		x.group, x.leaves, x.room = group, map[int]*Pages{}, mostPages
	}
	if p, ok := x.leaves[leaf]; ok {
		return p, nil
	}
	rg := x.footer.RowGroup(group)
	chunk, err := rg.ColumnChunk(leaf)
	if err != nil {
		return nil, nil // whoever reads it says so
	}
	b, err := x.part(chunk.GetOffsetIndexLocation())
	if err != nil {
		return nil, err
	}
	var p *Pages
	if b != nil {
		most := min(rg.NumRows(), chunk.TotalCompressedSize()/smallestPage, x.room/placeBytes)
		if p = parseOffsets(b, most); p != nil && !p.fits(rg.NumRows(), chunk) {
			p = nil
		}
	}
	if p != nil {
		x.take(int64(p.Len()), placeBytes, 0)
	}
	x.leaves[leaf] = p
	return p, nil
}

// shared is how much memory the limits of pages keep that are at a place, which for our own files is there anyway.
func (x *Index) shared(l *metadata.IndexLocation) int64 {
	if x.own {
		return 0
	}
	return int64(max(0, l.Length))
}

// take says whether there is room for n elements of a size and some bytes more, and takes it.
func (x *Index) take(n, size, more int64) bool {
	if n*size > x.room-more {
		return false
	}
	x.room -= n*size + more
	return true
}

// fits says whether the pages are such as a chunk of so many rows can have, and sets where they end.
func (p *Pages) fits(rows int64, chunk *metadata.ColumnChunkMetaData) bool {
	end := chunk.DataPageOffset()
	if chunk.HasDictionaryPage() && chunk.DictionaryPageOffset() > 0 {
		end = min(end, chunk.DictionaryPageOffset())
	}
	if p.Len() == 0 || end < 0 || chunk.TotalCompressedSize() < 0 {
		return false
	}
	last := end + chunk.TotalCompressedSize()
	p.First = append(p.First, rows)
	for i, at := range p.at {
		if at < end || p.size[i] <= 0 || p.size[i] > last-at || p.First[i] >= p.First[i+1] {
			return false
		}
		end = at + p.size[i]
	}
	return p.First[0] == 0
}

// parseOffsets reads an OffsetIndex; nil when it is none, or one of more pages than there can be.
func parseOffsets(b []byte, most int64) *Pages {
	t, p := thriftReader{b: b}, &Pages{}
	t.fields(0, func(id int, typ byte) {
		if id != 1 || typ != thriftList || p.at != nil {
			t.skip(typ, 1)
			return
		}
		n := t.list(thriftStruct)
		if int64(n) > min(most, int64(len(b)-t.at)/smallestPlace) { // before memory is taken for them
			t.fail(damaged("an offset index of %d pages, in %d bytes", n, len(b)))
			return
		}
		p.at, p.size, p.First = make([]int64, n), make([]int64, n), make([]int64, n, n+1)
		for i := range n {
			t.fields(2, func(id int, typ byte) {
				switch {
				case id == 1 && typ == thriftI64:
					p.at[i] = t.varint()
				case id == 2 && typ == thriftI32:
					p.size[i] = t.varint()
				case id == 3 && typ == thriftI64:
					p.First[i] = t.varint()
				default:
					t.skip(typ, 2)
				}
			})
		}
	})
	if t.err != nil {
		return nil
	}
	return p
}

// parseColumn reads a ColumnIndex of n pages, whose values have a width or, where that is 0, any; nil when it is none.
func parseColumn(b []byte, n, width int) []PageLimits {
	if n > len(b)/smallestLimit {
		return nil
	}
	t, out := thriftReader{b: b}, make([]PageLimits, n)
	have := map[int]bool{}
	for i := range out {
		out[i].Nulls = -1
	}
	t.fields(0, func(id int, typ byte) {
		elem := byte(0)
		switch {
		case typ != thriftList || have[id]:
		case id == 1:
			elem = thriftTrue
		case id == 2 || id == 3:
			elem = thriftBinary
		case id == 5:
			elem = thriftI64
		}
		if elem == 0 {
			t.skip(typ, 1)
			return
		}
		if have[id] = true; t.list(elem) != n {
			t.fail(damaged("a column index of another number of pages"))
			return
		}
		for i := range out {
			switch id {
			case 1:
				out[i].Empty = t.byte() == thriftTrue
			case 2:
				out[i].Min = t.binary()
			case 3:
				out[i].Max = t.binary()
			case 5:
				out[i].Nulls = t.varint()
			}
		}
	})
	if t.err != nil || !have[1] || !have[2] || !have[3] {
		return nil
	}
	for _, l := range out {
		if !l.Empty && width > 0 && (len(l.Min) != width || len(l.Max) != width) || l.Nulls < -1 {
			return nil
		}
	}
	return out
}

// fixedWidth is the number of bytes of a value; 0 when they differ.
func fixedWidth(typ arrowparquet.Type, length int) int {
	switch typ {
	case arrowparquet.Types.Boolean:
		return 1
	case arrowparquet.Types.Int32, arrowparquet.Types.Float:
		return 4
	case arrowparquet.Types.Int64, arrowparquet.Types.Double:
		return 8
	case arrowparquet.Types.Int96:
		return 12
	case arrowparquet.Types.FixedLenByteArray:
		return length
	}
	return 0
}

// list reads the header of a list of elements of a type, and gives their number.
func (t *thriftReader) list(elem byte) int {
	head := t.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = t.uvarint()
	}
	got := head & 15
	if got == thriftFalse {
		got = thriftTrue // both are the type of booleans
	}
	if t.err == nil && got != elem {
		t.fail(damaged("a list of type %d where %d was due", got, elem))
	}
	if t.err == nil && n > uint64(len(t.b)-t.at) { // each takes a byte at least
		t.fail(errShort)
	}
	if t.err != nil {
		return 0
	}
	return int(n)
}

// binary gives a byte string, which shares the reader's memory.
func (t *thriftReader) binary() []byte {
	n, at := t.uvarint(), t.at
	t.advance(n)
	if t.err != nil {
		return nil
	}
	return t.b[at : at+int(n)]
}

// RowSpan are the rows [From, To) of a row group.
type RowSpan struct{ From, To int64 }

// Count gives how many of the pages have rows of the spans, which ascend.
func (p *Pages) Count(spans []RowSpan) int {
	n := 0
	for i := range p.Len() {
		for len(spans) > 0 && spans[0].To <= p.First[i] {
			spans = spans[1:]
		}
		if len(spans) > 0 && spans[0].From < p.First[i+1] {
			n++
		}
	}
	return n
}

// nearPages is how far apart two pages may be that are read by one request.
const nearPages = 256 << 10

// byteSpan are the bytes [from, to) of a file.
type byteSpan struct{ from, to int64 }

// bytesOf gives what has to be read of a chunk that begins at start, for rows of the spans.
func (p *Pages) bytesOf(start int64, spans []RowSpan) []byteSpan {
	out := []byteSpan{{start, p.at[0]}} // a dictionary, as far as there is one
	for i := range p.Len() {
		for len(spans) > 0 && spans[0].To <= p.First[i] {
			spans = spans[1:]
		}
		if len(spans) == 0 {
			break
		}
		if spans[0].From >= p.First[i+1] {
			continue
		}
		if last := &out[len(out)-1]; p.at[i]-last.to <= nearPages {
			last.to = p.at[i] + p.size[i]
		} else {
			out = append(out, byteSpan{p.at[i], p.at[i] + p.size[i]})
		}
	}
	return out
}
