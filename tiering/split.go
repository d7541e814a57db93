package tiering

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// A table with partition columns has files of its own for each of their values. Rows are collected by the partition
// of the log as always, and split by value when they are encoded: what a file holds is sorted by (partition, offset)
// still, with the offsets between in other files, so a reader merges files by position and asks the txn for the end.

// keyColumn is one partition column.
type keyColumn struct {
	name   string
	stored string // as partitionValues call it
	typ    deltalog.DataType
	from   source
}

// group is the rows of a batch that go to the same file.
type group struct {
	key    string // of the values; "" in a table without partition columns
	values map[string]*string
	rows   []int32 // of the batch, ascending; nil: all
}

// keyColumns are the partition columns of a table, in its order.
type keyColumns []keyColumn

// split groups the rows of columns by the values of the partition columns.
func (s *session) split(r *rows) ([]group, error) {
	return s.keys.split(s.keyColumns(r, 0), r.sys.Rows(), func(row int) string {
		return fmt.Sprintf("partition %d offset %d", r.partition, r.sys.Offset(row))
	})
}

// split groups rows by the values of the partition columns, which cols has in their order. where names a row in an error.
func (k keyColumns) split(cols []arrow.Array, rows int, where func(row int) string) ([]group, error) {
	if len(k) == 0 {
		return []group{{}}, nil
	}
	var out []group
	at := map[string]int{}
	var key []byte
	now := -1
	for row := range rows {
		if row == 0 || !sameKey(cols, row) {
			key = key[:0]
			for _, c := range cols {
				key = appendKey(key, c, row)
			}
			i, ok := at[string(key)]
			if !ok {
				values, err := k.values(cols, row)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", where(row), err)
				}
				i = len(out)
				out = append(out, group{key: string(key), values: values})
				at[string(key)] = i
			}
			if i == 1 && out[0].rows == nil { // the first group is not all
				out[0].rows = upTo(row)
			}
			now = i
		}
		if len(out) > 1 {
			out[now].rows = append(out[now].rows, int32(row))
		}
	}
	return out, nil
}

// upTo gives the rows before one.
func upTo(end int) []int32 {
	rows := make([]int32, end)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// sameKey says, fast, that a row has the values of the one before; false where that is not known.
func sameKey(cols []arrow.Array, row int) bool {
	for _, c := range cols {
		if c.IsNull(row) || c.IsNull(row-1) {
			return false
		}
		switch c := c.(type) {
		case *array.String:
			if c.Value(row) != c.Value(row-1) {
				return false
			}
		case *array.Date32:
			if c.Value(row) != c.Value(row-1) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func pick(s source, sys, payload []arrow.Array) arrow.Array {
	if s.system {
		return sys[s.index]
	}
	return payload[s.index]
}

// appendKey appends what tells a value from others of its column. An empty text is the same as null, in the log too.
func appendKey(dst []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(dst, 0)
	}
	switch a := a.(type) {
	case *array.String:
		return appendText(dst, []byte(a.Value(i)))
	case *array.Binary:
		return appendText(dst, a.Value(i))
	case *array.Boolean:
		if a.Value(i) {
			return append(dst, 1, 1)
		}
		return append(dst, 1, 0)
	case *array.Decimal128:
		v := a.Value(i)
		dst = binary.LittleEndian.AppendUint64(append(dst, 1), v.LowBits())
		return binary.LittleEndian.AppendUint64(dst, uint64(v.HighBits()))
	}
	width := a.DataType().(arrow.FixedWidthDataType).Bytes()
	at := (a.Data().Offset() + i) * width
	return append(append(dst, 1), a.Data().Buffers()[1].Bytes()[at:at+width]...)
}

func appendText(dst, v []byte) []byte {
	if len(v) == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(append(dst, 1), uint64(len(v)))
	return append(dst, v...)
}

// values are those of a row as the log holds them.
func (k keyColumns) values(cols []arrow.Array, row int) (map[string]*string, error) {
	out := make(map[string]*string, len(cols))
	for i, k := range k {
		v, err := table.PartitionValue(k.typ, cols[i], row)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", k.name, err)
		}
		out[k.stored] = v
	}
	return out, nil
}

// gather gives the rows of a group as a batch of the file's columns. Release it.
func (g *group) gather(ctx context.Context, rb arrow.RecordBatch) (arrow.RecordBatch, error) {
	n := len(g.rows)
	if g.rows == nil || n == int(rb.NumRows()) {
		rb.Retain()
		return rb, nil
	}
	if first := g.rows[0]; int(g.rows[n-1]-first) == n-1 {
		return rb.NewSlice(int64(first), int64(first)+int64(n)), nil
	}
	data := array.NewData(arrow.PrimitiveTypes.Int32, n, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(g.rows))}, nil, 0, 0)
	defer data.Release()
	rows := array.NewInt32Data(data)
	defer rows.Release()
	cols := make([]arrow.Array, rb.NumCols())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i := range cols {
		c, err := compute.TakeArrayOpts(ctx, rb.Column(i), rows, compute.TakeOptions{BoundsCheck: false})
		if err != nil {
			return nil, fmt.Errorf("gather column %q: %w", rb.ColumnName(i), err)
		}
		cols[i] = c
	}
	return array.NewRecordBatch(rb.Schema(), cols, int64(n)), nil
}

// planKeys finds the partition columns of a table among what fills its columns.
func planKeys(snap *deltalog.Snapshot, find func(name string) (source, bool)) (keys keyColumns, err error) {
	stored := snap.PartitionNames()
	for i, name := range snap.Metadata().PartitionColumns {
		f, ok := snap.Schema().Field(name)
		from, found := find(name)
		if !ok || !found {
			return nil, &deltalog.UnsupportedError{Write: true, Features: []string{fmt.Sprintf("partition column %s, which no data can fill", name)}}
		}
		keys = append(keys, keyColumn{name: name, stored: stored[i], typ: f.Type, from: from})
	}
	return keys, nil
}
