package table

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/ledgerlake/ledgerlake/deltalog"
	ourparquet "github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/internal/where"
)

// filterFile says whether a file can have rows that the scan's filter keeps, by what the log says about it.
func (s *scan) filterFile(a *deltalog.Add) bool {
	if s.where == nil {
		return true
	}
	var st fileStats
	if a.Stats != "" && json.Unmarshal([]byte(a.Stats), &st) != nil {
		st = fileStats{} // statistics are advice: a file with broken ones is read
	}
	return s.where.MayMatch(func(column string, typ arrow.DataType) where.Stats {
		i := s.schema.FieldIndices(column)[0]
		name := s.stored[i].Name
		if s.partitionColumn[column] {
			return partitionStats(typ, a.PartitionValues[name])
		}
		out := where.Stats{TimesOff: true}
		if st.NumRecords != nil {
			out.Rows = *st.NumRecords
			nulls := int64(-1)
			statInt(st.NullCount[name], &nulls)
			out.Nulls, out.NullsKnown = nulls, nulls >= 0
		}
		out.Min, out.MinSet = jsonLimit(st.MinValues[name], typ)
		out.Max, out.MaxSet = jsonLimit(st.MaxValues[name], typ)
		out.Min.Float, out.Max.Float = loosen(out.Min.Float, out.Max.Float)
		return out
	})
}

// partitionStats are exact: all rows of a file have the value.
func partitionStats(typ arrow.DataType, v *string) where.Stats {
	a, err := partitionArray(typ, v, 1)
	if err != nil {
		return where.Stats{} // the read reports it
	}
	defer a.Release()
	out := where.Stats{Rows: 1, NullsKnown: true}
	l, ok := where.LimitOf(a, 0)
	if a.IsNull(0) {
		out.Nulls = 1
	}
	l.Bytes = append([]byte(nil), l.Bytes...)
	out.Min, out.Max, out.MinSet, out.MaxSet = l, l, ok, ok
	return out
}

// loosen gives bounds that hold for floats of 32 bits too. Other writers give those the shortest text that is the
// same float, which as a number of 64 bits lies a little beside it: 0.1 for 0.10000000149. A column of 64 bits may
// have had 32 when the file was written.
func loosen(low, high float64) (float64, float64) {
	down := math.Nextafter32(float32(low), float32(math.Inf(-1)))
	up := math.Nextafter32(float32(high), float32(math.Inf(1)))
	return min(low, float64(down)), max(high, float64(up))
}

// jsonLimit reads a value of add.stats.
func jsonLimit(raw json.RawMessage, typ arrow.DataType) (l where.Limit, ok bool) {
	if len(raw) == 0 || raw[0] == 'n' {
		return l, false
	}
	switch typ := typ.(type) {
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		return l, json.Unmarshal(raw, &l.Int) == nil
	case *arrow.Float32Type, *arrow.Float64Type:
		return l, json.Unmarshal(raw, &l.Float) == nil
	case *arrow.StringType:
		var s string
		err := json.Unmarshal(raw, &s)
		l.Bytes = []byte(s)
		return l, err == nil
	case *arrow.Date32Type:
		at, err := jsonTime(raw, time.DateOnly)
		l.Int = int64(arrow.Date32FromTime(at))
		return l, err == nil
	case *arrow.TimestampType:
		at, err := jsonTime(raw, time.RFC3339Nano, "2006-01-02T15:04:05.999999999")
		if err != nil {
			return l, false
		}
		v, err := arrow.TimestampFromTime(at, typ.Unit)
		l.Int = int64(v)
		return l, err == nil
	case *arrow.Decimal128Type:
		text := strings.Trim(string(raw), `"`)
		if dot := strings.IndexByte(text, '.'); dot >= 0 && len(text)-dot-1 > int(typ.Scale) || strings.ContainsAny(text, "eE") {
			return l, false // not as exact as the column
		}
		d, err := decimal128.FromString(text, 38, typ.Scale)
		l.Decimal = d
		return l, err == nil
	}
	return l, false
}

func jsonTime(raw json.RawMessage, layouts ...string) (at time.Time, err error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return at, err
	}
	for _, layout := range layouts {
		if at, err = time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	return at, err
}

// filterGroup says whether a row group can have rows that the scan's filter keeps, by its own statistics.
func (f *fileScan) filterGroup(rg *metadata.RowGroupMetaData) bool {
	if f.s.where == nil || f.s.probing || f.calendar != nil {
		return true
	}
	return f.s.where.MayMatch(func(column string, typ arrow.DataType) where.Stats { return f.groupWhere(rg, column, typ) })
}

// groupWhere gives what is known of a column in a row group.
func (f *fileScan) groupWhere(rg *metadata.RowGroupMetaData, column string, typ arrow.DataType) where.Stats {
	i := f.s.schema.FieldIndices(column)[0]
	switch {
	case f.s.partitionColumn[column]:
		return where.Stats{} // the file was chosen by it
	case f.fields[i] < 0:
		return where.Stats{Rows: rg.NumRows(), Nulls: rg.NumRows(), NullsKnown: true}
	case !f.fr.Manifest.Fields[f.fields[i]].IsLeaf():
		return where.Stats{}
	}
	return groupStats(rg, f.fr.Manifest.Fields[f.fields[i]].ColIndex, typ)
}

// groupStats reads the statistics of a column chunk, as far as they are of the column's own type: what the file
// has in a narrower or another one is not ruled out.
func groupStats(rg *metadata.RowGroupMetaData, leaf int, typ arrow.DataType) (out where.Stats) {
	c, err := rg.ColumnChunk(leaf)
	if err != nil {
		return out
	}
	if set, err := c.StatsSet(); err != nil || !set {
		return out
	}
	st, err := c.Statistics()
	if err != nil {
		return out
	}
	out.Rows = rg.NumRows()
	if st.HasNullCount() {
		out.Nulls, out.NullsKnown = st.NullCount(), true
	}
	if st.HasMinMax() {
		setLimits(&out, st.Type(), st.Descr().LogicalType(), typ, st.EncodeMin(), st.EncodeMax())
	}
	return out
}

// setLimits sets the smallest and the largest value of a column of a type, which Parquet has in a type of its own and as
// PLAIN without length. What the file has in another type than the column's is not known.
func setLimits(out *where.Stats, physical parquet.Type, logical schema.LogicalType, typ arrow.DataType, low, high []byte) {
	ok := true
	switch physical {
	case parquet.Types.Int32:
		out.Min.Int, out.Max.Int = plainInt(low), plainInt(high)
		ok = arrow.IsInteger(typ.ID()) || typ.ID() == arrow.DATE32
	case parquet.Types.Int64:
		out.Min.Int, out.Max.Int = plainInt(low), plainInt(high)
		ok = arrow.IsInteger(typ.ID()) || sameUnit(logical, typ)
	case parquet.Types.Float:
		out.Min.Float, out.Max.Float = float64(plainFloat32(low)), float64(plainFloat32(high))
		ok = arrow.IsFloating(typ.ID())
	case parquet.Types.Double:
		out.Min.Float, out.Max.Float = plainFloat64(low), plainFloat64(high)
		ok = arrow.IsFloating(typ.ID())
	case parquet.Types.ByteArray:
		out.Min.Bytes, out.Max.Bytes = low, high
		ok = typ.ID() == arrow.STRING
	default:
		ok = false
	}
	out.MinSet, out.MaxSet = ok, ok
}

func plainInt(b []byte) int64 {
	if len(b) == 4 {
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}

func plainFloat32(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
func plainFloat64(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }

// sameUnit says whether integers of a Parquet column are times in the unit of the table's column.
func sameUnit(l schema.LogicalType, typ arrow.DataType) bool {
	t, ok := typ.(*arrow.TimestampType)
	p, isTime := l.(schema.TimestampLogicalType)
	if !ok || !isTime {
		return false
	}
	switch p.TimeUnit() {
	case schema.TimeUnitMillis:
		return t.Unit == arrow.Millisecond
	case schema.TimeUnitMicros:
		return t.Unit == arrow.Microsecond
	case schema.TimeUnitNanos:
		return t.Unit == arrow.Nanosecond
	}
	return false
}

// filterRows gives the rows of a chunk that the filter keeps; nil when there are none. It takes the chunk over.
func (s *scan) filterRows(ctx context.Context, c *chunk) (*chunk, error) {
	if s.where == nil {
		return c, nil
	}
	defer c.rb.Release()
	keep, err := s.where.Rows(c.rb)
	if err != nil {
		return nil, err
	}
	rb, err := where.Select(ctx, c.rb, keep)
	if err != nil {
		return nil, err
	}
	if rb.NumRows() == 0 {
		rb.Release()
		return nil, nil
	}
	out := &chunk{rb: rb, file: c.file, width: c.width, row: c.row}
	if c.parts != nil {
		err = out.keyColumns(s.part, s.off)
	}
	return out, err
}

// Chosen says how much of a file a scan reads: row groups, and data pages of the columns that it needs. Pages are counted
// where the file has a page index.
type Chosen struct {
	Groups, OfGroups int
	Pages, OfPages   int
}

// Choose looks at the footer of a file, and says how much of it a scan with these options reads.
func (t *Table) Choose(ctx context.Context, snap *deltalog.Snapshot, a *deltalog.Add, opts ScanOptions) (Chosen, error) {
	s, err := t.newScan(snap, opts)
	if err != nil {
		return Chosen{}, err
	}
	f, err := s.open(ctx, &unit{add: a, to: 1<<63 - 1})
	if err != nil {
		return Chosen{}, fmt.Errorf("file %s: %w", a.Path, err)
	}
	defer f.close()
	return f.chosen()
}

// chosen counts what can have rows of the scan.
func (f *fileScan) chosen() (out Chosen, err error) {
	defer recoverTo(&err)
	index, err := f.pageIndex()
	if err != nil {
		return out, err
	}
	out.OfGroups = f.pq.NumRowGroups()
	for i := range out.OfGroups {
		meta := f.pq.MetaData().RowGroup(i)
		var spans []ourparquet.RowSpan
		if !f.skips(meta) && f.filterGroup(meta) {
			if spans, err = f.wantedRows(i, meta, 0, meta.NumRows()); err != nil {
				return out, err
			}
		}
		if len(spans) > 0 {
			out.Groups++
		}
		for _, leaf := range f.leaves {
			p, err := index.Pages(i, leaf)
			if err != nil {
				return out, err
			}
			if p != nil {
				out.Pages, out.OfPages = out.Pages+p.Count(spans), out.OfPages+p.Len()
			}
		}
	}
	return out, nil
}
