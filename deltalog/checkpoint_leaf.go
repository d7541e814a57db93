package deltalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	ourparquet "github.com/ledgerlake/ledgerlake/internal/parquet"
)

// Checkpoints are read leaf by leaf, from levels and values, and not through Arrow arrays: the nested reader of
// the Parquet library starts goroutines whose panics on hostile bytes nobody can catch, and it insists on names
// inside maps and lists that writers do not agree on. Levels and values come from our own decoder, or from the library where
// that does not know what a chunk has.

const (
	// leafBatch is how many rows are decoded at once.
	leafBatch = 1024
	// batchBytes bounds what those rows take, all leaves together, as far as that is known: there are fewer rows then.
	batchBytes = 64 << 20
)

// batchOf gives how many rows to decode at once, so that they stay within batchBytes; one row is always decoded.
func batchOf(leaves []*parquetLeaf) (int, error) {
	row := 0
	for _, l := range leaves {
		if l.own == nil {
			continue
		}
		widest, err := l.own.Widest()
		if errors.Is(err, ourparquet.ErrUnsupported) {
			err = l.useLibrary()
		}
		if err != nil {
			return 0, fmt.Errorf("column %s: %w", l.desc.Path(), err)
		}
		row += widest
	}
	return min(leafBatch, max(1, batchBytes/max(1, row))), nil
}

// parquetLeaf reads one leaf column row by row.
type parquetLeaf struct {
	index        int
	desc         *schema.Column
	name         string // path below the action column; maps end in #key and #value, lists in #element
	maxDef       uint8
	groupDef     uint8 // level from which the action itself is there
	containerDef uint8 // level from which the map or list is there
	repeatDef    uint8 // level from which it has an entry; 0 for flat columns
	calendar     *ourparquet.Calendar

	group     *file.RowGroupReader
	given     int                    // rows of it that were passed
	batch     int                    // rows of the next batches
	own       *ourparquet.LeafReader // batches are whole rows then
	chunk     file.ColumnChunkReader // else
	wide      [2][]int16             // levels as the chunk gives them
	full      []uint8                // levels of a batch without nulls
	def, rep  []uint8
	n, pos    int                 // levels in the batch
	value     int                 // next value in the batch
	data      []byte              // texts of the own reader, good for a batch
	ends      []int32             // of them, behind a zero
	texts     []parquet.ByteArray // those of the library, for ever
	fixed     []parquet.FixedLenByteArray
	longs     []int64
	ints      []int32
	bools     []bool
	floats    []float32
	doubles   []float64
	times     []parquet.Int96
	have      bool  // the current row has a value (flat columns)
	at        int   // its place in the batch
	level     int16 // the current row's first definition level; -1 when the column is absent
	items     []leafItem
	available bool
}

// leafItem is one entry of a map or list.
type leafItem struct {
	text    string
	present bool
}

// newLeaf describes a column, or says that it has a shape that no action has.
func newLeaf(index int, desc *schema.Column, calendar *ourparquet.Calendar) (*parquetLeaf, bool) {
	if desc.MaxRepetitionLevel() > 1 || desc.MaxDefinitionLevel() > 100 {
		return nil, false
	}
	l := &parquetLeaf{index: index, desc: desc, calendar: calendar, maxDef: uint8(desc.MaxDefinitionLevel())}
	var nodes []schema.Node
	for n := desc.SchemaNode(); n != nil && n.Parent() != nil; n = n.Parent() {
		nodes = append(nodes, n)
	}
	slices.Reverse(nodes)
	var names []string
	level := uint8(0)
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
	if last.RepetitionType() == parquet.Repetitions.Repeated && i > 1 {
		return "#element" // a list of two levels
	} else if last.RepetitionType() == parquet.Repetitions.Repeated {
		return last.Name() + "#element" // of one
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
func (l *parquetLeaf) open(src *checkpointSource, f *file.Reader, mem memory.Allocator, group int) error {
	l.close()
	l.group, l.given = f.RowGroup(group), 0
	l.n, l.pos, l.value, l.available = 0, 0, 0, true
	md, err := l.group.MetaData().ColumnChunk(l.index)
	if err != nil {
		return err
	}
	start, size := md.DataPageOffset(), md.TotalCompressedSize()
	if start < 0 || size < 0 || start > src.size || size > src.size {
		return fmt.Errorf("column chunk of %d bytes at %d in a file of %d bytes", size, start, src.size)
	}
	opts := ourparquet.ReadOptions{Allocator: mem}
	if src.into != nil {
		opts.Ahead = nearPiece
	}
	l.own, err = ourparquet.OpenLeaf(src, f.MetaData(), group, l.index, opts)
	if errors.Is(err, ourparquet.ErrUnsupported) {
		return l.useLibrary()
	}
	return err
}

func (l *parquetLeaf) close() {
	if l.own != nil {
		l.own.Release()
		l.own = nil
	}
}

// useLibrary goes on with the library, at the row where the own reader could not.
func (l *parquetLeaf) useLibrary() (err error) {
	l.close()
	if l.chunk, err = l.group.Column(l.index); err != nil {
		return err
	}
	l.longs, l.ints, l.bools, l.floats, l.doubles, l.times, l.fixed, l.data, l.ends = nil, nil, nil, nil, nil, nil, nil, nil, nil
	l.def, l.rep = make([]uint8, leafBatch), make([]uint8, leafBatch)
	l.wide = [2][]int16{make([]int16, leafBatch), make([]int16, leafBatch)}
	passed := l.given
	for l.given = 0; l.given < passed; {
		if err := l.next(); err != nil {
			return err
		}
	}
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
	if l.own != nil {
		err := l.readOwn()
		if !errors.Is(err, ourparquet.ErrUnsupported) {
			return l.n > 0, err
		}
		if err := l.useLibrary(); err != nil {
			return false, err
		}
		return l.fill()
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
		clear(l.wide[0]) // required columns have no levels
	}
	if l.repeatDef == 0 {
		clear(l.wide[1])
	}
	for i := range n {
		l.def[i], l.rep[i] = uint8(l.wide[0][i]), uint8(l.wide[1][i])
	}
	l.n, l.pos, l.value = int(n), 0, 0
	return n > 0, nil
}

// readOwn reads the next rows.
func (l *parquetLeaf) readOwn() error {
	l.n, l.pos, l.value = 0, 0, 0
	if l.own.Rows() == 0 {
		return nil
	}
	s, _, err := l.own.Next(l.batch)
	if err != nil {
		return err
	}
	l.n, l.def, l.rep = s.N, s.Def, s.Rep
	if s.Def == nil {
		for len(l.full) < s.N {
			l.full = append(l.full, l.maxDef)
		}
		l.def = l.full[:s.N]
	}
	switch l.desc.PhysicalType() {
	case parquet.Types.ByteArray:
		l.data, l.ends = s.Values, s.Ends
	case parquet.Types.Int64:
		l.longs = arrow.Int64Traits.CastFromBytes(s.Values)
	case parquet.Types.Int32:
		l.ints = arrow.Int32Traits.CastFromBytes(s.Values)
	case parquet.Types.Boolean:
		l.bools = l.bools[:0]
		for _, b := range s.Values {
			l.bools = append(l.bools, b != 0)
		}
	case parquet.Types.Float:
		l.floats = arrow.Float32Traits.CastFromBytes(s.Values)
	case parquet.Types.Double:
		l.doubles = arrow.Float64Traits.CastFromBytes(s.Values)
	case parquet.Types.Int96:
		l.times = parquet.Int96Traits.CastFromBytes(s.Values)
	case parquet.Types.FixedLenByteArray:
		l.fixed = l.fixed[:0]
		for width := l.desc.TypeLength(); len(s.Values) >= width; s.Values = s.Values[width:] {
			l.fixed = append(l.fixed, s.Values[:width])
		}
	}
	return nil
}

func buffer[T any](b *[]T) []T {
	if *b == nil {
		*b = make([]T, leafBatch)
	}
	return *b
}

// read reads the next levels and values of the library.
func (l *parquetLeaf) read() (n int64, err error) {
	def, rep := l.wide[0], l.wide[1]
	switch c := l.chunk.(type) {
	case *file.ByteArrayColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.texts), def, rep)
	case *file.Int64ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.longs), def, rep)
	case *file.Int32ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.ints), def, rep)
	case *file.BooleanColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.bools), def, rep)
	case *file.Float32ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.floats), def, rep)
	case *file.Float64ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.doubles), def, rep)
	case *file.Int96ColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.times), def, rep)
	case *file.FixedLenByteArrayColumnChunkReader:
		n, _, err = c.ReadBatch(leafBatch, buffer(&l.fixed), def, rep)
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
	l.given++
	l.level = int16(l.def[l.pos])
	if l.repeatDef == 0 {
		if l.have = l.def[l.pos] == l.maxDef; l.have {
			l.at = l.value
			l.value++
		}
		l.pos++
		return nil
	}
	l.items = l.items[:0]
	for first := true; ; first = false {
		if !first && l.own != nil && l.pos == l.n {
			return nil
		}
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

// textAt gives a text value, which shares memory with the batch. The library hands out memory of its own making for each
// batch, which is never written again; that of the own reader is good for a batch only.
func (l *parquetLeaf) textAt(i int) string {
	if l.own != nil {
		b := l.data[l.ends[i]:l.ends[i+1]]
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
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

// kept gives a text that is good for ever.
func (l *parquetLeaf) kept(in *interner) string { return in.text(l.text()) }

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
	if !l.ok() {
		return nil
	}
	v, ok := l.int() // memory of its own
	if !ok {
		return nil
	}
	return &v
}

func (l *parquetLeaf) bool() (value, ok bool) {
	if !l.ok() || l.bools == nil {
		return false, false
	}
	return l.bools[l.at], true
}

// list gives the current row's entries; nil when the list is null.
func (l *parquetLeaf) list() []string {
	if l == nil || l.level < int16(l.containerDef) {
		return nil
	}
	out := make([]string, 0, len(l.items))
	for _, it := range l.items {
		out = append(out, strings.Clone(it.text))
	}
	return out
}

// parquetMap is a map column.
type parquetMap struct{ key, value *parquetLeaf }

// get gives the current row's entries; nil when the map is null.
func (m parquetMap) get() map[string]*string {
	if m.key == nil || m.key.level < int16(m.key.containerDef) {
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

// shared gives the current row's entries as a map that equal ones share.
func (m parquetMap) shared(in *interner) map[string]*string {
	if m.key == nil || m.key.level < int16(m.key.containerDef) {
		return nil
	}
	in.buf = in.buf[:0]
	for i := range m.key.items {
		var v *string
		if m.value != nil && i < len(m.value.items) && m.value.items[i].present {
			v = &m.value.items[i].text
		}
		in.pair(m.key.items[i].text, v)
	}
	if got, ok := in.maps[string(in.buf)]; ok {
		return got
	}
	key := string(in.buf) // values writes over it
	own := in.values(m.get())
	in.maps[key] = own
	return own
}

func (m parquetMap) plain() map[string]string {
	out := map[string]string{}
	for k, v := range m.get() {
		if v != nil {
			out[strings.Clone(k)] = strings.Clone(*v)
		} else {
			out[strings.Clone(k)] = ""
		}
	}
	return out
}
