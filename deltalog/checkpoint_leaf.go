package deltalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// Checkpoints are read leaf by leaf, from levels and values, and not through Arrow arrays: the nested reader of
// the Parquet library starts goroutines whose panics on hostile bytes nobody can catch, and it insists on names
// inside maps and lists that writers do not agree on.

const leafBatch = 1024

// parquetLeaf reads one leaf column row by row.
type parquetLeaf struct {
	index        int
	desc         *schema.Column
	name         string // path below the action column; maps end in #key and #value, lists in #element
	maxDef       int16
	groupDef     int16 // level from which the action itself is there
	containerDef int16 // level from which the map or list is there
	repeatDef    int16 // level from which it has an entry; 0 for flat columns

	chunk     file.ColumnChunkReader
	def, rep  []int16
	n, pos    int // levels in the batch
	value     int // next value in the batch
	texts     []parquet.ByteArray
	fixed     []parquet.FixedLenByteArray
	longs     []int64
	ints      []int32
	bools     []bool
	floats    []float32
	doubles   []float64
	times     []parquet.Int96
	have      bool  // the current row has a value (flat columns)
	at        int   // its place in the batch
	level     int16 // the current row's first definition level
	items     []leafItem
	available bool
}

// leafItem is one entry of a map or list.
type leafItem struct {
	text    string
	present bool
}

// newLeaf describes a column, or says that it has a shape that no action has.
func newLeaf(index int, desc *schema.Column) (*parquetLeaf, bool) {
	if desc.MaxRepetitionLevel() > 1 {
		return nil, false
	}
	l := &parquetLeaf{index: index, desc: desc, maxDef: desc.MaxDefinitionLevel()}
	var nodes []schema.Node
	for n := desc.SchemaNode(); n != nil && n.Parent() != nil; n = n.Parent() {
		nodes = append(nodes, n)
	}
	slices.Reverse(nodes)
	var names []string
	level := int16(0)
	for i, n := range nodes {
		switch n.RepetitionType() {
		case parquet.Repetitions.Optional:
			level++
		case parquet.Repetitions.Repeated:
			l.containerDef = level
			level++
			l.repeatDef = level
		}
		switch {
		case i == 0:
			l.groupDef = level
		case l.repeatDef == 0:
			names = append(names, n.Name())
		case i == len(nodes)-1:
			names = append(names, "")
			names[len(names)-1] = entryName(nodes, i)
		}
	}
	l.name = strings.ReplaceAll(strings.Join(names, "."), ".#", "#")
	return l, true
}

// entryName tells keys, values and elements apart by place, not by name.
func entryName(nodes []schema.Node, i int) string {
	last := nodes[i]
	if last.RepetitionType() == parquet.Repetitions.Repeated {
		return last.Name() + "#element" // a list of two levels
	}
	if g, ok := last.Parent().(*schema.GroupNode); ok && g.NumFields() == 2 {
		if g.FieldIndexByField(last) == 0 {
			return "#key"
		}
		return "#value"
	}
	return "#element"
}

// open starts a row group.
func (l *parquetLeaf) open(rg *file.RowGroupReader, fileSize int64) error {
	md, err := rg.MetaData().ColumnChunk(l.index)
	if err != nil {
		return err
	}
	start, size := md.DataPageOffset(), md.TotalCompressedSize()
	if start < 0 || size < 0 || start > fileSize || size > fileSize {
		return fmt.Errorf("column chunk of %d bytes at %d in a file of %d bytes", size, start, fileSize)
	}
	if l.chunk, err = rg.Column(l.index); err != nil {
		return err
	}
	if l.def == nil {
		l.def, l.rep = make([]int16, leafBatch), make([]int16, leafBatch)
	}
	l.n, l.pos, l.value, l.available = 0, 0, 0, true
	return nil
}

// absent makes every row of a row group null.
func (l *parquetLeaf) absent() {
	l.have, l.level, l.items = false, -1, l.items[:0]
}

// fill reads the next batch when the current one is used up; false at the end.
func (l *parquetLeaf) fill() (bool, error) {
	if l.pos < l.n {
		return true, nil
	}
	if !l.available || !l.chunk.HasNext() {
		l.available = false
		return false, l.chunk.Err()
	}
	n, err := l.read()
	if err != nil {
		return false, err
	}
	if l.maxDef == 0 {
		clear(l.def) // required columns have no levels
	}
	if l.repeatDef == 0 {
		clear(l.rep)
	}
	l.n, l.pos, l.value = int(n), 0, 0
	return n > 0, nil
}

func buffer[T any](b *[]T) []T {
	if *b == nil {
		*b = make([]T, leafBatch)
	}
	return *b
}

func (l *parquetLeaf) read() (n int64, err error) {
	switch c := l.chunk.(type) {
	case *file.ByteArrayColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.texts), l.def, l.rep)
	case *file.Int64ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.longs), l.def, l.rep)
	case *file.Int32ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.ints), l.def, l.rep)
	case *file.BooleanColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.bools), l.def, l.rep)
	case *file.Float32ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.floats), l.def, l.rep)
	case *file.Float64ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.doubles), l.def, l.rep)
	case *file.Int96ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.times), l.def, l.rep)
	case *file.FixedLenByteArrayColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.fixed), l.def, l.rep)
	default:
		err = fmt.Errorf("no reader for %v", l.chunk.Type())
	}
	return n, err
}

// next moves to the next row.
func (l *parquetLeaf) next() error {
	ok, err := l.fill()
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("the column ends before its row group")
	}
	l.level = l.def[l.pos]
	if l.repeatDef == 0 {
		if l.have = l.level == l.maxDef; l.have {
			l.at = l.value
			l.value++
		}
		l.pos++
		return nil
	}
	l.items = l.items[:0]
	for first := true; ; first = false {
		ok, err := l.fill()
		if err != nil {
			return err
		}
		if !ok || !first && l.rep[l.pos] == 0 {
			return nil
		}
		if d := l.def[l.pos]; d >= l.repeatDef {
			item := leafItem{present: d == l.maxDef}
			if item.present {
				item.text = l.textAt(l.value)
				l.value++
			}
			l.items = append(l.items, item)
		}
		l.pos++
	}
}

// textAt gives a text value. The library hands out memory of its own making for each batch, which is never
// written again, so the string may share it.
func (l *parquetLeaf) textAt(i int) string {
	if l.texts == nil || len(l.texts[i]) == 0 {
		return ""
	}
	return unsafe.String(&l.texts[i][0], len(l.texts[i]))
}

// The accessors below give the current row's value. A column that the file does not have is nil and reads as null.

func (l *parquetLeaf) ok() bool { return l != nil && l.have }

func (l *parquetLeaf) text() string {
	if !l.ok() {
		return ""
	}
	return l.textAt(l.at)
}

func (l *parquetLeaf) int() (int64, bool) {
	switch {
	case !l.ok():
		return 0, false
	case l.longs != nil:
		return l.longs[l.at], true
	case l.ints != nil:
		return int64(l.ints[l.at]), true
	}
	return 0, false
}

func (l *parquetLeaf) intPtr() *int64 {
	if v, ok := l.int(); ok {
		return &v
	}
	return nil
}

func (l *parquetLeaf) bool() (value, ok bool) {
	if !l.ok() || l.bools == nil {
		return false, false
	}
	return l.bools[l.at], true
}

// list gives the current row's entries; nil when the list is null.
func (l *parquetLeaf) list() []string {
	if l == nil || l.level < l.containerDef {
		return nil
	}
	out := make([]string, 0, len(l.items))
	for _, it := range l.items {
		out = append(out, it.text)
	}
	return out
}

// parquetMap is a map column.
type parquetMap struct{ key, value *parquetLeaf }

// get gives the current row's entries; nil when the map is null.
func (m parquetMap) get() map[string]*string {
	if m.key == nil || m.key.level < m.key.containerDef {
		return nil
	}
	out := make(map[string]*string, len(m.key.items))
	for i := range m.key.items {
		var v *string
		if m.value != nil && i < len(m.value.items) && m.value.items[i].present {
			v = &m.value.items[i].text
			c := *v // items are used again for the next row
			v = &c
		}
		out[m.key.items[i].text] = v
	}
	return out
}

func (m parquetMap) plain() map[string]string {
	out := map[string]string{}
	for k, v := range m.get() {
		if v != nil {
			out[k] = *v
		} else {
			out[k] = ""
		}
	}
	return out
}
