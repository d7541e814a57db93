package table

import (
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// statsColumns say which columns get statistics.
type statsColumns struct {
	first  int      // leaf columns in schema order; -1: all
	names  []string // instead: these columns and what is in them
	prefix int      // characters of a string
}

func statsColumnsOf(conf map[string]string) statsColumns {
	c := statsColumns{first: 32, prefix: 32}
	if n, err := strconv.Atoi(conf["delta.dataSkippingNumIndexedCols"]); err == nil && n >= -1 {
		c.first = n
	}
	if n, err := strconv.Atoi(conf["delta.dataSkippingStringPrefixLength"]); err == nil && n > 0 && n <= 1024 {
		c.prefix = n
	}
	if list, ok := conf["delta.dataSkippingStatsColumns"]; ok {
		for name := range strings.SplitSeq(list, ",") {
			c.names = append(c.names, strings.ReplaceAll(strings.TrimSpace(name), "`", ""))
		}
	}
	return c
}

// wants says whether the leaf of a path, number n of the schema, gets statistics.
func (c statsColumns) wants(path string, n int) bool {
	if c.names == nil {
		return c.first < 0 || n < c.first
	}
	for _, name := range c.names {
		if path == name || strings.HasPrefix(path, name+".") {
			return true
		}
	}
	return false
}

// statsBuilder collects what add.stats says, batch by batch, without an allocation a row.
type statsBuilder struct {
	rows int64
	root []*statsNode // nil entries have no statistics
}

// statsNode is a struct (kids) or a leaf. Lists and maps are leaves of which only nulls are counted.
type statsNode struct {
	name  string
	kids  []*statsNode
	nulls int64
	span  span
}

func newStatsBuilder(schema *arrow.Schema, c statsColumns) *statsBuilder {
	leaf := 0
	return &statsBuilder{root: statsNodes(schema.Fields(), "", c, &leaf)}
}

func statsNodes(fields []arrow.Field, prefix string, c statsColumns, leaf *int) []*statsNode {
	out := make([]*statsNode, len(fields))
	for i, f := range fields {
		path := prefix + f.Name
		if t, ok := f.Type.(*arrow.StructType); ok {
			out[i] = &statsNode{name: f.Name, kids: statsNodes(t.Fields(), path+".", c, leaf)}
			continue
		}
		if c.wants(path, *leaf) {
			out[i] = &statsNode{name: f.Name, span: newSpan(f.Type, c.prefix)}
		}
		*leaf++
	}
	return out
}

func (b *statsBuilder) add(rb arrow.RecordBatch) {
	b.rows += rb.NumRows()
	for i, n := range b.root {
		n.add(rb.Column(i), nil)
	}
}

// add takes a column. A row is null when it or a struct around it is.
func (n *statsNode) add(a arrow.Array, parents []arrow.Array) {
	if n == nil {
		return
	}
	if a.NullN() > 0 {
		parents = append(parents[:len(parents):len(parents)], a)
	}
	if n.kids != nil {
		s := a.(*array.Struct)
		for i, k := range n.kids {
			k.add(s.Field(i), parents)
		}
		return
	}
	if len(parents) == 0 {
		n.span.addAll(a)
		return
	}
	for i := range a.Len() {
		if !valid(parents, i) {
			n.nulls++
		}
	}
	n.span.add(a, parents)
}

func valid(arrays []arrow.Array, i int) bool {
	for _, a := range arrays {
		if a.IsNull(i) {
			return false
		}
	}
	return true
}

// json gives the statistics as add.stats holds them.
func (b *statsBuilder) json() string {
	out := append([]byte(`{"numRecords":`), strconv.FormatInt(b.rows, 10)...)
	object := func(name string, leaf func(dst []byte, n *statsNode) ([]byte, bool)) {
		if o, ok := statsObject(nil, b.root, leaf); ok {
			out = append(append(append(out, `,"`...), name...), `":`...)
			out = append(out, o...)
		}
	}
	object("minValues", func(dst []byte, n *statsNode) ([]byte, bool) { return n.span.appendMin(dst) })
	object("maxValues", func(dst []byte, n *statsNode) ([]byte, bool) { return n.span.appendMax(dst) })
	object("nullCount", func(dst []byte, n *statsNode) ([]byte, bool) { return strconv.AppendInt(dst, n.nulls, 10), true })
	return string(append(out, `,"tightBounds":true}`...))
}

// statsObject writes the leaves that have the value, nested as the columns are; false when none has.
func statsObject(dst []byte, nodes []*statsNode, leaf func([]byte, *statsNode) ([]byte, bool)) ([]byte, bool) {
	start, any := len(dst), false
	dst = append(dst, '{')
	for _, n := range nodes {
		if n == nil {
			continue
		}
		before := len(dst)
		if any {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, n.name), ':')
		ok := false
		if n.kids != nil {
			dst, ok = statsObject(dst, n.kids, leaf)
		} else {
			dst, ok = leaf(dst, n)
		}
		if !ok {
			dst = dst[:before]
			continue
		}
		any = true
	}
	if !any {
		return dst[:start], false
	}
	return append(dst, '}'), true
}

// finite says whether JSON can hold the number.
func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
