package table

import (
	"fmt"
	"math/big"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// hiveNull stands for null in folder names. It does not belong into the log; writers put it there nevertheless.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// partitionArray gives n rows of a partition column. No value and the empty one are null for every type.
func partitionArray(t arrow.DataType, value *string, n int) (arrow.Array, error) {
	if value == nil || *value == "" || *value == hiveNull {
		return array.MakeArrayOfNull(memory.DefaultAllocator, t, n), nil
	}
	sc, err := partitionScalar(t, *value)
	if err != nil {
		return nil, fmt.Errorf("value %q is no %s: %w", *value, t, err)
	}
	return scalar.MakeArrayFromScalar(sc, n, memory.DefaultAllocator)
}

// partitionScalar reads a value as the log's own rules have it.
func partitionScalar(t arrow.DataType, v string) (scalar.Scalar, error) {
	of, ok := partitionType(t)
	if !ok {
		return nil, fmt.Errorf("the type cannot be a partition column's")
	}
	value, err := deltalog.ParsePartitionValue(of, &v)
	if err != nil {
		return nil, err
	}
	switch x := value.(type) {
	case string:
		return scalar.NewStringScalar(x), nil
	case []byte:
		return scalar.NewBinaryScalar(memory.NewBufferBytes(x), t), nil
	case int8:
		return scalar.NewInt8Scalar(x), nil
	case int16:
		return scalar.NewInt16Scalar(x), nil
	case int32:
		return scalar.NewInt32Scalar(x), nil
	case int64:
		return scalar.NewInt64Scalar(x), nil
	case float32:
		return scalar.NewFloat32Scalar(x), nil
	case float64:
		return scalar.NewFloat64Scalar(x), nil
	case bool:
		return scalar.NewBooleanScalar(x), nil
	case *big.Int:
		return scalar.NewDecimal128Scalar(decimal128.FromBigInt(x), t), nil
	case time.Time:
		if of == deltalog.Date {
			return scalar.NewDate32Scalar(arrow.Date32(floorDiv(x.Unix(), 86400))), nil
		}
		return scalar.NewTimestampScalar(arrow.Timestamp(x.UnixMicro()), t), nil // without a zone: UTC, since that of its writer is not known
	}
	return nil, fmt.Errorf("a %T is not expected here", value)
}

// partitionType gives the log's type of a column.
func partitionType(t arrow.DataType) (deltalog.DataType, bool) {
	switch t := t.(type) {
	case *arrow.StringType:
		return deltalog.String, true
	case *arrow.BinaryType:
		return deltalog.Binary, true
	case *arrow.Int8Type:
		return deltalog.Byte, true
	case *arrow.Int16Type:
		return deltalog.Short, true
	case *arrow.Int32Type:
		return deltalog.Integer, true
	case *arrow.Int64Type:
		return deltalog.Long, true
	case *arrow.Float32Type:
		return deltalog.Float, true
	case *arrow.Float64Type:
		return deltalog.Double, true
	case *arrow.BooleanType:
		return deltalog.Boolean, true
	case *arrow.Date32Type:
		return deltalog.Date, true
	case *arrow.TimestampType:
		return deltalog.Timestamp, true
	case *arrow.Decimal128Type:
		return deltalog.Decimal{Precision: t.Precision, Scale: t.Scale}, true
	}
	return nil, false
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
