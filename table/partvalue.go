package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
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

func partitionScalar(t arrow.DataType, v string) (scalar.Scalar, error) {
	integer := func(bits int) (int64, error) { return strconv.ParseInt(strings.TrimSpace(v), 10, bits) }
	switch t := t.(type) {
	case *arrow.StringType:
		return scalar.NewStringScalar(v), nil
	case *arrow.BinaryType:
		return scalar.NewBinaryScalar(memory.NewBufferBytes([]byte(v)), t), nil
	case *arrow.Int8Type:
		x, err := integer(8)
		return scalar.NewInt8Scalar(int8(x)), err
	case *arrow.Int16Type:
		x, err := integer(16)
		return scalar.NewInt16Scalar(int16(x)), err
	case *arrow.Int32Type:
		x, err := integer(32)
		return scalar.NewInt32Scalar(int32(x)), err
	case *arrow.Int64Type:
		x, err := integer(64)
		return scalar.NewInt64Scalar(x), err
	case *arrow.Float32Type:
		x, err := partitionFloat(v, 32)
		return scalar.NewFloat32Scalar(float32(x)), err
	case *arrow.Float64Type:
		x, err := partitionFloat(v, 64)
		return scalar.NewFloat64Scalar(x), err
	case *arrow.BooleanType:
		x, err := strconv.ParseBool(strings.ToLower(v))
		return scalar.NewBooleanScalar(x), err
	case *arrow.Date32Type:
		x, err := time.Parse(time.DateOnly, v)
		return scalar.NewDate32Scalar(arrow.Date32(floorDiv(x.Unix(), 86400))), err
	case *arrow.TimestampType:
		x, err := partitionTime(v)
		return scalar.NewTimestampScalar(arrow.Timestamp(x), t), err
	case *arrow.Decimal128Type:
		x, err := partitionDecimal(v, t)
		return scalar.NewDecimal128Scalar(x, t), err
	}
	return nil, fmt.Errorf("the type cannot be a partition column's")
}

func partitionFloat(v string, bits int) (float64, error) {
	switch v { // Java's names
	case "Infinity":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	}
	return strconv.ParseFloat(v, bits)
}

func partitionDecimal(v string, t *arrow.Decimal128Type) (decimal128.Num, error) {
	return decimal128.FromString(v, t.Precision, t.Scale)
}

// partitionTime reads microseconds. A time without a zone is taken as UTC: the zone of its writer is not known.
func partitionTime(v string) (int64, error) {
	var err error
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", time.DateOnly} {
		var at time.Time
		if at, err = time.Parse(layout, v); err == nil {
			return at.UnixMicro(), nil
		}
	}
	return 0, err
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
