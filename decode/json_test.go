package decode

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/column"
)

var (
	utc   = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	local = &arrow.TimestampType{Unit: arrow.Microsecond}
)

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

func newTestJSON(t testing.TB, opts JSONOptions, fields ...arrow.Field) *JSON {
	t.Helper()
	d, err := NewJSON(arrow.NewSchema(fields, nil), opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// oneValue decodes a value in the column x of type dt and gives what arrow prints for it, or the error.
func oneValue(t *testing.T, opts JSONOptions, dt arrow.DataType, value string) (string, *Error) {
	t.Helper()
	d := newTestJSON(t, opts, field("x", dt))
	err := d.Append([]byte(`{"x":` + value + `}`))
	if err == nil {
		if d.Rows() != 1 || d.Arrays()[0].Len() != 1 {
			t.Fatalf("%s: %d rows", value, d.Rows())
		}
		if d.Arrays()[0].IsNull(0) {
			return "NULL", nil
		}
		return d.Arrays()[0].ValueStr(0), nil
	}
	var bad *Error
	if !errors.As(err, &bad) {
		t.Fatalf("%s: error %v is not an *Error", value, err)
	}
	if d.Rows() != 0 || d.Arrays()[0].Len() != 0 {
		t.Fatalf("%s: rows left after an error", value)
	}
	return "", bad
}

func TestJSONValues(t *testing.T) {
	point := arrow.StructOf(field("a", arrow.PrimitiveTypes.Int64), field("b", arrow.BinaryTypes.String))
	props := arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64)
	dec := &arrow.Decimal128Type{Precision: 6, Scale: 2}
	wide := &arrow.Decimal128Type{Precision: 38, Scale: 0}
	for _, c := range []struct {
		dt   arrow.DataType
		in   string
		want string // "" = error
	}{
		{arrow.PrimitiveTypes.Int64, "0", "0"}, {arrow.PrimitiveTypes.Int64, "-0", "0"},
		{arrow.PrimitiveTypes.Int64, "9223372036854775807", "9223372036854775807"},
		{arrow.PrimitiveTypes.Int64, "-9223372036854775808", "-9223372036854775808"},
		{arrow.PrimitiveTypes.Int64, "9223372036854775808", ""}, {arrow.PrimitiveTypes.Int64, "-9223372036854775809", ""},
		{arrow.PrimitiveTypes.Int64, "99999999999999999999999999", ""}, {arrow.PrimitiveTypes.Int64, "01", ""},
		{arrow.PrimitiveTypes.Int64, "1.0", ""}, {arrow.PrimitiveTypes.Int64, "1e3", ""}, {arrow.PrimitiveTypes.Int64, "+1", ""},
		{arrow.PrimitiveTypes.Int64, "-", ""}, {arrow.PrimitiveTypes.Int64, `"1"`, ""}, {arrow.PrimitiveTypes.Int64, "true", ""},
		{arrow.PrimitiveTypes.Int64, " \t\r\n7 ", "7"}, {arrow.PrimitiveTypes.Int64, "\v7", ""}, {arrow.PrimitiveTypes.Int64, "null", "NULL"},
		{arrow.PrimitiveTypes.Int64, "nul", ""}, {arrow.PrimitiveTypes.Int64, "", ""}, {arrow.PrimitiveTypes.Int64, "{}", ""},
		{arrow.PrimitiveTypes.Int8, "127", "127"}, {arrow.PrimitiveTypes.Int8, "128", ""}, {arrow.PrimitiveTypes.Int8, "-128", "-128"},
		{arrow.PrimitiveTypes.Int16, "-32769", ""}, {arrow.PrimitiveTypes.Int16, "32767", "32767"},
		{arrow.PrimitiveTypes.Int32, "2147483648", ""}, {arrow.PrimitiveTypes.Int32, "-2147483648", "-2147483648"},
		{arrow.PrimitiveTypes.Float64, "1", "1"}, {arrow.PrimitiveTypes.Float64, "-0.5e1", "-5"}, {arrow.PrimitiveTypes.Float64, "1e999", ""},
		{arrow.PrimitiveTypes.Float64, "1.", ""}, {arrow.PrimitiveTypes.Float64, ".5", ""}, {arrow.PrimitiveTypes.Float64, "1e", ""},
		{arrow.PrimitiveTypes.Float64, "1e-400", "0"}, {arrow.PrimitiveTypes.Float64, "NaN", ""}, {arrow.PrimitiveTypes.Float64, "123456789012345678901234567890", "1.2345678901234568e+29"},
		{arrow.PrimitiveTypes.Float32, "0.1", "0.1"}, {arrow.PrimitiveTypes.Float32, "3.5e38", ""}, {arrow.PrimitiveTypes.Float32, "16777217", "1.6777216e+07"},
		{arrow.FixedWidthTypes.Boolean, "true", "true"}, {arrow.FixedWidthTypes.Boolean, "false", "false"}, {arrow.FixedWidthTypes.Boolean, "True", ""},
		{arrow.FixedWidthTypes.Boolean, "1", ""}, {arrow.FixedWidthTypes.Boolean, "truex", ""},
		{arrow.BinaryTypes.String, `""`, ""}, {arrow.BinaryTypes.String, `"h\u00e9 \ud83d\ude00 \"\\\/\b\f\n\r\t"`, "h\u00e9 \U0001f600 \"\\/\b\f\n\r\t"},
		{arrow.BinaryTypes.String, `"\ud83d"`, ""}, {arrow.BinaryTypes.String, `"\ude00\ud83d"`, ""}, {arrow.BinaryTypes.String, `"\ud83d\u0041"`, ""},
		{arrow.BinaryTypes.String, "\"a\x01\"", ""}, {arrow.BinaryTypes.String, "\"a\xff\"", ""}, {arrow.BinaryTypes.String, "\"\xc3\\u00a9\"", ""},
		{arrow.BinaryTypes.String, `"\x"`, ""}, {arrow.BinaryTypes.String, `"\u12g4"`, ""}, {arrow.BinaryTypes.String, `"\u12`, ""}, {arrow.BinaryTypes.String, `"\`, ""},
		{arrow.BinaryTypes.String, `1`, ""}, {arrow.BinaryTypes.String, `true`, ""}, {arrow.BinaryTypes.String, `{}`, ""}, {arrow.BinaryTypes.String, `[]`, ""},
		{arrow.BinaryTypes.String, "\"\u00fc\u20ac0123456789\"", "\u00fc\u20ac0123456789"}, {arrow.BinaryTypes.String, `"a\u0000b"`, "a\x00b"},
		{arrow.BinaryTypes.Binary, `"AAEC\/w=="`, "AAEC/w=="}, {arrow.BinaryTypes.Binary, `"AAEC/w"`, ""}, {arrow.BinaryTypes.Binary, `"?"`, ""}, {arrow.BinaryTypes.Binary, "1", ""},
		{arrow.FixedWidthTypes.Date32, `"2024-02-29"`, "2024-02-29"}, {arrow.FixedWidthTypes.Date32, `"2023-02-29"`, ""}, {arrow.FixedWidthTypes.Date32, `"1969-12-31"`, "1969-12-31"},
		{arrow.FixedWidthTypes.Date32, `"2024-1-1"`, ""}, {arrow.FixedWidthTypes.Date32, `"2024-02-29T00:00:00Z"`, ""}, {arrow.FixedWidthTypes.Date32, `"0000-00-00"`, ""}, {arrow.FixedWidthTypes.Date32, "19000", ""},
		{utc, `"2024-05-06T07:08:09.123456789Z"`, "2024-05-06T07:08:09.123456Z"}, {utc, `"2024-05-06 07:08:09"`, "2024-05-06T07:08:09Z"},
		{utc, `"2024-05-06T07:08:09+02:00"`, "2024-05-06T05:08:09Z"}, {utc, `"2024-05-06T00:00:00-05:30"`, "2024-05-06T05:30:00Z"},
		{utc, `"2024-05-06T24:00:00Z"`, ""}, {utc, `"2024-05-06T07:08:60Z"`, ""}, {utc, `"2024-05-06T07:08:09.Z"`, ""}, {utc, `"2024-05-06T07:08:09+0200"`, ""},
		{utc, `"2024-05-06"`, ""}, {utc, `"2024-13-06T07:08:09Z"`, ""}, {utc, `"2024-05-06T07:08:09Zx"`, ""}, {utc, "1700000000", ""},
		{utc, `"\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000T07:08:09Z"`, ""}, {utc, `"1970-01-01T00:00:00Z"`, "1970-01-01T00:00:00Z"},
		{local, `"2024-05-06T07:08:09Z"`, "2024-05-06T07:08:09"}, {local, `"2024-05-06T07:08:09+02:00"`, ""},
		{dec, "12.34", "12.34"}, {dec, "-1234.5", "-1234.5"}, {dec, "12.345", ""}, {dec, "12.3400000", "12.34"}, {dec, "1e3", "1000"}, {dec, "1e4", ""},
		{dec, "9999.99", "9999.99"}, {dec, "10000", ""}, {dec, "1200e-4", "0.12"}, {dec, "0e100", "0"}, {dec, `"1"`, ""}, {dec, "1e999999999999", ""}, {dec, "0.000000000000000000000000000000000000000000000000", "0"},
		{wide, "99999999999999999999999999999999999999", "99999999999999999999999999999999999999"}, {wide, "100000000000000000000000000000000000000", ""},
		{wide, "-170141183460469231731687303715884105729", ""}, {wide, "999999999999999999999999999999999999999999999999999999", ""},
		{point, `{"b":"x","a":1}`, `{"a":1,"b":"x"}`}, {point, `{}`, `{"a":null,"b":null}`}, {point, `[]`, ""}, {point, `{"a":1,}`, ""}, {point, `{"a":1 "b":2}`, ""},
		{point, `{"a":1,"a":2,"c":[{"d":null}]}`, `{"a":2,"b":null}`}, {point, `{a:1}`, ""}, {point, `{"\u0061":5}`, `{"a":5,"b":null}`}, {point, `null`, "NULL"},
		{point, "{\"\x00\":1, \"a\":2      }", ""}, {point, "{\x00:1, \"a\":2          }", ""}, {point, "{A:1, \"a\":2          }", ""}, {point, "{\x00}", ""}, {point, "{\x001}", ""}, {point, `{"a":1,"c":tru}`, ""}, {point, `{"a":1,"c":"\ud800"}`, ""}, {point, `{"a" : 1 , "b" : "q" }`, `{"a":1,"b":"q"}`},
		{arrow.ListOf(arrow.PrimitiveTypes.Int64), `[1, 2,null ]`, "[1,2,null]"}, {arrow.ListOf(arrow.PrimitiveTypes.Int64), `[ ]`, "[]"}, {arrow.ListOf(arrow.PrimitiveTypes.Int64), `[1,]`, ""},
		{arrow.ListOf(arrow.PrimitiveTypes.Int64), `[1`, ""}, {arrow.ListOf(arrow.PrimitiveTypes.Int64), `["1"]`, ""}, {arrow.ListOf(point), `[{"a":1},null,{"b":"z"}]`, `[{"a":1,"b":null},null,{"a":null,"b":"z"}]`},
		{props, `{"k":1,"l":null}`, `[{"key":"k","value":1},{"key":"l","value":null}]`}, {props, `{}`, `[]`}, {props, `{"k":"v"}`, ""}, {props, `{"k":1,}`, ""}, {props, `[]`, ""},
		{props, `{"k":1,"l":2,"k":3}`, `[{"key":"l","value":2},{"key":"k","value":3}]`},
	} {
		got, bad := oneValue(t, JSONOptions{}, c.dt, c.in)
		if bad != nil && c.want != "" || bad == nil && got != c.want {
			t.Errorf("%s <- %s: got %q, want %q, error %v", c.dt, c.in, got, c.want, bad)
		}
		if bad == nil && c.want == "" && c.in != `""` {
			t.Errorf("%s <- %s: accepted as %q", c.dt, c.in, got)
		}
	}
}

func TestJSONOptions(t *testing.T) {
	dec := &arrow.Decimal128Type{Precision: 6, Scale: 2}
	for _, c := range []struct {
		opts JSONOptions
		dt   arrow.DataType
		in   string
		want string
	}{
		{JSONOptions{Epoch: EpochSeconds}, utc, "1700000000.5", "2023-11-14T22:13:20.5Z"},
		{JSONOptions{Epoch: EpochMillis}, utc, "1700000000500", "2023-11-14T22:13:20.5Z"},
		{JSONOptions{Epoch: EpochMicros}, utc, "-1", "1969-12-31T23:59:59.999999Z"},
		{JSONOptions{Epoch: EpochSeconds}, utc, "1.7e9", "2023-11-14T22:13:20Z"},
		{JSONOptions{Epoch: EpochSeconds}, utc, "1e300", ""}, {JSONOptions{Epoch: EpochSeconds}, utc, "true", ""},
		{JSONOptions{Coerce: true}, arrow.PrimitiveTypes.Int64, `"12"`, "12"}, {JSONOptions{Coerce: true}, arrow.PrimitiveTypes.Int64, `"1x"`, ""},
		{JSONOptions{Coerce: true}, arrow.PrimitiveTypes.Int64, `""`, ""}, {JSONOptions{Coerce: true}, arrow.FixedWidthTypes.Boolean, `"true"`, "true"},
		{JSONOptions{Coerce: true}, dec, `"1.5"`, "1.5"}, {JSONOptions{Coerce: true}, arrow.PrimitiveTypes.Float64, `"1.5"`, "1.5"},
		{JSONOptions{Coerce: true}, arrow.BinaryTypes.String, `1.50`, "1.50"}, {JSONOptions{Coerce: true}, arrow.BinaryTypes.String, `{"a": [1]}`, `{"a": [1]}`},
		{JSONOptions{Coerce: true}, arrow.BinaryTypes.String, `{"a": [1}`, ""}, {JSONOptions{Coerce: true}, arrow.BinaryTypes.String, `null`, "NULL"},
	} {
		got, bad := oneValue(t, c.opts, c.dt, c.in)
		if got != c.want || (bad != nil) != (c.want == "") {
			t.Errorf("%+v %s <- %s: got %q, want %q, error %v", c.opts, c.dt, c.in, got, c.want, bad)
		}
	}
	for _, o := range []JSONOptions{{MaxDepth: -1}, {Epoch: 9}} {
		if _, err := NewJSON(arrow.NewSchema(nil, nil), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestJSONWholeMessage(t *testing.T) {
	d := newTestJSON(t, JSONOptions{}, field("x", arrow.PrimitiveTypes.Int64), arrow.Field{Name: "id", Type: arrow.BinaryTypes.String})
	for _, c := range []struct{ in, want string }{
		{`{"id":"a","x":1}`, ""},
		{" {\"id\":\"a\"}\r\n", ""},
		{``, "decode value: the value is empty (byte 0)"},
		{`[]`, "decode value: the value is not a JSON object (byte 0)"},
		{`{"id":"a"} x`, "decode value: data after the JSON object (byte 11)"},
		{`{"x":1}`, "decode value: id: missing, but the column may not be null (byte 6)"},
		{`{"id":null}`, "decode value: id: null, but the column may not be null (byte 6)"},
		{`{"id":"a","x":"1"}`, "decode value: x: a string does not fit a column of type int64 (byte 14)"},
		{`{"id":"a","other":[1,{"y":tru}]}`, "decode value: other: unexpected 't', want a value (byte 26)"},
		{`{"id":"a"`, "decode value: the JSON ends before ',' or '}' (byte 9)"},
	} {
		d.Reset()
		err := d.Append([]byte(c.in))
		if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
			t.Errorf("%s\ngot  %s\nwant %s", c.in, got, c.want)
		}
		if rows := d.Rows(); (err == nil) != (rows == 1) {
			t.Errorf("%s: %d rows, error %v", c.in, rows, err)
		}
	}
	var bad *Error
	if err := d.Append(nil); !errors.As(err, &bad) || bad.Path != "id" {
		t.Errorf("tombstone with a required column: %v", err)
	}
}

func TestJSONErrorPath(t *testing.T) {
	item := arrow.StructOf(field("tags", arrow.ListOf(arrow.PrimitiveTypes.Int32)))
	d := newTestJSON(t, JSONOptions{}, field("order", arrow.StructOf(field("items", arrow.ListOf(item)))))
	err := d.Append([]byte(`{"order":{"items":[{"tags":[1]},{"tags":[1,2,"x"]}]}}`))
	var bad *Error
	if !errors.As(err, &bad) || bad.Path != "order.items[1].tags[2]" || bad.Pos != 45 {
		t.Fatalf("%#v", err)
	}
	if n := d.Arrays()[0].Data().Children()[0].Children()[0].Len(); n != 0 { // I7
		t.Fatalf("%d list elements left of a bad row", n)
	}
}

// I8: nesting, wide rows made of nothing and keys without end do not take memory out of proportion.
func TestJSONBounds(t *testing.T) {
	d := newTestJSON(t, JSONOptions{}, field("x", arrow.PrimitiveTypes.Int64))
	deep := func(n int) []byte {
		return []byte(`{"u":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	if err := d.Append(deep(127)); err != nil {
		t.Errorf("depth 128: %v", err)
	}
	for _, n := range []int{128, 1 << 20} {
		if err := d.Append(deep(n)); err == nil {
			t.Errorf("depth %d accepted", n+1)
		}
	}
	for i := range 100000 {
		if err := d.Append(fmt.Appendf(nil, `{"k%d":1}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if d.root.keys > maxLearned+1 {
		t.Errorf("%d keys learned", d.root.keys)
	}
	var wide []arrow.Field
	for i := range 1000 {
		wide = append(wide, field(fmt.Sprint("f", i), arrow.PrimitiveTypes.Int64))
	}
	d = newTestJSON(t, JSONOptions{}, field("x", arrow.ListOf(arrow.StructOf(wide...))))
	for _, elem := range []string{"{},", "null,"} {
		msg := `{"x":[` + strings.Repeat(elem, 100000) + `{}]}`
		if err := d.Append([]byte(msg)); err == nil {
			t.Errorf("%d bytes became %d bytes", len(msg), d.Bytes())
		}
	}
}

func TestJSONTombstoneAndReset(t *testing.T) {
	var d Decoder = newTestJSON(t, JSONOptions{}, field("x", arrow.PrimitiveTypes.Int64), field("l", arrow.ListOf(arrow.BinaryTypes.String)))
	if err := d.Append(nil); err != nil {
		t.Fatal(err)
	}
	d.AppendNull()
	for _, a := range d.Arrays() {
		if a.Len() != 2 || a.NullN() != 2 {
			t.Errorf("%v", a)
		}
	}
	if err := d.Append([]byte{}); err == nil {
		t.Error("an empty value is not a tombstone")
	}
	d.Reset()
	if d.Rows() != 0 || d.Arrays()[1].Len() != 0 {
		t.Error("rows after Reset")
	}
}

func TestRaw(t *testing.T) {
	d := NewRaw()
	if err := d.Append([]byte("any")); err != nil {
		t.Fatal(err)
	}
	d.AppendNull()
	if d.Rows() != 2 || d.Arrays() != nil {
		t.Fatal(d.Rows(), d.Arrays())
	}
	d.Reset()
	if d.Rows() != 0 {
		t.Fatal("rows after Reset")
	}
}

// Keys that need escapes, are equal in length and ends, or are not of the schema are told apart.
func TestJSONKeys(t *testing.T) {
	names := []string{`a"b`, "", "abcdefgh0ijklmnop", "abcdefgh1ijklmnop", "x", "\u00e9", "customer_address_line1", "customer_address_line2"}
	var fields []arrow.Field
	for _, n := range names {
		fields = append(fields, field(n, arrow.PrimitiveTypes.Int64))
	}
	d := newTestJSON(t, JSONOptions{}, fields...)
	for range 3 { // again with what was learned
		if err := d.Append([]byte(`{"customer_address_line2":8,"\u00e9":6,"customer_address_line1":7,"abcdefgh1ijklmnop":4,"X":9,"a\"b":1,"":2,"\u0078":5,"abcdefgh0ijklmnop":3,"abcdefgh2ijklmnop":0}`)); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range d.Arrays() {
		for row := range 3 {
			if got := a.ValueStr(row); got != fmt.Sprint(i+1) {
				t.Errorf("column %q row %d: %s", names[i], row, got)
			}
		}
	}
	if _, err := NewJSON(arrow.NewSchema([]arrow.Field{field("x", utc), field("x", utc)}, nil), JSONOptions{}); !errors.Is(err, ErrOptions) {
		t.Errorf("two columns of one name: %v", err)
	}
}

func TestInferJSON(t *testing.T) {
	s, err := InferJSON([][]byte{
		[]byte(`{"id":1,"name":"a","at":"2024-01-02T03:04:05Z","ok":true,"n":null,"tags":[],"geo":{"lat":1,"lon":2.5},"mix":1,"e":{}}`),
		[]byte(`not json`), []byte(`[1]`),
		[]byte(`{"geo":{"alt":1,"lat":0.5},"tags":["x",null],"id":2,"at":"2024-01-02T03:04:05.5+01:00","mix":"x","late":[{"q":1},{"r":"s"}],"big":18446744073709551616}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range s.Fields() {
		if !f.Nullable {
			t.Errorf("%s is not nullable", f.Name)
		}
		got = append(got, f.Name+" "+f.Type.String())
	}
	want := `id int64
name utf8
at timestamp[us, tz=UTC]
ok bool
n utf8
tags list<item: utf8, nullable>
geo struct<lat: float64 nullable, lon: float64 nullable, alt: int64 nullable>
mix utf8
e map<utf8, utf8, items_nullable>
late list<item: struct<q: int64 nullable, r: utf8 nullable>, nullable>
big float64`
	if g := strings.Join(got, "\n"); g != want {
		t.Errorf("got\n%s\nwant\n%s", g, want)
	}
	if _, err := NewJSON(s, JSONOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := InferJSON([][]byte{[]byte(`{}`), []byte(`x`), nil}); !errors.Is(err, ErrNoSamples) {
		t.Error(err)
	}
}

func TestDateCache(t *testing.T) {
	c := newDateCache()
	at := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	for want := at.Unix() / 86400; at.Year() < 10000; want++ {
		text := at.AppendFormat(nil, time.DateOnly)
		for range 2 {
			if got, ok := c.days(text); !ok || got != want {
				t.Fatalf("%s is day %d, %v; want %d", text, got, ok, want)
			}
		}
		at = at.AddDate(0, 0, 1)
	}
	for _, text := range []string{"1900-02-29", "2100-02-29", "2024-02-30", "2024-04-31", "2024-00-10", "2024-01-00", "2024/01/01", "2024-01", "20x4-01-01", ""} {
		if _, ok := c.days([]byte(text)); ok {
			t.Errorf("%q is taken for a date", text)
		}
	}
}

func TestJSONFull(t *testing.T) {
	d := newTestJSON(t, JSONOptions{}, field("x", arrow.PrimitiveTypes.Int64))
	d.used = column.MaxData - 7
	if err := d.Append([]byte(`{"x":12}`)); !errors.Is(err, ErrFull) || d.Rows() != 0 {
		t.Fatalf("%v, %d rows", err, d.Rows())
	}
	if err := d.Append([]byte(`{"x":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := d.Append(nil); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	d.Reset()
	if err := d.Append([]byte(`{"x":12}`)); err != nil {
		t.Fatal(err)
	}
}

// Schemas come from foreign tables: what has no column or no JSON form is refused, not guessed (I8).
func TestNewJSONRefuses(t *testing.T) {
	for _, dt := range []arrow.DataType{
		arrow.PrimitiveTypes.Uint32, arrow.ListOf(arrow.FixedWidthTypes.Time64us), arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String),
		&arrow.Decimal128Type{Precision: 4, Scale: -2}, arrow.StructOf(field("x", arrow.MapOf(arrow.BinaryTypes.Binary, utc))),
	} {
		_, err := NewJSON(arrow.NewSchema([]arrow.Field{field("c", dt)}, nil), JSONOptions{})
		if !errors.Is(err, ErrOptions) && !errors.Is(err, column.ErrUnsupported) {
			t.Errorf("%s: %v", dt, err)
		}
	}
}
