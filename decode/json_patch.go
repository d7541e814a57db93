package decode

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/column"
)

// span is where a value stands in a message; to is 0 when it is not there.
type span struct{ from, to int }

// Capture asks for the text of a field of the messages, one of the schema or not. It is noted in passing.
func (d *JSON) Capture(name string) int {
	k := d.root.find([]byte(name))
	if k == nil {
		k = d.root.add(name, nil)
	}
	if k.mark == nil {
		k.mark = new(span)
		d.marks = append(d.marks, k.mark)
	}
	for i, m := range d.marks {
		if m == k.mark {
			return i
		}
	}
	return -1 // not reached: it was added above
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

// unmark forgets what was captured of the message before.
func (d *JSON) unmark(message []byte) {
	if len(d.marks) == 0 {
		return
	}
	d.message = message
	for _, m := range d.marks {
		m.to = 0
	}
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

// Set replaces the value of a column in the last row by a JSON value. Numbers in timestamp columns count
// microseconds; dates take timestamps too, of which they keep the day in UTC. On error the row is good for Truncate only.
func (d *JSON) Set(t *Target, text []byte) error {
	if len(text) > column.MaxData-d.used {
		return ErrFull
	}
	d.used += len(text)
	row := d.rows - 1
	for i, n := range t.path[:len(t.path)-1] {
		if n.st.Null(row) {
			if err := d.revive(t.path[i:], row); err != nil {
				return err
			}
			break
		}
	}
	n := t.leaf()
	n.col.Truncate(row)
	d.depth, d.fill = len(t.path), 0
	epoch := d.opts.Epoch
	d.opts.Epoch = EpochMicros
	i := d.leafValue(n, text)
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

// Missing says whether a column that may not be null is null in the last row.
func (d *JSON) Missing(t *Target) bool { return t.required && t.leaf().col.Null(d.rows-1) }

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
