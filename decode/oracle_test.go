package decode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The oracle says by encoding/json, package time and big numbers what the decoder must do with a message.

type member struct {
	key string
	val any
}

type (
	objectTree []member
	listTree   []any
)

var errOracle = errors.New("does not fit")

// oracle gives the row that a message must become, or an error when it must be refused.
func oracle(schema *arrow.Schema, msg []byte) ([]any, error) {
	if !json.Valid(msg) || !utf8.Valid(msg) || loneSurrogate(msg) {
		return nil, errOracle
	}
	dec := json.NewDecoder(bytes.NewReader(msg))
	dec.UseNumber()
	tree, err := readTree(dec, 0)
	if err != nil {
		return nil, err
	}
	o, ok := tree.(objectTree)
	if !ok {
		return nil, errOracle
	}
	return fitFields(schema.Fields(), o)
}

func readTree(dec *json.Decoder, depth int) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if depth++; depth > 128 {
		return nil, errOracle
	}
	o, l := objectTree{}, listTree{}
	for dec.More() {
		var p member
		if delim == '{' {
			k, err := dec.Token()
			if err != nil {
				return nil, err
			}
			p.key = k.(string)
		}
		if p.val, err = readTree(dec, depth); err != nil {
			return nil, err
		}
		o, l = append(o, p), append(l, p.val)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if delim == '{' {
		return o, nil
	}
	return l, nil
}

func loneSurrogate(msg []byte) bool {
	for i := 0; i+1 < len(msg); i++ {
		if msg[i] != '\\' {
			continue
		}
		if i++; msg[i] != 'u' {
			continue
		}
		r, _ := strconv.ParseUint(string(msg[i+1:i+5]), 16, 32)
		i += 4
		if !utf16.IsSurrogate(rune(r)) {
			continue
		}
		if r >= 0xdc00 || i+6 >= len(msg) || msg[i+1] != '\\' || msg[i+2] != 'u' {
			return true
		}
		low, _ := strconv.ParseUint(string(msg[i+3:i+7]), 16, 32)
		if low < 0xdc00 || low > 0xdfff {
			return true
		}
		i += 6
	}
	return false
}

func fitFields(fields []arrow.Field, o objectTree) ([]any, error) {
	row := make([]any, len(fields))
	for i, f := range fields {
		found := false
		for _, p := range o {
			if p.key != f.Name {
				continue
			}
			v, err := fit(f, p.val)
			if err != nil {
				return nil, err
			}
			row[i], found = v, true
		}
		if !found && !f.Nullable {
			return nil, errOracle
		}
	}
	return row, nil
}

var timeForm = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d(\.\d+)?)([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)?$`)

func fitTime(t *arrow.TimestampType, s string) (any, error) {
	if day, err := time.Parse(time.DateOnly, s); err == nil && t.TimeZone == "" {
		return day.UnixMicro(), nil // midnight, as of a column of dates that became wider
	}
	m := timeForm.FindStringSubmatch(s)
	if m == nil {
		return nil, errOracle
	}
	zone := strings.ToUpper(m[4])
	if zone == "" {
		zone = "Z"
	}
	at, err := time.Parse(time.RFC3339, m[1]+"T"+m[2]+zone)
	if err != nil {
		return nil, errOracle
	}
	if _, offset := at.Zone(); offset != 0 && t.TimeZone == "" {
		return nil, errOracle
	}
	return at.UnixMicro(), nil
}

func fitDecimal(t *arrow.Decimal128Type, s string) (any, error) {
	mant, exp, _ := strings.Cut(strings.ToLower(s), "e")
	if e, err := strconv.Atoi(exp); exp != "" && (err != nil || e > 1000 || e < -1000) {
		if strings.Trim(mant, "-0.") == "" {
			return "0", nil
		}
		return nil, errOracle
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, errOracle
	}
	pow := func(n int32) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
	r.Mul(r, new(big.Rat).SetInt(pow(t.Scale)))
	if !r.IsInt() || r.Num().CmpAbs(pow(t.Precision)) >= 0 {
		return nil, errOracle
	}
	return r.Num().String(), nil
}

func fit(f arrow.Field, v any) (any, error) {
	if v == nil {
		if !f.Nullable {
			return nil, errOracle
		}
		return nil, nil
	}
	num, isNum := v.(json.Number)
	str, isStr := v.(string)
	switch t := f.Type.(type) {
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		if isNum {
			return strconv.ParseInt(num.String(), 10, t.(arrow.FixedWidthDataType).BitWidth())
		}
	case *arrow.Float64Type, *arrow.Float32Type:
		if isNum {
			return strconv.ParseFloat(num.String(), t.(arrow.FixedWidthDataType).BitWidth())
		}
	case *arrow.BooleanType:
		if b, ok := v.(bool); ok {
			return b, nil
		}
	case *arrow.StringType:
		if isStr {
			return str, nil
		}
	case *arrow.BinaryType:
		if isStr {
			b, err := base64.StdEncoding.DecodeString(str)
			return string(b), err
		}
	case *arrow.Date32Type:
		if isStr {
			at, err := time.Parse(time.DateOnly, str)
			return int64(arrow.Date32FromTime(at)), err
		}
	case *arrow.TimestampType:
		if isStr {
			return fitTime(t, str)
		}
	case *arrow.Decimal128Type:
		if isNum {
			return fitDecimal(t, num.String())
		}
	case *arrow.StructType:
		if o, ok := v.(objectTree); ok {
			row, err := fitFields(t.Fields(), o)
			return row, err
		}
	case *arrow.ListType:
		if l, ok := v.(listTree); ok {
			return fitList(t.ElemField(), l)
		}
	case *arrow.MapType:
		if o, ok := v.(objectTree); ok {
			return fitMap(t.ItemField(), o)
		}
	}
	return nil, errOracle
}

func fitList(elem arrow.Field, l listTree) (any, error) {
	out := []any{}
	for _, e := range l {
		v, err := fit(elem, e)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func fitMap(item arrow.Field, o objectTree) (any, error) {
	last := map[string]int{}
	for i, p := range o {
		last[p.key] = i
	}
	out := []any{}
	for i, p := range o {
		v, err := fit(item, p.val)
		if err != nil {
			return nil, err
		}
		if last[p.key] == i {
			out = append(out, []any{p.key, v})
		}
	}
	return out, nil
}

// cell reads a value back from an array in the form that fit gives.
func cell(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int8:
		return int64(a.Value(i))
	case *array.Int16:
		return int64(a.Value(i))
	case *array.Int32:
		return int64(a.Value(i))
	case *array.Int64:
		return a.Value(i)
	case *array.Float32:
		return float64(a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.Boolean:
		return a.Value(i)
	case *array.String:
		return a.Value(i)
	case *array.Binary:
		return string(a.Value(i))
	case *array.Date32:
		return int64(a.Value(i))
	case *array.Timestamp:
		return int64(a.Value(i))
	case *array.Decimal128:
		return a.Value(i).BigInt().String()
	case *array.Struct:
		row := make([]any, a.NumField())
		for f := range row {
			row[f] = cell(a.Field(f), i)
		}
		return row
	case *array.Map:
		return elements(a.ListValues(), a.Offsets(), i)
	case *array.List:
		return elements(a.ListValues(), a.Offsets(), i)
	}
	return fmt.Sprintf("no model of %T", a)
}

func elements(values arrow.Array, offsets []int32, i int) []any {
	out := []any{}
	for j := offsets[i]; j < offsets[i+1]; j++ {
		out = append(out, cell(values, int(j)))
	}
	return out
}

// judge appends a message and compares the verdict with the oracle's. It gives the row when there is one.
func judge(d *JSON, msg []byte) ([]any, error) {
	rows := d.Rows()
	want, refuse := oracle(d.Schema(), msg)
	err := d.Append(msg)
	var bad *Error
	switch {
	case err != nil && !errors.As(err, &bad):
		return nil, fmt.Errorf("not an *Error: %w\nmessage %q", err, msg)
	case err == nil && refuse != nil:
		return nil, fmt.Errorf("accepted, but: %w\nmessage %q", refuse, msg)
	case err != nil && refuse == nil:
		return nil, fmt.Errorf("refused: %w\nmessage %q", err, msg)
	case err != nil && (bad.Pos < 0 || bad.Pos > len(msg) || bad.Reason == ""):
		return nil, fmt.Errorf("error without a place: %#v\nmessage %q", bad, msg)
	}
	if err == nil {
		rows++
	}
	if d.Rows() != rows {
		return nil, fmt.Errorf("%d rows, want %d\nmessage %q", d.Rows(), rows, msg)
	}
	return want, nil
}

// compare checks that the rows of the decoder are exactly those wanted.
func compare(d *JSON, want [][]any) error {
	arrays := d.Arrays()
	if d.Rows() != len(want) {
		return fmt.Errorf("%d rows, want %d", d.Rows(), len(want))
	}
	for c, a := range arrays {
		if a.Len() != len(want) {
			return fmt.Errorf("column %d has %d rows, want %d", c, a.Len(), len(want))
		}
		for r, row := range want {
			if got := cell(a, r); !reflect.DeepEqual(got, row[c]) {
				return fmt.Errorf("row %d column %s: got %#v, want %#v", r, d.Schema().Field(c).Name, got, row[c])
			}
		}
	}
	return nil
}
