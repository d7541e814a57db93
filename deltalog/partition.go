package deltalog

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A partition value goes through three forms: the text in partitionValues (FormatPartitionValue), the name of a
// folder (PartitionFolder), and the path in the log (EncodePath on top of that).

// hiveNull is the folder of null. It does not belong into partitionValues; some writers put it there nevertheless.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

const (
	layoutDate = "2006-01-02"
	layoutNTZ  = "2006-01-02 15:04:05.000000"
	layoutUTC  = "2006-01-02T15:04:05.000000Z"
)

// FormatPartitionValue gives a value of a partition column as partitionValues holds it; nil is null, and so are the
// empty string and empty bytes. The Go types are int8 to int64 for whole numbers (any of them if it fits), float32,
// float64, bool, string, []byte, time.Time for dates and both timestamps, and *big.Int for the unscaled value of a
// decimal.
func FormatPartitionValue(t DataType, value any) (*string, error) {
	if value == nil {
		return nil, nil
	}
	s, err := formatPartition(t, value)
	if err != nil {
		return nil, fmt.Errorf("partition value of type %v: %w", t, err)
	}
	if s == "" {
		return nil, nil
	}
	return &s, nil
}

func formatPartition(t DataType, value any) (string, error) {
	if d, ok := t.(Decimal); ok {
		v, ok := value.(*big.Int)
		if !ok {
			return "", mismatch(value)
		}
		return formatDecimal(v, d)
	}
	switch t {
	case Byte, Short, Integer, Long:
		return formatInteger(t, value)
	case Float:
		if v, ok := value.(float32); ok {
			return javaFloat(float64(v), 32), nil
		}
	case Double:
		if v, ok := value.(float64); ok {
			return javaFloat(v, 64), nil
		}
	case Boolean:
		if v, ok := value.(bool); ok {
			return strconv.FormatBool(v), nil
		}
	case String:
		if v, ok := value.(string); ok {
			return partitionText(v)
		}
	case Binary:
		if v, ok := value.([]byte); ok {
			return partitionText(string(v))
		}
	case Date, Timestamp, TimestampNTZ:
		if v, ok := value.(time.Time); ok {
			return formatTime(t, v)
		}
	default:
		return "", errors.New("the type cannot be a partition column's")
	}
	return "", mismatch(value)
}

func mismatch(value any) error { return fmt.Errorf("a %T is not a value of it", value) }

func formatInteger(t DataType, value any) (string, error) {
	var v int64
	switch x := value.(type) {
	case int8:
		v = int64(x)
	case int16:
		v = int64(x)
	case int32:
		v = int64(x)
	case int64:
		v = x
	case int:
		v = int64(x)
	default:
		return "", mismatch(value)
	}
	limit := int64(math.MaxInt64)
	switch t {
	case Byte:
		limit = math.MaxInt8
	case Short:
		limit = math.MaxInt16
	case Integer:
		limit = math.MaxInt32
	}
	if v > limit || v < -limit-1 {
		return "", fmt.Errorf("%d does not fit", v)
	}
	return strconv.FormatInt(v, 10), nil
}

// partitionText refuses what cannot be the name of a folder, and bytes that JSON cannot hold.
func partitionText(s string) (string, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return "", errors.New("a zero byte cannot be in a partition value")
	}
	if !utf8.ValidString(s) {
		return "", errors.New("bytes that are not UTF-8 cannot be in a partition value")
	}
	return s, nil
}

func formatTime(t DataType, v time.Time) (string, error) {
	v = v.UTC()
	if v.Year() < 1 || v.Year() > 9999 {
		return "", fmt.Errorf("year %d is not between 1 and 9999", v.Year())
	}
	switch t {
	case Date:
		return v.Format(layoutDate), nil
	case TimestampNTZ:
		return v.Format(layoutNTZ), nil
	}
	return v.Format(layoutUTC), nil
}

// javaFloat writes a number as Java does: with a point always, and an exponent outside of [1e-3, 1e7).
func javaFloat(v float64, size int) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	if a := math.Abs(v); a == 0 || a >= 1e-3 && a < 1e7 {
		s := strconv.FormatFloat(v, 'f', -1, size)
		if strings.IndexByte(s, '.') < 0 {
			s += ".0"
		}
		return s
	}
	digits, exp, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, size), "e")
	if strings.IndexByte(digits, '.') < 0 {
		digits += ".0"
	}
	n, err := strconv.Atoi(exp)
	if err != nil {
		return digits + "E" + exp
	}
	return digits + "E" + strconv.Itoa(n)
}

func formatDecimal(v *big.Int, d Decimal) (string, error) {
	digits := new(big.Int).Abs(v).String()
	if v.Sign() != 0 && len(digits) > int(d.Precision) {
		return "", fmt.Errorf("%v has more than %d digits", v, d.Precision)
	}
	if pad := int(d.Scale) + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	sign := ""
	if v.Sign() < 0 {
		sign = "-"
	}
	if d.Scale == 0 {
		return sign + digits, nil
	}
	point := len(digits) - int(d.Scale)
	return sign + digits[:point] + "." + digits[point:], nil
}

// ParsePartitionValue reads what partitionValues holds, as the Go types of FormatPartitionValue. No value, the empty
// text and the name of Hive's null folder are null (nil) for every type. A timestamp without a zone is taken as UTC.
func ParsePartitionValue(t DataType, value *string) (any, error) {
	if value == nil || *value == "" || *value == hiveNull {
		return nil, nil
	}
	v, err := parsePartition(t, *value)
	if err != nil {
		return nil, fmt.Errorf("partition value %q of type %v: %w", *value, t, err)
	}
	return v, nil
}

func parsePartition(t DataType, s string) (any, error) {
	if d, ok := t.(Decimal); ok {
		return parseDecimal(s, d)
	}
	switch t {
	case Byte:
		v, err := strconv.ParseInt(strings.TrimSpace(s), 10, 8)
		return int8(v), err
	case Short:
		v, err := strconv.ParseInt(strings.TrimSpace(s), 10, 16)
		return int16(v), err
	case Integer:
		v, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
		return int32(v), err
	case Long:
		return strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	case Float:
		v, err := strconv.ParseFloat(s, 32)
		return float32(v), err
	case Double:
		return strconv.ParseFloat(s, 64)
	case Boolean:
		return strconv.ParseBool(strings.ToLower(s))
	case String:
		return s, nil
	case Binary:
		return []byte(s), nil
	case Date:
		return inYear(s, func(s string) (time.Time, error) { return time.Parse(layoutDate, s) })
	case Timestamp, TimestampNTZ:
		return parsePartitionTime(s)
	}
	return nil, errors.New("the type cannot be a partition column's")
}

// inYear parses a date or time whose year may have a sign in front and more digits than four, as Java writes those before the
// year 0 and after 9999.
func inYear(s string, parse func(string) (time.Time, error)) (time.Time, error) {
	at, err := parse(s)
	if err == nil || s == "" || s[0] != '+' && s[0] != '-' {
		return at, err
	}
	end := 1 + max(0, strings.IndexByte(s[1:], '-'))
	year, bad := strconv.Atoi(s[:end])
	if bad != nil || end < 5 || end > 7 {
		return at, err
	}
	like := 2001
	if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		like = 2000 // a leap year too
	}
	if at, err = parse(strconv.Itoa(like) + s[end:]); err != nil {
		return at, err
	}
	year += at.Year() - like // a zone's offset may lead into the year beside it
	return time.Date(year, at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC), nil
}

func parsePartitionTime(s string) (time.Time, error) {
	return inYear(s, parseTime)
}

func parseTime(s string) (time.Time, error) {
	var first error
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", layoutDate} {
		at, err := time.Parse(layout, s)
		if err == nil {
			return at.UTC(), nil
		}
		if first == nil {
			first = err
		}
	}
	return time.Time{}, first
}

// parseDecimal gives the unscaled value. Java writes some decimals with an exponent: 0E-18, 1.5E-7.
func parseDecimal(s string, d Decimal) (*big.Int, error) {
	const most = 100 // digits, and exponent
	wrong := errors.New("not a decimal number")
	body, exp := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var err error
		if exp, err = strconv.Atoi(s[i+1:]); err != nil || exp > most || exp < -most {
			return nil, wrong
		}
		body = s[:i]
	}
	whole, frac, _ := strings.Cut(body, ".")
	v, ok := new(big.Int), len(body) <= most && !strings.ContainsAny(frac, "+-")
	if ok {
		v, ok = v.SetString(whole+frac, 10)
	}
	if !ok {
		return nil, wrong
	}
	up := int(d.Scale) + exp - len(frac)
	ten := func(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
	if up >= 0 {
		v.Mul(v, ten(up))
	} else if _, rest := v.QuoRem(v, ten(-up), new(big.Int)); rest.Sign() != 0 {
		return nil, fmt.Errorf("more than %d digits behind the point", d.Scale)
	}
	if v.CmpAbs(ten(int(d.Precision))) >= 0 {
		return nil, fmt.Errorf("more than %d digits", d.Precision)
	}
	return v, nil
}

// PartitionFolder gives the folder of a partition value in Hive's manner, column=value, as it is called in the store;
// the log holds EncodePath of it. Values come as partitionValues hold them. Folders have no meaning to readers.
func PartitionFolder(column string, t DataType, value *string) string {
	text := hiveNull
	if value != nil && *value != "" {
		text = *value
		if t == Timestamp || t == TimestampNTZ {
			if at, err := parsePartitionTime(text); err == nil {
				text = strings.TrimSuffix(at.Format(layoutNTZ), ".000000")
			}
		}
		text = EscapePartition(text)
	}
	return EscapePartition(column) + "=" + text
}
