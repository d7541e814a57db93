package decode

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/column"
)

// span is where a value stands in a message; to is 0 when it is not there.
type span struct{ from, to int }

// Capture asks for the text of a field of the messages, one of the schema or not, by its path. It is noted in passing as
// far as columns go down the path; below is the rest of it, to be looked for in the text.
func (d *JSON) Capture(path ...string) (mark int, below []string) {
	o := &d.root
	for len(path) > 1 {
		k := o.find([]byte(path[0]))
		if k == nil || k.node == nil || k.node.obj == nil {
			break
		}
		k.node.marked = true
		o, path = k.node.obj, path[1:]
	}
	k := o.find([]byte(path[0]))
	if k == nil {
		k = o.add(path[0], nil)
	}
	if k.mark == nil {
		k.mark = new(span)
		d.marks = append(d.marks, k.mark)
	}
	return slices.Index(d.marks, k.mark), path[1:]
}

// Captured gives the JSON text of a field, by the number that Capture gave, of the message that was appended last;
// nil when it has none. It aliases the message.
func (d *JSON) Captured(i int) []byte {
	m := d.marks[i]
	if m.to == 0 {
		return nil
	}
	return d.message[m.from:m.to]
}

// unmark forgets what was captured and set of the message before.
func (d *JSON) unmark(message []byte) {
	if len(d.marks) == 0 {
		return
	}
	d.message = message
	for _, m := range d.marks {
		m.to = 0
	}
}

// unmark forgets what was captured below an object that a duplicate key puts another one in the place of.
func (n *node) unmark() {
	for _, k := range n.obj.slots {
		if k == nil {
			continue
		}
		if k.mark != nil {
			k.mark.to = 0
		}
		if k.node != nil && k.node.marked {
			k.node.unmark()
		}
	}
}

// AppendOpen adds a row of nulls in which deferred columns are open, as for a message without fields.
func (d *JSON) AppendOpen() {
	d.unmark(nil)
	for _, n := range d.root.fields {
		if !n.late {
			n.col.AppendNull()
		}
	}
	d.rows++
	d.used++
}

// Ignore lets a field of the messages fill no column.
func (d *JSON) Ignore(name string) {
	k := d.root.find([]byte(name))
	if k == nil {
		k = d.root.add(name, nil)
	}
	k.node, k.mute = nil, true
}

// Target is a column, or a field in a struct column, that is set after a message was decoded.
type Target struct {
	Name     string
	path     []*node
	required bool
}

// Target finds a column; the steps of the name are parted by points. Messages may lack it from now on, also where it
// may not be null: Set and Missing say whether it has a value in the end.
func (d *JSON) Target(name string) (*Target, error) {
	t := &Target{Name: name}
	o := &d.root
	for step := range strings.SplitSeq(name, ".") {
		if o == nil {
			return nil, fmt.Errorf("%w: there is no column %q: what is above it is no struct", ErrOptions, name)
		}
		n := o.field([]byte(step))
		if n == nil {
			return nil, fmt.Errorf("%w: there is no column %q", ErrOptions, name)
		}
		t.path = append(t.path, n)
		o = n.obj
	}
	leaf := t.path[len(t.path)-1]
	t.required, leaf.nullable = !leaf.nullable, true
	return t, nil
}

// field finds a column by name, also one that messages do not fill.
func (o *object) field(name []byte) *node {
	for _, n := range o.fields {
		if n.name == string(name) {
			return n
		}
	}
	return nil
}

// Binary says whether the column holds bytes, which come as base64.
func (t *Target) Binary() bool { return t.leaf().kind == kindBinary }

func (t *Target) leaf() *node { return t.path[len(t.path)-1] }

// Defer leaves the place of a column open when a message is decoded that does not have it. After each message that
// became a row each such column is to be Set, or filled up by Settle, before anything else is done with the rows but
// Truncate.
func (d *JSON) Defer(t *Target) {
	for _, n := range t.path {
		n.late = true
	}
	d.deferred = append(d.deferred, t)
}

// Settle makes null what was left open of the last row.
func (d *JSON) Settle() {
	for _, t := range d.deferred {
		if t.leaf().col.Len() == d.rows {
			continue
		}
		for _, n := range t.path { // a struct that is not there takes all below along
			if n.col.Len() < d.rows {
				n.col.AppendNull()
				break
			}
		}
	}
}

// Set replaces the value of a column in the last row by a JSON value. Numbers in timestamp columns count
// microseconds; dates take timestamps too, of which they keep the day in UTC. On error the row is good for Truncate only.
func (d *JSON) Set(t *Target, text []byte) error {
	if err := d.place(t, len(text)); err != nil {
		return err
	}
	d.depth, d.fill = len(t.path), 0
	epoch := d.opts.Epoch
	d.opts.Epoch = EpochMicros
	i := d.leafValue(t.leaf(), text)
	d.opts.Epoch = epoch
	if i >= 0 && skipSpace(text, i) != len(text) {
		i = d.fail(i, "data after the value")
	}
	if i < 0 {
		err := d.err
		d.err = nil
		err.Path = t.Name
		return err
	}
	return nil
}

// Text says whether SetText takes the column: it holds strings or bytes.
func (t *Target) Text() bool { k := t.leaf().kind; return k == kindString || k == kindBinary }

// SetText is Set of a string, or of the bytes themselves, that is not written as JSON. Strings are UTF-8.
func (d *JSON) SetText(t *Target, text []byte) error {
	err := d.place(t, len(text))
	if err == nil {
		t.leaf().bin.Append(text)
	}
	return err
}

// SetInt is Set of a number, for columns of whole numbers and of times that have room for it; false for others, which
// are as they were.
func (d *JSON) SetInt(t *Target, v int64) (bool, error) {
	n := t.leaf()
	switch n.kind {
	case kindInt64, kindInt32, kindInt16, kindInt8:
		if lo, hi := intRange(n.kind); v < lo || v > hi {
			return false, nil
		}
	case kindTimestamp, kindDate:
		if v == math.MinInt64 {
			return false, nil
		}
	default:
		return false, nil
	}
	if err := d.place(t, 8); err != nil {
		return true, err
	}
	switch n.kind {
	case kindInt64:
		n.i64.Append(v)
	case kindInt32:
		n.i32.Append(int32(v))
	case kindInt16:
		n.i16.Append(int16(v))
	case kindInt8:
		n.i8.Append(int8(v))
	case kindTimestamp:
		n.ts.Append(arrow.Timestamp(v))
	case kindDate:
		n.dt.Append(day(v))
	}
	return true, nil
}

// place makes the column end in front of the last row, for a value of so many bytes.
func (d *JSON) place(t *Target, size int) error {
	if size > column.MaxData-d.used {
		return ErrFull
	}
	d.used += size
	row := d.rows - 1
	filled := t.leaf().col.Len() > row
	for i, n := range t.path[:len(t.path)-1] {
		switch {
		case n.st.Len() == row: // it was left open
			if err := n.begin(); err != nil {
				return err
			}
		case filled && n.st.Null(row):
			if err := d.revive(t.path[i:], row); err != nil {
				return err
			}
			t.leaf().col.Truncate(row)
			return nil
		}
	}
	if filled {
		t.leaf().col.Truncate(row)
	}
	return nil
}

// begin adds a row to a struct. What is open below it stays so, the rest is null.
func (n *node) begin() error {
	for _, f := range n.obj.fields {
		if f.late {
			continue
		}
		if !f.nullable {
			return &Error{Reason: "missing, but the column may not be null", Path: n.name + "." + f.name}
		}
		f.col.AppendNull()
	}
	n.st.Append()
	return nil
}

// revive turns null structs on the way to a field into structs of nulls.
func (d *JSON) revive(path []*node, row int) error {
	for _, n := range path[:len(path)-1] {
		n.st.Truncate(row)
		for _, f := range n.obj.fields {
			if !f.nullable {
				return &Error{Reason: "missing, but the column may not be null", Path: n.name + "." + f.name}
			}
			f.col.AppendNull()
		}
		n.st.Append()
	}
	return nil
}

// leafValue is value, and takes times into dates.
func (d *JSON) leafValue(n *node, b []byte) int {
	if n.kind != kindDate || len(b) == 0 {
		return d.value(n, b, 0)
	}
	if b[0] == '"' && len(b) > len(`"2006-01-02"`) {
		at, ok := d.date.timestamp(bytes.Trim(b, `"`))
		if !ok {
			return d.mismatch(n, b, 0)
		}
		n.dt.Append(day(at.micros))
		return len(b)
	}
	if b[0] == '-' || b[0]-'0' <= 9 {
		num, next, ok := scanNumber(b, 0)
		micros, fits := scaleEpoch(num, 1)
		if !ok || !fits {
			return d.mismatch(n, b, 0)
		}
		n.dt.Append(day(micros))
		return next
	}
	return d.value(n, b, 0)
}

// Missing says whether a column that may not be null is null in the last row, or open.
func (d *JSON) Missing(t *Target) bool {
	return t.required && (t.leaf().col.Len() < d.rows || t.leaf().col.Null(d.rows-1))
}

// Truncate cuts back to n rows.
func (d *JSON) Truncate(n int) {
	d.rows = n
	d.rollback()
	d.untell()
}

// day is the day in UTC of a time in microseconds.
func day(micros int64) arrow.Date32 {
	const perDay = 24 * 60 * 60 * 1e6
	d := micros / perDay
	if micros%perDay < 0 {
		d--
	}
	return arrow.Date32(d)
}
