package decode

import (
	"encoding/base64"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// value decodes the value at i into the column of n.
func (d *JSON) value(n *node, b []byte, i int) int {
	if i >= len(b) {
		return d.unexpected(b, i, "a value")
	}
	if b[i] == 'n' {
		return d.null(n, b, i)
	}
	switch n.kind {
	case kindString:
		if b[i] == '"' {
			s, next := d.str(b, i)
			if next >= 0 {
				n.bin.Append(s)
			}
			return next
		}
		return d.textOf(n, b, i)
	case kindStruct:
		if b[i] != '{' {
			return d.mismatch(n, b, i)
		}
		if d.depth++; d.depth > d.opts.MaxDepth {
			return d.tooDeep(i)
		}
		next := d.object(n.obj, b, i+1, n.st.Len())
		if next >= 0 {
			d.depth--
			n.st.Append()
		}
		return next
	case kindList:
		return d.list(n, b, i)
	case kindMap:
		return d.mapping(n, b, i)
	case kindBinary:
		return d.binary(n, b, i)
	case kindDate, kindTimestamp:
		return d.instant(n, b, i)
	}
	if b[i] == '"' && d.opts.Coerce {
		return d.quoted(n, b, i)
	}
	return d.scalar(n, b, i)
}

// scalar decodes a number or a boolean.
func (d *JSON) scalar(n *node, b []byte, i int) int {
	switch n.kind {
	case kindInt64, kindInt32, kindInt16, kindInt8:
		v, next := d.integer(n, b, i)
		if next < 0 {
			return next
		}
		switch n.kind {
		case kindInt64:
			n.i64.Append(v)
		case kindInt32:
			n.i32.Append(int32(v))
		case kindInt16:
			n.i16.Append(int16(v))
		default:
			n.i8.Append(int8(v))
		}
		return next
	case kindFloat64:
		v, next := d.float64(n, b, i)
		if next >= 0 {
			n.f64.Append(v)
		}
		return next
	case kindFloat32:
		v, next := d.float32(n, b, i)
		if next >= 0 {
			n.f32.Append(v)
		}
		return next
	case kindBool:
		switch {
		case hasWord(b, i, "true"):
			n.bl.Append(true)
			return i + 4
		case hasWord(b, i, "false"):
			n.bl.Append(false)
			return i + 5
		}
	case kindDecimal:
		v, next := d.decimal(n, b, i)
		if next >= 0 {
			n.dec.Append(v)
		}
		return next
	}
	return d.mismatch(n, b, i)
}

func hasWord(b []byte, i int, word string) bool {
	e := i + len(word)
	return e <= len(b) && string(b[i:e]) == word
}

func (d *JSON) null(n *node, b []byte, i int) int {
	if !hasWord(b, i, "null") {
		return d.unexpected(b, i, "a value")
	}
	if !n.nullable {
		return d.fail(i, "null, but the column may not be null")
	}
	if n.leaves > 1 && d.overfull(n) {
		return d.fail(i, "the value has too many null structs")
	}
	n.col.AppendNull()
	return i + 4
}

// mismatch is the failure of a value of another JSON type than the column's, or of none at all.
func (d *JSON) mismatch(n *node, b []byte, i int) int {
	var got string
	switch c := b[i]; {
	case c == '{':
		got = "an object"
	case c == '[':
		got = "an array"
	case c == '"':
		got = "a string"
	case c == '-' || c-'0' <= 9:
		got = "a number"
	case hasWord(b, i, "true"), hasWord(b, i, "false"):
		got = "a boolean"
	default:
		return d.unexpected(b, i, "a value")
	}
	return d.fail(i, got+" does not fit a column of type "+n.typeName())
}

func (d *JSON) tooDeep(i int) int {
	return d.fail(i, "nested deeper than "+strconv.Itoa(d.opts.MaxDepth)+" levels")
}

// textOf puts the text of a value that is not a string into a string column, where that is allowed.
func (d *JSON) textOf(n *node, b []byte, i int) int {
	if !d.opts.Coerce {
		return d.mismatch(n, b, i)
	}
	next := d.skip(b, i)
	if next >= 0 {
		n.bin.Append(b[i:next])
	}
	return next
}

// quoted decodes a number or a boolean inside a string.
func (d *JSON) quoted(n *node, b []byte, i int) int {
	s, next := d.str(b, i)
	if next < 0 {
		return next
	}
	if len(s) == 0 {
		return d.mismatch(n, b, i)
	}
	e := d.scalar(n, s, 0)
	if e < 0 {
		d.err.Pos = i
		return e
	}
	if e != len(s) {
		return d.mismatch(n, b, i) // the cell that was written goes with the row
	}
	return next
}

// list decodes an array.
func (d *JSON) list(n *node, b []byte, i int) int {
	if b[i] != '[' {
		return d.mismatch(n, b, i)
	}
	if d.depth++; d.depth > d.opts.MaxDepth {
		return d.tooDeep(i)
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		d.depth--
		n.list.Append()
		return i + 1
	}
	for count := 0; ; count++ {
		if i = d.value(n.elem, b, i); i < 0 {
			return d.at("[" + strconv.Itoa(count) + "]")
		}
		i = skipSpace(b, i)
		if i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
			continue
		}
		if i < len(b) && b[i] == ']' {
			d.depth--
			n.list.Append()
			return i + 1
		}
		return d.unexpected(b, i, "',' or ']'")
	}
}

// binary decodes a string of base64.
func (d *JSON) binary(n *node, b []byte, i int) int {
	if b[i] != '"' {
		return d.mismatch(n, b, i)
	}
	s, next := d.str(b, i)
	if next < 0 {
		return next
	}
	var err error
	d.decoded, err = base64.StdEncoding.AppendDecode(d.decoded[:0], s)
	if err != nil {
		return d.fail(i, "the string is not base64")
	}
	n.bin.Append(d.decoded)
	return next
}

// instant decodes a date or a timestamp.
func (d *JSON) instant(n *node, b []byte, i int) int {
	if b[i] != '"' {
		if n.kind == kindTimestamp && d.opts.Epoch != EpochNone {
			v, next := d.epoch(n, b, i)
			if next >= 0 {
				n.ts.Append(arrow.Timestamp(v))
			}
			return next
		}
		return d.mismatch(n, b, i)
	}
	s, next := d.str(b, i)
	if next < 0 {
		return next
	}
	if n.kind == kindDate {
		days, ok := d.date.days(s)
		if !ok || len(s) != len("2006-01-02") {
			return d.fail(i, "the string is not a date of the form YYYY-MM-DD")
		}
		n.dt.Append(arrow.Date32(days))
		return next
	}
	t, ok := d.date.timestamp(s)
	if !ok && !n.zoned && len(s) == len("2006-01-02") { // a column of dates that became wider takes them still, as midnight
		t.micros, ok = d.date.days(s)
		t.micros *= 24 * 3600 * 1e6
	}
	if !ok {
		return d.fail(i, "the string is not an RFC 3339 timestamp")
	}
	if t.offset != 0 && !n.zoned {
		return d.fail(i, "an offset does not fit a timestamp without time zone")
	}
	n.ts.Append(arrow.Timestamp(t.micros))
	return next
}
