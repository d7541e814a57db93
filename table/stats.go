package table

import (
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/parquet"
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

// statsNode is a struct (kids) or a leaf. Lists and maps are leaves of which only nulls are counted.
type statsNode struct {
	name   string
	path   []string
	typ    arrow.DataType
	kids   []*statsNode
	wanted bool
}

// statsTree is what statistics a file of these columns gets: settings go by the table's names, statistics have the
// file's.
func statsTree(columns, stored *arrow.Schema, c statsColumns) []*statsNode {
	leaf := 0
	return statsNodes(columns.Fields(), stored.Fields(), nil, "", c, &leaf)
}

func statsNodes(fields, stored []arrow.Field, path []string, prefix string, c statsColumns, leaf *int) []*statsNode {
	out := make([]*statsNode, len(fields))
	for i, f := range fields {
		n := &statsNode{name: stored[i].Name, path: append(path[:len(path):len(path)], stored[i].Name), typ: f.Type}
		out[i] = n
		if t, ok := f.Type.(*arrow.StructType); ok {
			n.kids = statsNodes(t.Fields(), stored[i].Type.(*arrow.StructType).Fields(), n.path, prefix+f.Name+".", c, leaf)
			continue
		}
		n.wanted = c.wants(prefix+f.Name, *leaf)
		*leaf++
	}
	return out
}

// statsJSON gives the statistics as add.stats holds them, from what the encoder has seen of the values.
func statsJSON(w *parquet.Writer, tree []*statsNode, prefix int) string {
	out := append([]byte(`{"numRecords":`), strconv.FormatInt(w.Rows(), 10)...)
	object := func(name string, leaf func(dst []byte, n *statsNode) ([]byte, bool)) {
		if o, ok := statsObject(nil, tree, leaf); ok {
			out = append(append(append(out, `,"`...), name...), `":`...)
			out = append(out, o...)
		}
	}
	bound := func(up bool) func(dst []byte, n *statsNode) ([]byte, bool) {
		return func(dst []byte, n *statsNode) ([]byte, bool) {
			if b, ok := w.Bounds(n.path...); ok && b.Any {
				return appendBound(dst, n.typ, b, up, prefix)
			}
			return dst, false
		}
	}
	object("minValues", bound(false))
	object("maxValues", bound(true))
	object("nullCount", func(dst []byte, n *statsNode) ([]byte, bool) {
		nulls, ok := w.Nulls(n.path...)
		return strconv.AppendInt(dst, nulls, 10), ok
	})
	return string(append(out, `,"tightBounds":true}`...))
}

// statsObject writes the leaves that have the value, nested as the columns are; false when none has.
func statsObject(dst []byte, nodes []*statsNode, leaf func([]byte, *statsNode) ([]byte, bool)) ([]byte, bool) {
	start, any := len(dst), false
	dst = append(dst, '{')
	for _, n := range nodes {
		if n.kids == nil && !n.wanted {
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
