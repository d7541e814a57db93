package parquet

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// fits gives the end of the rows, from one on, that still go into the page; from itself when none does. A page
// that is empty takes at least one.
func (c *column) fits(a arrow.Array, from int) int {
	rows, room := a.Len(), pageRows-c.slots
	if room <= 0 {
		return from
	}
	left := pageBytes - c.size()
	if c.maxRep > 0 {
		if c.slots > 0 && left <= 0 {
			return from
		}
		share := max(1, int64(left)*int64(rows)/max(1, c.below(a)))
		return from + int(min(share, int64(room), int64(rows-from)))
	}
	to := min(rows, from+room)
	if c.kind != kindBytes {
		return to
	}
	for _, s := range c.steps {
		a = a.(*array.Struct).Field(s.child)
	}
	offsets, _ := byteStrings(a)
	n := sort.Search(to-from, func(i int) bool {
		return int(offsets[from+i+1]-offsets[from])+4*(i+1) > left
	})
	if n == 0 && c.slots == 0 {
		n = 1
	}
	return from + n
}

// below estimates the bytes of the values below a column with lists.
func (c *column) below(a arrow.Array) int64 {
	from, to := 0, a.Len()
	for _, s := range c.steps {
		if !s.list {
			a = a.(*array.Struct).Field(s.child)
			continue
		}
		l, ok := a.(array.ListLike)
		if !ok || from == to {
			return 0
		}
		first, _ := l.ValueOffsets(from)
		_, last := l.ValueOffsets(to - 1)
		a, from, to = l.ListValues(), int(first), int(last)
	}
	if c.kind == kindBytes && from < to {
		offsets, _ := byteStrings(a)
		return int64(offsets[to]-offsets[from]) + 4*int64(to-from)
	}
	return 8 * int64(to-from)
}

// byteStrings gives the offsets of a string or binary array, of which there is one more than rows, and the bytes.
func byteStrings(a arrow.Array) ([]int32, []byte) {
	var offsets []int32
	switch a := a.(type) {
	case *array.String:
		offsets = a.ValueOffsets()
	case *array.Binary:
		offsets = a.ValueOffsets()
	}
	if b := a.Data().Buffers()[2]; b != nil {
		return offsets, b.Bytes()
	}
	return offsets, nil
}

// gather appends values to the page.
func (c *column) gather(p *picked) error {
	if p.len() == 0 {
		return nil
	}
	switch a := p.array.(type) {
	case *array.Boolean:
		c.gatherBools(a, p)
	case *array.Int8:
		c.i32 = widen(c.i32, a.Int8Values(), p)
	case *array.Int16:
		c.i32 = widen(c.i32, a.Int16Values(), p)
	case *array.Int32:
		c.i32 = pickInto(c.i32, a.Int32Values(), p)
	case *array.Date32:
		c.i32 = pickInto(c.i32, arrow.Int32Traits.CastFromBytes(arrow.Date32Traits.CastToBytes(a.Date32Values())), p)
	case *array.Int64:
		c.i64 = pickInto(c.i64, a.Int64Values(), p)
	case *array.Timestamp:
		c.i64 = pickInto(c.i64, arrow.Int64Traits.CastFromBytes(arrow.TimestampTraits.CastToBytes(a.TimestampValues())), p)
	case *array.Float32:
		c.gatherFloats32(a.Float32Values(), p)
	case *array.Float64:
		c.gatherFloats64(a.Float64Values(), p)
	case *array.String, *array.Binary:
		return c.gatherBytes(a, p)
	case *array.Decimal128:
		return c.gatherDecimals(a.Values(), p)
	default:
		return fmt.Errorf("%w: column %q: an array of %s", ErrUnsupported, c.name, p.array.DataType())
	}
	return nil
}

func pickInto[T any](dst, v []T, p *picked) []T {
	if p.idx == nil {
		return append(dst, v[p.from:p.to]...)
	}
	for _, i := range p.idx {
		dst = append(dst, v[i])
	}
	return dst
}

func widen[T int8 | int16](dst []int32, v []T, p *picked) []int32 {
	if p.idx == nil {
		for _, x := range v[p.from:p.to] {
			dst = append(dst, int32(x))
		}
		return dst
	}
	for _, i := range p.idx {
		dst = append(dst, int32(v[i]))
	}
	return dst
}

func (c *column) gatherBools(a *array.Boolean, p *picked) {
	start := len(c.plain)
	for k := range p.len() {
		i := p.from + k
		if p.idx != nil {
			i = int(p.idx[k])
		}
		b := byte(0)
		if a.Value(i) {
			b = 1
		}
		c.plain = append(c.plain, b)
	}
	lo, hi := byte(1), byte(0)
	for _, b := range c.plain[start:] {
		lo, hi = lo&b, hi|b
	}
	c.of.ints(int64(lo), int64(hi))
}

func (c *column) gatherFloats32(v []float32, p *picked) {
	if p.idx == nil {
		v = v[p.from:p.to]
		boundFloats(&c.of, v)
		c.plain = append(c.plain, arrow.Float32Traits.CastToBytes(v)...)
		return
	}
	for _, i := range p.idx {
		boundFloats(&c.of, v[i:i+1])
		c.plain = append(c.plain, arrow.Float32Traits.CastToBytes(v[i:i+1])...)
	}
}

func (c *column) gatherFloats64(v []float64, p *picked) {
	if p.idx == nil {
		v = v[p.from:p.to]
		boundFloats(&c.of, v)
		c.plain = append(c.plain, arrow.Float64Traits.CastToBytes(v)...)
		return
	}
	for _, i := range p.idx {
		boundFloats(&c.of, v[i:i+1])
		c.plain = append(c.plain, arrow.Float64Traits.CastToBytes(v[i:i+1])...)
	}
}

func (c *column) gatherBytes(a arrow.Array, p *picked) error {
	offsets, data := byteStrings(a)
	if p.idx != nil {
		c.pickBytes(offsets, data, p.idx)
		return nil
	}
	if c.split {
		c.plain = append(c.plain, data[offsets[p.from]:offsets[p.to]]...)
		for i := p.from; i < p.to; i++ {
			c.i32 = append(c.i32, offsets[i+1]-offsets[i])
		}
		return nil
	}
	n := len(c.plain)
	c.plain = slices.Grow(c.plain, int(offsets[p.to]-offsets[p.from])+4*(p.to-p.from)+wide)
	c.plain = c.plain[:appendTexts(c.plain[:cap(c.plain)], n, data, offsets[p.from:p.to+1])]
	return nil
}

// wide is how many bytes are copied at a time: short texts need no call then.
const wide = 32

// appendTexts puts byte strings with their lengths into dst from n on, which has wide bytes more than they take, and gives
// where they end. What is behind is overwritten.
func appendTexts(dst []byte, n int, data []byte, offsets []int32) int {
	from := int(offsets[0])
	for _, end := range offsets[1:] {
		to := int(end)
		size := to - from
		binary.LittleEndian.PutUint32(dst[n:], uint32(size))
		n += 4
		if size <= wide && from+wide <= len(data) {
			*(*[wide]byte)(dst[n:]) = *(*[wide]byte)(data[from:])
		} else {
			copy(dst[n:], data[from:to])
		}
		n += size
		from = to
	}
	return n
}

// pickBytes appends some of the byte strings.
func (c *column) pickBytes(offsets []int32, data []byte, idx []int32) {
	plain := c.plain
	for _, i := range idx {
		v := data[offsets[i]:offsets[i+1]]
		if c.split {
			plain, c.i32 = append(plain, v...), append(c.i32, int32(len(v)))
			continue
		}
		plain = append(binary.LittleEndian.AppendUint32(plain, uint32(len(v))), v...)
	}
	c.plain = plain
}

func (c *column) gatherDecimals(v []decimal128.Num, p *picked) error {
	for k := range p.len() {
		i := p.from + k
		if p.idx != nil {
			i = int(p.idx[k])
		}
		if !fitsDecimal(v[i], c.width) {
			return fmt.Errorf("column %q: the number %s does not fit %s", c.name, v[i].ToString(0), c.typ)
		}
		c.plain = appendDecimal(c.plain, v[i], c.width)
		c.of.decimal(v[i])
	}
	return nil
}

// appendDecimal appends the low bytes of a decimal, the highest first.
func appendDecimal(dst []byte, v decimal128.Num, width int) []byte {
	b := bigEndian(v)
	return append(dst, b[16-width:]...)
}

func bigEndian(v decimal128.Num) (b [16]byte) {
	binary.BigEndian.PutUint64(b[:], uint64(v.HighBits()))
	binary.BigEndian.PutUint64(b[8:], v.LowBits())
	return b
}

// fitsDecimal says whether the bytes that appendDecimal leaves out only repeat the sign.
func fitsDecimal(v decimal128.Num, width int) bool {
	b, sign := bigEndian(v), byte(v.HighBits()>>63)
	for _, x := range b[:16-width] {
		if x != sign {
			return false
		}
	}
	return b[16-width]>>7 == sign&1
}
