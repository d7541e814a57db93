package parquet

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// node is a field of the file's schema, with the leaves below it.
type node struct {
	typ  arrow.DataType
	info file.LevelInfo
	kids []*node
	leaf *leafReader // of itself, or the first one below it, whose levels tell of the node too
}

// array gives the batch's values of the node. The caller releases them.
func (n *node) array() (arrow.ArrayData, error) {
	switch n.typ.(type) {
	case *arrow.StructType:
		return n.structs()
	case *arrow.ListType, *arrow.MapType:
		return n.lists()
	}
	return n.leaf.array(n.typ, n.info)
}

func (n *node) structs() (arrow.ArrayData, error) {
	v := n.leaf.validity(n.info)
	defer v.release()
	kids := make([]arrow.ArrayData, len(n.kids))
	defer releaseAll(kids)
	for i, k := range n.kids {
		kid, err := k.array()
		if err != nil {
			return nil, err
		}
		kids[i] = kid
		if kid.Len() != v.slots {
			return nil, damaged("column %q and its neighbours in a struct have %d and %d values", n.leaf.name, v.slots, kid.Len())
		}
	}
	return array.NewData(n.typ, v.slots, []*memory.Buffer{v.bits}, kids, v.nulls, 0), nil
}

func releaseAll(list []arrow.ArrayData) {
	for _, d := range list {
		if d != nil {
			d.Release()
		}
	}
}

func (n *node) lists() (arrow.ArrayData, error) {
	l, mem := n.leaf, n.leaf.vals.mem
	var v validity
	ends := mem.AllocateDirty(4 * (len(l.def) + 1))
	offsets := memory.NewBufferWithAllocator(ends, mem)
	defer offsets.Release()
	at := arrow.Int32Traits.CastFromBytes(ends)
	at[0] = 0
	v.begin(mem, len(l.def))
	defer v.release()
	for i, def := range l.def {
		rep := int16(l.rep[i])
		if rep > n.info.RepLevel || int16(def) < n.info.RepeatedAncestorDefLevel {
			continue
		}
		if rep == n.info.RepLevel { // one more element
			if v.slots == 0 {
				return nil, damaged("column %q begins within a list", l.name)
			}
			at[v.slots]++
			continue
		}
		v.add(int16(def) >= n.info.DefLevel-1)
		at[v.slots] = at[v.slots-1]
		if int16(def) >= n.info.DefLevel {
			at[v.slots]++
		}
	}
	v.end()
	offsets.ResizeNoShrink(4 * (v.slots + 1))
	kid, err := n.kids[0].array()
	if err != nil {
		return nil, err
	}
	defer kid.Release()
	if int(at[v.slots]) != kid.Len() {
		return nil, damaged("column %q has lists of %d elements and %d values", l.name, at[v.slots], kid.Len())
	}
	return array.NewData(n.typ, v.slots, []*memory.Buffer{v.bits, offsets}, []arrow.ArrayData{kid}, v.nulls, 0), nil
}

// validity tells which slots of an array have a value.
type validity struct {
	slots, nulls int
	bits         *memory.Buffer // nil when all have
	b            []byte
}

func (v *validity) begin(mem allocator, most int) {
	v.b = mem.AllocateDirty((most + 7) / 8)
	clear(v.b)
	v.bits = memory.NewBufferWithAllocator(v.b, mem)
}

func (v *validity) add(valid bool) {
	if valid {
		v.b[v.slots>>3] |= 1 << (v.slots & 7)
	} else {
		v.nulls++
	}
	v.slots++
}

// end drops bits that say nothing.
func (v *validity) end() {
	if v.nulls == 0 {
		v.release()
		return
	}
	v.bits.ResizeNoShrink((v.slots + 7) / 8)
}

func (v *validity) release() {
	if v.bits != nil {
		v.bits.Release()
		v.bits, v.b = nil, nil
	}
}

func (v *validity) valid(i int) bool { return v.b[i>>3]&(1<<(i&7)) != 0 }

// validity gives that of a node whose levels the leaf tells: the slots that its closest list has, one for each of
// that list's elements.
func (l *leafReader) validity(info file.LevelInfo) (v validity) {
	if !l.explicit {
		v.slots = l.count
		return v
	}
	v.begin(l.vals.mem, len(l.def))
	rep, ancestor, level := info.RepLevel, info.RepeatedAncestorDefLevel, info.DefLevel
	switch {
	case l.maxRep == 0:
		for _, def := range l.def {
			v.add(int16(def) >= level)
		}
	default:
		for i, def := range l.def {
			if int16(l.rep[i]) <= rep && int16(def) >= ancestor {
				v.add(int16(def) >= level)
			}
		}
	}
	v.end()
	return v
}

// array gives the values of the batch.
func (l *leafReader) array(typ arrow.DataType, info file.LevelInfo) (arrow.ArrayData, error) {
	v := l.validity(info)
	defer v.release()
	buffers := []*memory.Buffer{v.bits}
	if l.kind == kindBytes {
		values := len(l.offs.b)/4 - 1
		if values != v.slots-v.nulls {
			return nil, damaged("column %q has %d values in %d places", l.name, values, v.slots-v.nulls)
		}
		if _, err := l.offs.extend(4 * v.nulls); err != nil {
			return nil, err
		}
		spreadEnds(arrow.Int32Traits.CastFromBytes(l.offs.b), &v)
		buffers = append(buffers, l.offs.take(), l.data.take())
	} else {
		vals, width := &l.vals, l.width
		if l.convert != nil {
			width = l.outWidth
			if err := l.converted(&vals); err != nil {
				return nil, err
			}
		}
		if len(vals.b)/width != v.slots-v.nulls {
			return nil, damaged("column %q has %d values in %d places", l.name, len(vals.b)/width, v.slots-v.nulls)
		}
		if _, err := vals.extend(width * v.nulls); err != nil {
			return nil, err
		}
		spread(vals.b, width, &v)
		if l.kind == kindBool {
			packed := l.vals.mem.AllocateDirty((v.slots + 7) / 8)
			appendBits(packed[:0], vals.b)
			buffers = append(buffers, memory.NewBufferWithAllocator(packed, l.vals.mem))
		} else {
			buffers = append(buffers, vals.take())
		}
	}
	d := array.NewData(typ, v.slots, buffers, nil, v.nulls, 0)
	for _, b := range buffers[1:] {
		b.Release()
	}
	return d, nil
}

// spread moves values to their slots, from the last one on; those of nulls become zero, so that nothing of what the
// memory held before goes out.
func spread(b []byte, width int, v *validity) {
	if v.nulls == 0 {
		return
	}
	switch width {
	case 1:
		spreadFixed(b, v)
	case 4:
		spreadFixed(arrow.Uint32Traits.CastFromBytes(b), v)
	case 8:
		spreadFixed(arrow.Uint64Traits.CastFromBytes(b), v)
	default:
		from := v.slots - v.nulls - 1
		for i := v.slots - 1; i > from; i-- {
			to := b[i*width : (i+1)*width]
			if !v.valid(i) {
				clear(to)
				continue
			}
			copy(to, b[from*width:(from+1)*width])
			from--
		}
	}
}

func spreadFixed[T byte | uint32 | uint64](b []T, v *validity) {
	from := v.slots - v.nulls - 1
	for i := v.slots - 1; i > from; i-- {
		b[i] = 0
		if v.valid(i) {
			b[i] = b[from]
			from--
		}
	}
}

// spreadEnds does the same for the ends of byte strings: a null ends where the value before does.
func spreadEnds(ends []int32, v *validity) {
	if v.nulls == 0 {
		return
	}
	from := v.slots - v.nulls
	for i := v.slots; i > from; i-- {
		ends[i] = ends[from]
		if v.valid(i - 1) {
			from--
		}
	}
}

// converted replaces what Parquet has by what Arrow wants.
func (l *leafReader) converted(vals **growing) error {
	n := len(l.vals.b) / l.width
	out := &l.cast
	out.b = out.b[:0]
	to, err := out.extend(n * l.outWidth)
	if err != nil {
		return err
	}
	for i := range n {
		if !l.convert(to[i*l.outWidth:(i+1)*l.outWidth], l.vals.b[i*l.width:(i+1)*l.width]) {
			return unsupported("column %q has a time that is no number of microseconds", l.name)
		}
	}
	*vals = out
	return nil
}

// narrow gives the low bytes of an integer.
func narrow(to, from []byte) bool { copy(to, from); return true }

// widenDecimal gives the 16 bytes of an integer that Parquet has in 4 or 8.
func widenDecimal(to, from []byte) bool {
	extend(to, copy(to, from), from[len(from)-1])
	return true
}

// turnDecimal gives the 16 bytes of an integer that Parquet has with the highest byte first, in any number of them.
func turnDecimal(to, from []byte) bool {
	for i := range from {
		to[len(from)-1-i] = from[i]
	}
	extend(to, len(from), from[0])
	return true
}

// extend fills an integer from its byte n on, as the sign of its highest byte wants it.
func extend(to []byte, n int, highest byte) {
	sign := byte(int8(highest) >> 7)
	for i := n; i < len(to); i++ {
		to[i] = sign
	}
}

// microseconds gives the time that Parquet's old form has in 12 bytes: nanoseconds within a day, and that day's Julian
// number. It says whether there is such a time in 64 bits.
func microseconds(to, from []byte) bool {
	const epoch, day, most = 2440588, int64(86400 * 1e9), (1<<63 - 1) / int64(86400*1e6)
	days, within := int64(binary.LittleEndian.Uint32(from[8:]))-epoch, int64(binary.LittleEndian.Uint64(from))
	if days <= -most || days >= most || within < 0 || within >= day {
		return false
	}
	binary.LittleEndian.PutUint64(to, uint64(days*(day/1000)+within/1000))
	return true
}
