package protobuf

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/ledgerlake/ledgerlake/decode"
)

// maxGroups bounds the nesting of unknown groups, which is in the message's hands (I8).
const maxGroups = 100

// fail notes what is wrong and gives the position that stands for failure.
func (d *decoder) fail(f *field, pos int, reason string) int {
	d.err = &decode.Error{Reason: reason, Pos: pos}
	if f != nil {
		d.err.Path = f.name
	}
	return -1
}

func varint(b []byte, i int) (v uint64, next int) {
	if i < len(b) && b[i] < 0x80 {
		return uint64(b[i]), i + 1
	}
	v, n := binary.Uvarint(b[min(i, len(b)):])
	if n <= 0 {
		return 0, -1
	}
	return v, i + n
}

// span reads the length of bytes that must be there, and gives where they begin and end.
func span(b []byte, i int) (from, to int) {
	n, next := varint(b, i)
	if next < 0 || n > uint64(len(b)-next) {
		return -1, -1
	}
	return next, next + int(n)
}

// message decodes b[i:], one whole message, into row of the plan's columns.
func (d *decoder) message(p *plan, b []byte, i, row int) int {
	p.gen++
	from, prev := i, &p.start
	for _, f := range p.fields {
		if f.entries {
			f.first = f.sink.Mp.Entries()
		}
	}
	for i < len(b) {
		at := i
		tag, next := varint(b, i)
		if next < 0 {
			return d.fail(nil, i, "a field has no valid tag")
		}
		i = next
		num, wire := tag>>3, tag&7
		f := prev.next
		if f.num != num {
			if f = p.find(num); f != nil {
				prev.next = f
			}
		}
		if f == nil || wire != f.wire && !(wire == wireBytes && f.list) {
			if i = d.skip(b, i, num, wire, 0); i < 0 {
				return i
			}
			continue
		}
		prev = f
		switch {
		case f.list:
			i = d.element(f, b, i, wire)
		case f.entries:
			i = d.mapEntry(f, b, i)
		default:
			i = d.singular(p, f, b, at, i, row)
		}
		if i < 0 {
			return i
		}
	}
	return d.finish(p, b, from)
}

// singular decodes a field that is there once; when it is there again, the last one counts, and messages are merged.
func (d *decoder) singular(p *plan, f *field, b []byte, at, i, row int) int {
	if f.whole == p.gen { // all occurrences are in the column already
		_, i = span(b, i)
		return i
	}
	if o := f.oneof; o != nil {
		if o.gen == p.gen && o.last != f {
			o.last.gen = 0
			o.last.whole = 0
			o.last.sink.Col.Truncate(row)
		}
		o.gen, o.last = p.gen, f
	}
	if f.gen != p.gen {
		f.gen, f.start = p.gen, at
		next := d.value(f, b, i)
		if next < 0 {
			return d.under(f.name, next)
		}
		if f.sink.Col.Len() == row {
			f.gen = 0 // a number that a closed enum does not have
		}
		return next
	}
	if f.form == formScalar {
		f.sink.Col.Truncate(row)
		next := d.value(f, b, i)
		if next >= 0 && f.sink.Col.Len() == row {
			f.gen = 0
		}
		return d.under(f.name, next)
	}
	return d.merge(p, f, b, i, row)
}

// merge decodes a message that is there in several parts: one behind the other they are the encoding of the merged
// message. All of them are collected at once, so that many cost no more than one.
func (d *decoder) merge(p *plan, f *field, b []byte, i, row int) int {
	_, after := span(b, i)
	if after < 0 {
		return d.short(f, b, i)
	}
	var parts []byte
	for j := f.start; j < len(b); {
		tag, next := varint(b, j)
		if next < 0 {
			return d.fail(nil, j, "a field has no valid tag")
		}
		if tag>>3 == f.num && tag&7 == wireBytes {
			from, to := span(b, next)
			if from < 0 {
				return d.short(f, b, next)
			}
			parts = append(parts, b[from:to]...)
			j = to
			continue
		}
		if f.oneof != nil && f.oneof.cleared(p, f, tag) {
			break
		}
		if j = d.skip(b, next, tag>>3, tag&7, 0); j < 0 {
			return j
		}
	}
	f.sink.Col.Truncate(row)
	f.whole = p.gen
	if d.nested(f, parts, 0) < 0 {
		d.err.Pos = i
		return d.under(f.name, -1)
	}
	return after
}

// cleared says whether a field takes the place of f.
func (o *oneof) cleared(p *plan, f *field, tag uint64) bool {
	other := p.find(tag >> 3)
	return other != nil && other != f && other.oneof == o && other.wire == tag&7
}

func (d *decoder) under(name string, next int) int {
	if next < 0 && name != "" {
		d.err.Under(name)
	}
	return next
}

// element decodes one element of a repeated field, or a run of packed ones.
func (d *decoder) element(f *field, b []byte, i int, wire uint64) int {
	elem := f.value.Col
	n := elem.Len()
	if wire == f.wire {
		next := d.value(f, b, i)
		if next < 0 {
			return d.atElement(f, n, next)
		}
		return next
	}
	from, to := span(b, i)
	if from < 0 {
		return d.short(f, b, i)
	}
	for i = from; i < to; {
		if i = d.value(f, b[:to], i); i < 0 {
			return d.atElement(f, elem.Len(), i)
		}
	}
	return i
}

func (d *decoder) atElement(f *field, row, next int) int {
	index := row
	if n := f.sink.Li.Len(); n > 0 {
		index -= f.sink.Li.Elements(n)
	}
	d.err.Under(f.name + "[" + strconv.Itoa(index) + "]")
	return next
}

// mapEntry decodes one entry.
func (d *decoder) mapEntry(f *field, b []byte, i int) int {
	from, to := span(b, i)
	if from < 0 {
		return d.short(f, b, i)
	}
	if i = d.message(f.sub, b[:to], from, f.sink.Mp.Entries()); i < 0 {
		return d.under(f.name+"["+strconv.Itoa(f.sink.Mp.Entries()-f.first)+"]", i)
	}
	f.sink.Mp.AppendEntry()
	return i
}

func (d *decoder) short(f *field, b []byte, i int) int {
	return d.fail(f, min(i, len(b)), "the value ends inside a field")
}

// finish closes the columns of the message b[from:]: lists, maps, and fields that it does not have.
func (d *decoder) finish(p *plan, b []byte, from int) int {
	blank, pos := p.leaves, len(b)
	for _, f := range p.fields {
		switch {
		case f.list:
			f.sink.Li.Append()
		case f.entries:
			if drop := f.sink.Overridden(f.first); drop != nil {
				if !d.dropEntries(f, b, from, drop) {
					return -1
				}
			}
			f.sink.Mp.Append()
		case f.gen == p.gen:
		case f.implicit:
			blank++
			if f.form != formScalar {
				if d.nested(f, nil, 0) < 0 {
					return d.under(f.name, -1)
				}
				break
			}
			if f.enum != nil {
				if n := f.enum.put(f.sink, 0); n > 0 {
					blank += n - 1
					break
				}
			}
			f.sink.Col.AppendZero()
		case !f.sink.Nullable:
			return d.fail(f, pos, "not set, but the column may not be null")
		default:
			blank += f.sink.Leaves
			f.sink.Col.AppendNull()
		}
	}
	for _, s := range p.absent {
		s.Col.AppendNull()
	}
	if blank > 1 && d.Filled(blank) {
		return d.fail(nil, pos, "the value leaves out too many nested fields")
	}
	return pos
}

// skip passes over the value of an unknown field.
func (d *decoder) skip(b []byte, i int, num, wire uint64, depth int) int {
	if num == 0 {
		return d.fail(nil, i, "a field has the number 0")
	}
	switch wire {
	case wireVarint:
		if _, i = varint(b, i); i >= 0 {
			return i
		}
		return d.fail(nil, len(b), "the value ends inside a number")
	case wireFixed64, wireFixed32:
		n := 8
		if wire == wireFixed32 {
			n = 4
		}
		if len(b)-i < n {
			return d.short(nil, b, i)
		}
		return i + n
	case wireBytes:
		from, to := span(b, i)
		if from < 0 {
			return d.short(nil, b, i)
		}
		return to
	case wireGroup:
		return d.skipGroup(b, i, num, depth)
	}
	return d.fail(nil, i, fmt.Sprintf("field %d has wire type %d, which is none", num, wire))
}

func (d *decoder) skipGroup(b []byte, i int, num uint64, depth int) int {
	if depth++; depth > maxGroups {
		return d.fail(nil, i, fmt.Sprintf("groups are nested deeper than %d", maxGroups))
	}
	for i < len(b) {
		tag, next := varint(b, i)
		if next < 0 {
			break
		}
		if tag&7 == wireEnd {
			if tag>>3 != num {
				return d.fail(nil, i, "a group ends that did not begin")
			}
			return next
		}
		if i = d.skip(b, next, tag>>3, tag&7, depth); i < 0 {
			return i
		}
	}
	return d.fail(nil, len(b), "the value ends inside a group")
}
