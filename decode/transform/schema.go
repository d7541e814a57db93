package transform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// parseType reads a Delta type by its name.
func parseType(name string) (arrow.DataType, error) {
	quotedName, _ := json.Marshal(name) // a string
	switch name {
	case "int":
		quotedName = []byte(`"integer"`)
	case "bigint":
		quotedName = []byte(`"long"`)
	}
	s, err := deltalog.ParseSchema(`{"type":"struct","fields":[{"name":"x","type":` + string(quotedName) + `,"nullable":true,"metadata":{}}]}`)
	if err == nil {
		var a *arrow.Schema
		if a, err = deltalog.ToArrow(s); err == nil {
			return a.Field(0).Type, nil
		}
	}
	return nil, fmt.Errorf("%q is no type of a column: want string, long, integer, short, byte, double, float, boolean, binary, date, timestamp, timestamp_ntz or decimal(p,s)", name)
}

// Extend gives the payload columns of a table that is still to be made: without the fields that fill no column, with
// those that only transforms fill. Fields of structs and columns that are there stay as they are.
func (s Spec) Extend(payload *arrow.Schema) (*arrow.Schema, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	all := payload.Fields()
	fields := slices.DeleteFunc(slices.Clone(all), func(f arrow.Field) bool { return slices.Contains(s.Dropped(), f.Name) })
	for _, f := range s.fields() {
		t, err := f.columnType(all)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(fields, func(have arrow.Field) bool { return have.Name == f.Property })
		switch {
		case at >= 0 && f.Type != "":
			fields[at].Type = t
		case at >= 0:
		case strings.Contains(f.Property, "."):
			if fields, err = nest(fields, strings.Split(f.Property, "."), t); err != nil {
				return nil, fmt.Errorf("%w %q: %w", ErrSpec, f.Property, err)
			}
		default:
			fields = append(fields, arrow.Field{Name: f.Property, Type: t, Nullable: true})
		}
	}
	return arrow.NewSchema(fields, nil), nil
}

// nest adds a field below structs, which are made where they are missing.
func nest(fields []arrow.Field, path []string, t arrow.DataType) ([]arrow.Field, error) {
	at := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == path[0] })
	if len(path) == 1 {
		if at < 0 {
			fields = append(slices.Clone(fields), arrow.Field{Name: path[0], Type: t, Nullable: true})
		}
		return fields, nil
	}
	var below []arrow.Field
	if at >= 0 {
		st, ok := fields[at].Type.(*arrow.StructType)
		if !ok {
			return nil, fmt.Errorf("column %q is no struct", path[0])
		}
		below = st.Fields()
	}
	below, err := nest(below, path[1:], t)
	if err != nil {
		return nil, err
	}
	f := arrow.Field{Name: path[0], Type: arrow.StructOf(below...), Nullable: true}
	out := slices.Clone(fields)
	if at < 0 {
		return append(out, f), nil
	}
	out[at] = f
	return out, nil
}

// columnType is the type of the column that a field fills, where nobody has said it.
func (f Field) columnType(payload []arrow.Field) (arrow.DataType, error) {
	if f.Type != "" {
		return parseType(f.Type)
	}
	n, err := compile(f)
	if err != nil {
		return nil, err
	}
	utc := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	switch n.op {
	case opMeta:
		switch n.meta {
		case metaPartition, metaTimestampType, metaSchemaID, metaLeaderEpoch:
			return arrow.PrimitiveTypes.Int32, nil
		case metaOffset:
			return arrow.PrimitiveTypes.Int64, nil
		case metaTimestamp:
			return utc, nil
		}
	case opISO8601:
		return utc, nil
	case opMillisToMicros:
		return arrow.PrimitiveTypes.Int64, nil
	case opToNumber:
		return arrow.PrimitiveTypes.Float64, nil
	case opNot, opCompare:
		return arrow.FixedWidthTypes.Boolean, nil
	case opField:
		if t := fieldType(payload, append([]string{n.name}, n.path...)); t != nil {
			return t, nil
		}
	}
	return arrow.BinaryTypes.String, nil
}

func fieldType(fields []arrow.Field, path []string) arrow.DataType {
	for _, f := range fields {
		if f.Name != path[0] {
			continue
		}
		if len(path) == 1 {
			return f.Type
		}
		if st, ok := f.Type.(*arrow.StructType); ok {
			return fieldType(st.Fields(), path[1:])
		}
	}
	return nil
}
