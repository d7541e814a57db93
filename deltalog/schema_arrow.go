package deltalog

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// ToArrow gives the Arrow schema of a table. Types without an Arrow counterpart here (variant and types that
// this program does not know) are an error that names the column.
func ToArrow(s *StructType) (*arrow.Schema, error) {
	fields, err := arrowFields(s)
	if err != nil {
		return nil, err
	}
	return arrow.NewSchema(fields, nil), nil
}

func arrowFields(s *StructType) ([]arrow.Field, error) {
	fields := make([]arrow.Field, len(s.Fields))
	for i, f := range s.Fields {
		t, err := arrowType(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		fields[i] = arrow.Field{Name: f.Name, Type: t, Nullable: f.Nullable}
	}
	return fields, nil
}

func arrowType(t DataType) (arrow.DataType, error) {
	switch t := t.(type) {
	case Primitive:
		return arrowPrimitive(t)
	case Decimal:
		return &arrow.Decimal128Type{Precision: t.Precision, Scale: t.Scale}, nil
	case *ArrayType:
		el, err := arrowType(t.Element)
		if err != nil {
			return nil, err
		}
		return arrow.ListOfField(arrow.Field{Name: "element", Type: el, Nullable: t.ContainsNull}), nil
	case *MapType:
		k, err := arrowType(t.Key)
		if err != nil {
			return nil, err
		}
		v, err := arrowType(t.Value)
		if err != nil {
			return nil, err
		}
		m := arrow.MapOf(k, v)
		m.SetItemNullable(t.ValueContainsNull)
		return m, nil
	case *StructType:
		fields, err := arrowFields(t)
		if err != nil {
			return nil, err
		}
		return arrow.StructOf(fields...), nil
	}
	return nil, fmt.Errorf("type %v has no Arrow form", t)
}

func arrowPrimitive(p Primitive) (arrow.DataType, error) {
	switch p {
	case String:
		return arrow.BinaryTypes.String, nil
	case Binary:
		return arrow.BinaryTypes.Binary, nil
	case Long:
		return arrow.PrimitiveTypes.Int64, nil
	case Integer:
		return arrow.PrimitiveTypes.Int32, nil
	case Short:
		return arrow.PrimitiveTypes.Int16, nil
	case Byte:
		return arrow.PrimitiveTypes.Int8, nil
	case Float:
		return arrow.PrimitiveTypes.Float32, nil
	case Double:
		return arrow.PrimitiveTypes.Float64, nil
	case Boolean:
		return arrow.FixedWidthTypes.Boolean, nil
	case Date:
		return arrow.FixedWidthTypes.Date32, nil
	case Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nil
	case TimestampNTZ:
		return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
	case Void:
		return arrow.Null, nil
	}
	return nil, fmt.Errorf("type %q is not supported", string(p))
}

// FromArrow gives the Delta schema that can hold rows of an Arrow schema. Unsigned integers become the next
// wider type; timestamps become microseconds.
func FromArrow(s *arrow.Schema) (*StructType, error) {
	return structFromArrow(s.Fields())
}

func structFromArrow(fields []arrow.Field) (*StructType, error) {
	st := &StructType{Fields: make([]StructField, len(fields))}
	for i, f := range fields {
		t, err := fromArrowType(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		st.Fields[i] = StructField{Name: f.Name, Type: t, Nullable: f.Nullable}
	}
	return st, nil
}

func fromArrowType(t arrow.DataType) (DataType, error) {
	switch t := t.(type) {
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return TimestampNTZ, nil
		}
		return Timestamp, nil
	case arrow.DecimalType:
		if t.GetPrecision() < 1 || t.GetPrecision() > 38 || t.GetScale() < 0 || t.GetScale() > t.GetPrecision() {
			return nil, fmt.Errorf("%v does not fit a Delta decimal", t)
		}
		return Decimal{t.GetPrecision(), t.GetScale()}, nil
	case *arrow.StructType:
		return structFromArrow(t.Fields())
	case *arrow.MapType:
		k, err := fromArrowType(t.KeyType())
		if err != nil {
			return nil, err
		}
		v, err := fromArrowType(t.ItemType())
		if err != nil {
			return nil, err
		}
		return &MapType{Key: k, Value: v, ValueContainsNull: t.ItemField().Nullable}, nil
	case *arrow.DictionaryType:
		return fromArrowType(t.ValueType)
	case arrow.ListLikeType:
		el, err := fromArrowType(t.Elem())
		if err != nil {
			return nil, err
		}
		return &ArrayType{Element: el, ContainsNull: t.ElemField().Nullable}, nil
	}
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return String, nil
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW, arrow.FIXED_SIZE_BINARY:
		return Binary, nil
	case arrow.INT64, arrow.UINT32:
		return Long, nil
	case arrow.INT32, arrow.UINT16:
		return Integer, nil
	case arrow.INT16, arrow.UINT8:
		return Short, nil
	case arrow.INT8:
		return Byte, nil
	case arrow.UINT64:
		return Decimal{20, 0}, nil
	case arrow.FLOAT32, arrow.FLOAT16:
		return Float, nil
	case arrow.FLOAT64:
		return Double, nil
	case arrow.BOOL:
		return Boolean, nil
	case arrow.DATE32, arrow.DATE64:
		return Date, nil
	case arrow.NULL:
		return Void, nil
	}
	return nil, fmt.Errorf("arrow type %v has no Delta form", t)
}
