package deltalog

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// A table may ask for statistics and partition values as columns of their own types (delta.checkpoint.writeStatsAsStruct),
// and may do without the JSON ones (delta.checkpoint.writeStatsAsJson). A reader may believe either, so what cannot be a
// value of the column's type is null there: a bound rules nothing out then, and of a partition value add.partitionValues has
// the text. Other writers may have put anything there, and that must not keep a table from having checkpoints.

// structPlan is what the adds of a table's checkpoints hold beside the plain fields.
type structPlan struct {
	json   bool // add.stats too
	typed  bool // what follows
	parts  []*structField
	counts []*structField // columns whose nulls are counted
	bounds []*structField // those with a least and a greatest value
}

// structField is a column or a field of one, by the name that files have.
type structField struct {
	name string
	typ  DataType
	kids []*structField
}

func (f *structField) leaves() int {
	if f.kids == nil {
		return 1
	}
	return leavesOf(f.kids)
}

func leavesOf(fields []*structField) (n int) {
	for _, f := range fields {
		n += f.leaves()
	}
	return n
}

// planStructs reads the settings; nil where a table wants JSON alone, as those do that say nothing.
func planStructs(m *Metadata, s *StructType) *structPlan {
	asStruct, asJSON := isOn(m.Configuration, "delta.checkpoint.writeStatsAsStruct"), !strings.EqualFold(m.Configuration["delta.checkpoint.writeStatsAsJson"], "false")
	if !asStruct && asJSON {
		return nil
	}
	p := &structPlan{json: asJSON, typed: asStruct}
	if !asStruct {
		return p
	}
	mapped := m.MappingMode() != "none"
	name := func(f *StructField) string {
		if mapped {
			return f.PhysicalName()
		}
		return f.Name
	}
	for _, c := range m.PartitionColumns {
		if f, ok := s.Field(c); ok {
			p.parts = append(p.parts, &structField{name: name(&f), typ: f.Type})
		}
	}
	wanted := wantedStats(m.Configuration)
	leaf := 0
	var walk func(t *StructType, prefix string, top bool) (counts, bounds []*structField)
	walk = func(t *StructType, prefix string, top bool) (counts, bounds []*structField) {
		for i := range t.Fields {
			f := &t.Fields[i]
			if top && slices.Contains(m.PartitionColumns, f.Name) || f.Type == Void {
				continue
			}
			if st, ok := f.Type.(*StructType); ok {
				c, b := walk(st, prefix+f.Name+".", false)
				counts, bounds = appendGroup(counts, name(f), c), appendGroup(bounds, name(f), b)
				continue
			}
			if wanted(prefix+f.Name, leaf) {
				x := &structField{name: name(f), typ: f.Type}
				counts = append(counts, x)
				if ordered(f.Type) {
					bounds = append(bounds, x)
				}
			}
			leaf++
		}
		return counts, bounds
	}
	p.counts, p.bounds = walk(s, "", true)
	return p
}

// appendGroup leaves out groups without fields, which Parquet does not have.
func appendGroup(to []*structField, name string, kids []*structField) []*structField {
	if len(kids) == 0 {
		return to
	}
	return append(to, &structField{name: name, kids: kids})
}

// ordered says whether statistics of a type have a least and a greatest value.
func ordered(t DataType) bool {
	if _, ok := t.(Decimal); ok {
		return true
	}
	switch t {
	case Byte, Short, Integer, Long, Float, Double, Date, Timestamp, TimestampNTZ, String:
		return true
	}
	return false
}

// wantedStats gives which leaf columns, by path and number, the settings want statistics of.
func wantedStats(conf map[string]string) func(path string, leaf int) bool {
	if list, ok := conf["delta.dataSkippingStatsColumns"]; ok {
		names := strings.Split(strings.ReplaceAll(list, "`", ""), ",")
		return func(path string, _ int) bool {
			return slices.ContainsFunc(names, func(n string) bool {
				n = strings.TrimSpace(n)
				return path == n || strings.HasPrefix(path, n+".")
			})
		}
	}
	first, err := strconv.Atoi(conf["delta.dataSkippingNumIndexedCols"])
	if err != nil || first < -1 {
		first = 32
	}
	return func(_ string, leaf int) bool { return first < 0 || leaf < first }
}

// statsLeaves counts the leaves of add.stats_parsed.
func (p *structPlan) statsLeaves() int { return 2 + leavesOf(p.counts) + 2*leavesOf(p.bounds) }

// nodes gives the schema of what stands behind the other fields of add.
func (p *structPlan) nodes(m *nodeMaker) []schema.Node {
	if !p.typed {
		return nil
	}
	var out []schema.Node
	group := func(to []schema.Node, name string, fields []*structField, leaf func(*structField) schema.Node) []schema.Node {
		if len(fields) == 0 {
			return to
		}
		return append(to, m.group(name, m.structFields(fields, leaf)...))
	}
	typed := func(f *structField) schema.Node { return m.typed(f.name, f.typ) }
	out = group(out, "partitionValues_parsed", p.parts, typed)
	stats := []schema.Node{m.long("numRecords")}
	stats = group(stats, "minValues", p.bounds, typed)
	stats = group(stats, "maxValues", p.bounds, typed)
	stats = group(stats, "nullCount", p.counts, func(f *structField) schema.Node { return m.long(f.name) })
	return append(out, m.group("stats_parsed", append(stats, m.boolean("tightBounds"))...))
}

func (m *nodeMaker) structFields(fields []*structField, leaf func(*structField) schema.Node) []schema.Node {
	out := make([]schema.Node, len(fields))
	for i, f := range fields {
		if f.kids != nil {
			out[i] = m.group(f.name, m.structFields(f.kids, leaf)...)
		} else {
			out[i] = leaf(f)
		}
	}
	return out
}

// typed gives a column of a type as Spark writes it.
func (m *nodeMaker) typed(name string, t DataType) schema.Node {
	logical := func(l schema.LogicalType, physical parquet.Type, size int) schema.Node {
		n, err := schema.NewPrimitiveNodeLogical(name, parquet.Repetitions.Optional, l, physical, size, -1)
		m.keep(err)
		return n
	}
	if d, ok := t.(Decimal); ok {
		switch l := schema.NewDecimalLogicalType(d.Precision, d.Scale); {
		case d.Precision <= 9:
			return logical(l, parquet.Types.Int32, -1)
		case d.Precision <= 18:
			return logical(l, parquet.Types.Int64, -1)
		default:
			return logical(l, parquet.Types.FixedLenByteArray, decimalBytes(d))
		}
	}
	switch t {
	case Byte:
		return logical(schema.NewIntLogicalType(8, true), parquet.Types.Int32, -1)
	case Short:
		return logical(schema.NewIntLogicalType(16, true), parquet.Types.Int32, -1)
	case Integer:
		return m.integer(name)
	case Long:
		return m.long(name)
	case Float:
		return schema.NewFloat32Node(name, parquet.Repetitions.Optional, -1)
	case Double:
		return schema.NewFloat64Node(name, parquet.Repetitions.Optional, -1)
	case Boolean:
		return m.boolean(name)
	case Date:
		return logical(schema.DateLogicalType{}, parquet.Types.Int32, -1)
	case Timestamp, TimestampNTZ:
		return logical(schema.NewTimestampLogicalType(t == Timestamp, schema.TimeUnitMicros), parquet.Types.Int64, -1)
	case Binary:
		return schema.NewByteArrayNode(name, parquet.Repetitions.Optional, -1)
	}
	return m.text(name)
}

// decimalBytes is how many bytes hold every value of the type.
func decimalBytes(d Decimal) int {
	most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.Precision)), nil)
	return most.BitLen()/8 + 1
}

// structs writes the fields that the plan adds to a file.
func (f *fields) structs(p *structPlan, a *Add) {
	if !p.typed {
		return
	}
	if len(p.parts) > 0 {
		f.group()
		for _, c := range p.parts {
			v, err := ParsePartitionValue(c.typ, a.PartitionValues[c.name])
			if err != nil {
				v = nil // as Spark has it
			}
			f.value(c.typ, v)
		}
		f.leave()
	}
	s, ok := ParseStats(a.Stats)
	if !ok {
		f.null(p.statsLeaves())
		return
	}
	f.group()
	f.longPtr(s.NumRecords)
	bound := func(c *structField, raw json.RawMessage) { f.value(c.typ, statsValue(c.typ, raw)) }
	f.tree(p.bounds, s.MinValues, bound)
	f.tree(p.bounds, s.MaxValues, bound)
	f.tree(p.counts, s.NullCount, func(_ *structField, raw json.RawMessage) {
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			f.long(n)
		} else {
			f.null(1)
		}
	})
	f.boolPtr(s.TightBounds)
	f.leave()
}

// tree writes a group of statistics; nil is null.
func (f *fields) tree(nodes []*structField, values map[string]json.RawMessage, leaf func(*structField, json.RawMessage)) {
	if len(nodes) == 0 {
		return
	}
	if values == nil {
		f.null(leavesOf(nodes))
		return
	}
	f.group()
	for _, n := range nodes {
		raw := values[n.name]
		if n.kids == nil {
			leaf(n, raw)
			continue
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(raw, &inner) != nil {
			inner = nil
		}
		f.tree(n.kids, inner, leaf)
	}
	f.leave()
}

// statsValue reads a bound; nil when there is none, or none of the type.
func statsValue(t DataType, raw json.RawMessage) any {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	text := string(raw)
	quoted := raw[0] == '"'
	if quoted && json.Unmarshal(raw, &text) != nil {
		return nil
	}
	if wantsQuotes := t == String || t == Date || t == Timestamp || t == TimestampNTZ; quoted != wantsQuotes {
		return nil
	}
	v, err := parsePartition(t, text)
	if err != nil {
		return nil
	}
	switch x := v.(type) {
	case float32:
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil
		}
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
	}
	return v
}

// value writes a value in the Go type of ParsePartitionValue; nil is null.
func (f *fields) value(t DataType, v any) {
	switch v := v.(type) {
	case int8:
		f.integer(int32(v))
	case int16:
		f.integer(int32(v))
	case int32:
		f.integer(v)
	case int64:
		f.long(v)
	case bool:
		f.boolean(v)
	case string:
		f.text(v)
	case []byte:
		f.text(string(v))
	case float32:
		l := f.leaf()
		l.level(f.row, f.depth+1, 0)
		l.floats = append(l.floats, v)
	case float64:
		l := f.leaf()
		l.level(f.row, f.depth+1, 0)
		l.doubles = append(l.doubles, v)
	case time.Time:
		if t == Date {
			f.integer(int32(floorDiv(v.Unix(), 24*60*60)))
		} else {
			f.long(v.UnixMicro())
		}
	case *big.Int:
		f.decimal(t.(Decimal), v)
	default:
		f.null(1)
	}
}

func (f *fields) decimal(d Decimal, v *big.Int) {
	switch {
	case v.CmpAbs(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.Precision)), nil)) >= 0:
		f.null(1)
	case d.Precision <= 9:
		f.integer(int32(v.Int64()))
	case d.Precision <= 18:
		f.long(v.Int64())
	default:
		l := f.leaf()
		l.level(f.row, f.depth+1, 0)
		n := decimalBytes(d)
		if v.Sign() < 0 { // two's complement
			v = new(big.Int).Add(v, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
		}
		l.fixed = append(l.fixed, v.FillBytes(make([]byte, n)))
	}
}
