package table

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// fieldID is the key of arrow field metadata under which the Parquet library gives and takes field ids.
const fieldID = "PARQUET:field_id"

// mapping is a table's column mapping: how its data files, statistics and partition values name the columns.
type mapping struct {
	mode   string // "", "name" or "id"
	schema *deltalog.StructType
}

// mappingOf reads the mode. Without the feature in the protocol the property means nothing.
func mappingOf(snap *deltalog.Snapshot) (mapping, error) {
	m := mapping{schema: snap.Schema()}
	if !slices.Contains(snap.ReaderFeatures(), "columnMapping") {
		return m, nil
	}
	switch mode := strings.ToLower(snap.Metadata().Configuration["delta.columnMapping.mode"]); mode {
	case "", "none":
	case "name", "id":
		m.mode = mode
	default:
		return m, &deltalog.UnsupportedError{Features: []string{"column mapping mode " + strconv.Quote(mode)}}
	}
	return m, nil
}

// field gives a column of the table as its data files have it: with physical names at every depth and, in mode
// id, with ids to find the columns by.
func (m mapping) field(f arrow.Field) (arrow.Field, error) {
	if m.mode == "" {
		return f, nil
	}
	sf, ok := m.schema.Field(f.Name)
	if !ok {
		return f, fmt.Errorf("the table has no column %q", f.Name)
	}
	return m.physical(&sf, f)
}

func (m mapping) physical(sf *deltalog.StructField, f arrow.Field) (arrow.Field, error) {
	name, err := m.name(sf)
	if err != nil {
		return f, err
	}
	t, err := m.physicalType(sf.Type, f.Type)
	if err != nil {
		return f, fmt.Errorf("column %q: %w", sf.Name, err)
	}
	out := arrow.Field{Name: name, Type: t, Nullable: f.Nullable}
	if m.mode == "id" {
		var id int32
		raw, ok := sf.MetadataValue("delta.columnMapping.id")
		if !ok || json.Unmarshal(raw, &id) != nil || id < 0 {
			return f, fmt.Errorf("column %q has no delta.columnMapping.id: the table's schema is broken", sf.Name)
		}
		out.Metadata = arrow.NewMetadata([]string{fieldID}, []string{strconv.Itoa(int(id))})
	}
	return out, nil
}

func (m mapping) name(sf *deltalog.StructField) (string, error) {
	var name string
	raw, ok := sf.MetadataValue("delta.columnMapping.physicalName")
	if !ok || json.Unmarshal(raw, &name) != nil || name == "" {
		return "", fmt.Errorf("column %q has no delta.columnMapping.physicalName: the table's schema is broken", sf.Name)
	}
	return name, nil
}

func (m mapping) physicalType(dt deltalog.DataType, t arrow.DataType) (arrow.DataType, error) {
	switch dt := dt.(type) {
	case *deltalog.StructType:
		fields := slices.Clone(t.(*arrow.StructType).Fields())
		for i := range fields {
			var err error
			if fields[i], err = m.physical(&dt.Fields[i], fields[i]); err != nil {
				return nil, err
			}
		}
		return arrow.StructOf(fields...), nil
	case *deltalog.ArrayType:
		elem := t.(*arrow.ListType).ElemField()
		var err error
		elem.Type, err = m.physicalType(dt.Element, elem.Type)
		return arrow.ListOfField(elem), err
	case *deltalog.MapType:
		mt := t.(*arrow.MapType)
		k, err := m.physicalType(dt.Key, mt.KeyType())
		if err != nil {
			return nil, err
		}
		v, err := m.physicalType(dt.Value, mt.ItemType())
		if err != nil {
			return nil, err
		}
		out := arrow.MapOf(k, v)
		out.SetItemNullable(mt.ItemField().Nullable)
		return out, nil
	}
	return t, nil
}

// stored gives columns as a new data file has them. Files get the ids in both modes, as the protocol says.
func (m mapping) stored(columns *arrow.Schema) (*arrow.Schema, error) {
	if m.mode == "" {
		return columns, nil
	}
	m.mode = "id"
	out := columns.Fields() // a copy
	for i := range out {
		var err error
		if out[i], err = m.field(out[i]); err != nil {
			return nil, err
		}
	}
	return arrow.NewSchema(out, nil), nil
}

// names gives system columns as data files call them, inner ones by their path; those that the schema lost keep their name.
func (m mapping) names(n Names) Names {
	for _, p := range n.pointers() {
		sf, ok := m.schema.Field(*p)
		switch {
		case ok && m.mode != "":
			if name, err := m.name(&sf); err == nil {
				*p = name
			}
		case !ok && strings.Contains(*p, "."):
			columns, err := deltalog.ToArrow(m.schema)
			if err != nil {
				continue
			}
			if way := wayTo(columns.Fields(), *p); way != nil {
				*p = m.path(way)
			}
		}
	}
	return n
}

// find gives the place of a column among those of a file, -1 when the file does not have it.
func find(have []arrow.Field, want arrow.Field) (int, error) {
	id, ok := idOf(want)
	if !ok {
		return fieldIndex(have, want.Name), nil
	}
	at := -1
	for i, f := range have {
		if got, ok := idOf(f); ok && got == id {
			if at >= 0 {
				return -1, fmt.Errorf("two columns of the file have the field id %s", id)
			}
			at = i
		}
	}
	return at, nil
}

// idOf gives a column's field id; the Parquet library says -1 where a file has none.
func idOf(f arrow.Field) (string, bool) {
	id, ok := f.Metadata.GetValue(fieldID)
	return id, ok && !strings.HasPrefix(id, "-")
}

// hasIDs says whether columns at any depth carry field ids.
func hasIDs(fields []arrow.Field) bool {
	return slices.ContainsFunc(fields, func(f arrow.Field) bool {
		_, ok := idOf(f)
		return ok || typeHasIDs(f.Type)
	})
}

func typeHasIDs(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.StructType:
		return hasIDs(t.Fields())
	case *arrow.ListType:
		return typeHasIDs(t.Elem())
	case *arrow.MapType:
		return typeHasIDs(t.KeyType()) || typeHasIDs(t.ItemType())
	}
	return false
}

// renameColumns gives the same rows under a schema that differs in names only.
func renameColumns(rb arrow.RecordBatch, schema *arrow.Schema) arrow.RecordBatch {
	if rb.Schema() == schema {
		rb.Retain()
		return rb
	}
	columns := make([]arrow.Array, rb.NumCols())
	for i, f := range schema.Fields() {
		columns[i] = rename(rb.Column(i), f.Type)
		defer columns[i].Release()
	}
	return array.NewRecordBatch(schema, columns, rb.NumRows())
}

// rename gives the same data under a type that differs in names only.
func rename(a arrow.Array, t arrow.DataType) arrow.Array {
	d := renameData(a.Data(), t)
	defer d.Release()
	return array.MakeFromData(d)
}

func renameData(d arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	var types []arrow.DataType
	switch t := t.(type) {
	case *arrow.StructType:
		for _, f := range t.Fields() {
			types = append(types, f.Type)
		}
	case *arrow.ListType:
		types = append(types, t.Elem())
	case *arrow.MapType:
		types = append(types, t.Elem())
	}
	kids := make([]arrow.ArrayData, len(types))
	for i, kt := range types {
		kids[i] = renameData(d.Children()[i], kt)
		defer kids[i].Release()
	}
	return array.NewData(t, d.Len(), d.Buffers(), kids, d.NullN(), d.Offset())
}
