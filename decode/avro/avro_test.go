package avro_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	lib "github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/avro"
	"github.com/ledgerlake/ledgerlake/decode/decodetest"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

func rec(fields string) string { return `{"type":"record","name":"R","fields":[` + fields + `]}` }

// decimalType is a type that little fits.
var decimalType = &arrow.Decimal128Type{Precision: 10, Scale: 2}

func one(name string, typ arrow.DataType, nullable bool) *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: name, Type: typ, Nullable: nullable}}, nil)
}

func rawDecoder(t testing.TB, schema string, payload *arrow.Schema) decode.Decoder {
	t.Helper()
	f, err := avro.Raw(schema)
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.NewDecoder(payload)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What a value of one type becomes in a column of another.
func TestTypesGoIntoColumns(t *testing.T) {
	i := arrow.PrimitiveTypes
	ts := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	for _, c := range []struct {
		avro string
		v    any
		to   arrow.DataType
		want string // "error: ..." for a bad value, "type" when the types do not go together
	}{
		{`"int"`, int32(7), i.Int8, "7"},
		{`"int"`, int32(128), i.Int8, "error: 128 is out of the range of int8"},
		{`"long"`, int64(1 << 40), i.Int32, "error: 1099511627776 is out of the range of int32"},
		{`"long"`, int64(-3), i.Int16, "-3"},
		{`"long"`, int64(3), i.Float64, "f:4008000000000000"},
		{`"int"`, int32(3), &arrow.Decimal128Type{Precision: 4, Scale: 2}, "3.00"},
		{`"int"`, int32(300), &arrow.Decimal128Type{Precision: 4, Scale: 2}, "error: 300 is out of the range of decimal(4, 2)"},
		{`"int"`, int32(3), arrow.BinaryTypes.String, "type"},
		{`"float"`, float32(1.5), i.Float64, "f:3ff8000000000000"},
		{`"double"`, 1e300, i.Float32, "error: the number is out of the range of float32"},
		{`"double"`, 1.0, i.Int64, "type"},
		{`"string"`, "x", arrow.BinaryTypes.Binary, "78"},
		{`"bytes"`, []byte("x"), arrow.BinaryTypes.String, "x"},
		{`"bytes"`, []byte{0xff}, arrow.BinaryTypes.String, "error: the bytes are not UTF-8"},
		{`{"type":"long","logicalType":"timestamp-millis"}`, int64(-1), ts, "-1000"},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, int64(-1), ts, "-1"},
		{`{"type":"long","logicalType":"timestamp-millis"}`, int64(1) << 60, ts, "error: 1152921504606846976 is out of the range of timestamp"},
		{`{"type":"long","logicalType":"timestamp-millis"}`, int64(5), i.Int64, "5"},
		{`"long"`, int64(5), ts, "type"},
		{`{"type":"long","logicalType":"local-timestamp-millis"}`, int64(5), ts, "type"},
		{`{"type":"int","logicalType":"date"}`, int32(-5), arrow.FixedWidthTypes.Date32, "-5"},
		{`["null","int","long"]`, int64(5), i.Int64, "5"},
		{`["int","string"]`, "x", arrow.BinaryTypes.String, "type"},
		{`{"type":"array","items":"int"}`, []int32{1}, i.Int32, "type"},
	} {
		schema := rec(`{"name":"x","type":` + c.avro + `}`)
		s := lib.MustParse(schema)
		b, err := s.Encode(map[string]any{"x": c.v})
		if err != nil {
			t.Fatalf("%s: %v", c.avro, err)
		}
		f, err := avro.Raw(schema)
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.NewDecoder(one("x", c.to, true))
		if err != nil {
			if c.want != "type" || !strings.Contains(err.Error(), "x: the schema has") {
				t.Errorf("%s to %s: %v", c.avro, c.to, err)
			}
			continue
		}
		got := ""
		if err := d.Append(b); err != nil {
			var bad *decode.Error
			if !errors.As(err, &bad) || bad.Path != "x" {
				t.Errorf("%s to %s: %v", c.avro, c.to, err)
			}
			got = "error: " + bad.Reason
		} else {
			got = fmt.Sprint(decodetest.Plain(d.Arrays()[0], 0))
		}
		if got != c.want {
			t.Errorf("%s to %s: %q, want %q", c.avro, c.to, got, c.want)
		}
	}
}

// A row that is bad half-way leaves nothing, and says where (I7).
func TestBadMessagesLeaveNothing(t *testing.T) {
	schema := rec(`{"name":"a","type":"long"},{"name":"skipped","type":"string"},
		{"name":"l","type":{"type":"array","items":{"type":"record","name":"E","fields":[{"name":"s","type":"string"},{"name":"n","type":["null","int"]}]}}},
		{"name":"m","type":{"type":"map","values":"boolean"}}`)
	f, err := avro.Raw(schema)
	if err != nil {
		t.Fatal(err)
	}
	columns := arrow.NewSchema([]arrow.Field{
		{Name: "m", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.FixedWidthTypes.Boolean), Nullable: true},
		{Name: "l", Type: arrow.ListOf(arrow.StructOf(
			arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: false},
			arrow.Field{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "more", Type: arrow.BinaryTypes.String, Nullable: true})), Nullable: true},
		{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	d, err := f.NewDecoder(columns)
	if err != nil {
		t.Fatal(err)
	}
	good := "\x02\x02z\x04\x02x\x02\x04\x02y\x02\x06\x00\x02\x02k\x01\x00"
	if err := d.Append([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for i := range len(good) {
		if err := d.Append([]byte(good[:i])); err == nil {
			t.Errorf("the first %d bytes are taken", i)
		}
	}
	for value, want := range map[string]string{
		good + "\x00": "decode value: 1 bytes after the last field (byte 18)",
		"\x02\x02z\x04\x02x\x02\x04\x02y\x00\x06":                     "decode value: l[1].n: null, but the column may not be null (byte 11)",
		"\x02\x02z\x04\x02x\x02\x04\x02\xff\x02\x06\x00":              "decode value: l[1].s: the bytes are not UTF-8 (byte 9)",
		"\x02\x02z\x02\x02x\x04\x00":                                  "decode value: l[0].n: the union has no branch 2, only 2 (byte 6)",
		"\x02\x02z\x00\x04\x02k\x01\x02k\x00\x00":                     "decode value: m: a key of the map occurs twice (byte 12)",
		"\x02\x02z\x00\x02\x02k\x02":                                  "decode value: m[0]: the boolean is 2, not 0 or 1 (byte 7)",
		"\x02\x02z\xfe\xff\xff\xff\x0f":                               "decode value: l: a block of 2147483647 elements is longer than the value (byte 3)",
		"\x02\x01":                                                    "decode value: the length -1 is negative (byte 1)",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff":                "decode value: a: a number has more than 10 bytes (byte 0)",
		"\x02\x02z\x01\x06\x02x\x02\x04\x00\x00":                      "decode value: l: a block of 3 bytes has 4 (byte 9)",
		"\x02\x02z\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00xx": "decode value: l: a block of 9223372036854775808 elements is longer than the value (byte 3)",
	} {
		var bad *decode.Error
		if err := d.Append([]byte(value)); !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("Append(%x)\n got %v\nwant %v", value, err, want)
		}
	}
	if err := d.Append([]byte(good)); err != nil {
		t.Fatal(err)
	}
	if err := d.Append(nil); err != nil {
		t.Fatal(err)
	}
	if d.Rows() != 3 {
		t.Fatalf("%d rows, want 3", d.Rows())
	}
	want := `[map[k:false] [map[more:<nil> n:1 s:x] map[more:<nil> n:3 s:y]] 1]`
	want = strings.Replace(strings.Replace(want, "n:1", "n:2", 1), "k:false", "k:true", 1)
	for i := range 2 {
		var row []any
		for _, a := range d.Arrays() {
			row = append(row, decodetest.Plain(a, i))
		}
		if got := fmt.Sprint(row); got != want {
			t.Errorf("row %d is %s, want %s", i, got, want)
		}
	}
}

// I8: elements that take no bytes are bounded, and so is what a few bytes fill with nulls.
func TestFewBytesDoNotFillMuch(t *testing.T) {
	var wide []arrow.Field
	for i := range 1000 {
		wide = append(wide, arrow.Field{Name: fmt.Sprint("w", i), Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	for name, c := range map[string]struct {
		schema string
		typ    arrow.DataType
		value  string
	}{
		"null elements":   {`{"type":"array","items":"null"}`, arrow.ListOf(arrow.PrimitiveTypes.Int64), "\xfe\xff\xff\xff\x0f\x00"},
		"skipped":         {`{"type":"array","items":"null"}`, nil, "\xfe\xff\xff\xff\x0f\x00"},
		"wide and empty":  {`{"type":"array","items":{"type":"record","name":"E","fields":[{"name":"b","type":"boolean"}]}}`, arrow.ListOf(arrow.StructOf(wide...)), "\x80\x80\x01" + strings.Repeat("\x00", 9000)},
		"wide and null":   {`{"type":"array","items":["null",{"type":"record","name":"E","fields":[{"name":"b","type":"boolean"}]}]}`, arrow.ListOf(arrow.StructOf(wide...)), "\x80\x80\x01" + strings.Repeat("\x00", 9000)},
		"deep and empty":  {`{"type":"record","name":"E","fields":[{"name":"e","type":["null","E"]}]}`, nil, strings.Repeat("\x02", 100000)},
		"empty in blocks": {`{"type":"array","items":{"type":"fixed","name":"F","size":0}}`, arrow.ListOf(arrow.BinaryTypes.Binary), strings.Repeat("\xfe\xff\xff\x01", 1000) + "\x00"},
	} {
		payload := one("other", arrow.PrimitiveTypes.Int64, true)
		if c.typ != nil {
			payload = one("x", c.typ, true)
		}
		f, err := avro.Raw(rec(`{"name":"x","type":` + c.schema + `}`))
		if err != nil {
			if name == "empty in blocks" {
				continue // the library refuses a fixed of no bytes
			}
			t.Fatal(err)
		}
		d, err := f.NewDecoder(payload)
		if err != nil {
			t.Fatal(err)
		}
		var bad *decode.Error
		if err := d.Append([]byte(c.value)); !errors.As(err, &bad) {
			t.Errorf("%s: Append = %v, want a bad value", name, err)
		}
	}
}

func TestColumnsThatCannotBe(t *testing.T) {
	for schema, want := range map[string]string{
		rec(`{"name":"a","type":["null","R"]}`):                                            "a: record R is recursive",
		rec(`{"name":"a","type":["null","int","string"]}`):                                 "a is a union of [null int string]",
		rec(`{"name":"a","type":{"type":"array","items":["int","string"]}}`):               "a[] is a union of [int string]",
		rec(`{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":50}}`): "a is a decimal of 50 digits",
		rec(`{"name":"a","type":{"type":"record","name":"E","fields":[]}}`):                "a: record E has no fields",
		rec(``): "record R has no fields",
		rec(`{"name":"a","type":{"type":"map","values":"null"}}`): "a holds nothing but null",
	} {
		f, err := avro.Raw(schema)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Columns(t.Context(), nil); !errors.Is(err, avro.ErrSchema) || !strings.Contains(err.Error(), want) {
			t.Errorf("Columns of %s = %v, want %q", schema, err, want)
		}
		// The table leads: beside the field that cannot be, others are read.
		if _, err := f.NewDecoder(one("other", arrow.BinaryTypes.String, true)); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{`"int"`, `{`, rec(`{"name":"a","type":"Nothing"}`), `["null"]`} {
		if _, err := avro.Raw(bad); !errors.Is(err, avro.ErrSchema) {
			t.Errorf("Raw(%s) = %v", bad, err)
		}
	}
}

func framed(id int, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), b...)
}

// I7: messages of several schemas go into one table; an outage is no bad record, an unknown id is one.
func TestConfluent(t *testing.T) {
	srv := srfake.New()
	defer srv.Close()
	var broken atomic.Bool
	srv.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if broken.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
		}
		return broken.Load()
	})
	schemas := []string{
		rec(`{"name":"a","type":"int"}`),
		rec(`{"name":"b","type":["null","string"]},{"name":"a","type":"long"}`),
		rec(`{"name":"a","type":"string"}`),
	}
	var ids []int
	for _, s := range schemas {
		id, _, err := srv.RegisterSchema("t-value", sr.Schema{Schema: s})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	reg, err := registry.Open(registry.Config{URLs: []string{srv.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	f := avro.Confluent(reg, "")
	payload, err := f.Columns(t.Context(), [][]byte{[]byte("x"), framed(99, nil), framed(ids[1], nil), framed(ids[0], nil)})
	if err != nil || payload.NumFields() != 2 || payload.Field(1).Type.ID() != arrow.INT64 {
		t.Fatalf("Columns = %v, %v", payload, err)
	}
	d, err := f.NewDecoder(payload)
	if err != nil {
		t.Fatal(err)
	}
	var bad *decode.Error
	var away *decode.UnavailableError
	if err := d.Append(framed(ids[0], []byte{6})); err != nil {
		t.Error(err)
	}
	if err := d.Append(framed(ids[2], []byte{2, 'x'})); !errors.As(err, &bad) || bad.Path != "a" {
		t.Errorf("a schema that does not go with the table: %v", err)
	}
	if err := d.Append(framed(999, nil)); !errors.As(err, &bad) {
		t.Errorf("an unknown id: %v", err)
	}
	broken.Store(true)
	fresh, _, _ := srv.RegisterSchema("t-value", sr.Schema{Schema: rec(`{"name":"b","type":"string"}`)})
	if err := d.Append(framed(fresh, []byte{2, 'x'})); !errors.As(err, &away) || errors.As(err, &bad) && d.Rows() != 1 {
		t.Errorf("an outage: %v", err)
	}
	broken.Store(false)
	if err := d.Append(framed(fresh, []byte{2, 'y'})); err != nil {
		t.Error(err)
	}
	if err := d.Append(framed(ids[1], []byte{2, 2, 'z', 8})); err != nil {
		t.Error(err)
	}
	for _, short := range []string{"", "\x00", "\x01\x00\x00\x00\x01\x06"} {
		if err := d.Append([]byte(short)); !errors.As(err, &bad) {
			t.Errorf("Append(%q) = %v", short, err)
		}
	}
	var got []any
	for i := range d.Rows() {
		got = append(got, decodetest.Plain(d.Arrays()[0], i), decodetest.Plain(d.Arrays()[1], i))
	}
	if s := fmt.Sprint(got); s != "[<nil> 3 y <nil> z 4]" {
		t.Errorf("rows %s", s)
	}
}
