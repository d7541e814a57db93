package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/internal/parquet"
)

// statsOf gives the statistics of one column x, whose rows are JSON values.
func statsOf(t *testing.T, dt arrow.DataType, rows string, c statsColumns) string {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return statsOfArrays(arrow.NewSchema([]arrow.Field{{Name: "x", Type: dt, Nullable: true}}, nil), c, a)
}

func statsOfArrays(schema *arrow.Schema, c statsColumns, a ...arrow.Array) string {
	w, err := parquet.NewWriter(io.Discard, schema, parquet.Options{KeepBytes: decidingBytes(c.prefix)})
	if err == nil {
		err = errors.Join(w.Write(array.NewRecordBatch(schema, a, int64(a[0].Len()))), w.Close())
	}
	if err != nil {
		return err.Error()
	}
	return statsJSON(w, statsTree(schema, schema, c), c.prefix)
}

func TestStatsVectors(t *testing.T) {
	utc := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	ntz := &arrow.TimestampType{Unit: arrow.Microsecond}
	str := arrow.BinaryTypes.String
	a32, a64, a65 := strings.Repeat("a", 32), strings.Repeat("a", 64), strings.Repeat("a", 65)
	top := string(rune(0x10FFFF))
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	nested := arrow.StructOf(arrow.Field{Name: "p", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "q", Type: arrow.StructOf(arrow.Field{Name: "r", Type: str, Nullable: true}), Nullable: true})
	for _, c := range []struct {
		name     string
		dt       arrow.DataType
		rows     string
		min, max string // "" is none
		nulls    string
	}{
		{"int", arrow.PrimitiveTypes.Int32, `[3, null, -7]`, "-7", "3", "1"},
		{"long", arrow.PrimitiveTypes.Int64, `[9223372036854775807, -9223372036854775808]`, "-9223372036854775808", "9223372036854775807", "0"},
		{"byte", arrow.PrimitiveTypes.Int8, `[-128, 127]`, "-128", "127", "0"},
		{"all null", arrow.PrimitiveTypes.Int64, `[null, null]`, "", "", "2"},
		{"double", arrow.PrimitiveTypes.Float64, `[1.5, -2.25]`, "-2.25", "1.5", "0"},
		{"float is exact", arrow.PrimitiveTypes.Float32, `[0.1]`, "0.10000000149011612", "0.10000000149011612", "0"},
		{"decimal", &arrow.Decimal128Type{Precision: 38, Scale: 2}, `["-123456789012345678901234567890123456.78", "0.05", null]`,
			"-123456789012345678901234567890123456.78", "0.05", "1"},
		{"boolean", arrow.FixedWidthTypes.Boolean, `[true, null]`, "", "", "1"},
		{"binary", arrow.BinaryTypes.Binary, `["AAAA", null]`, "", "", "1"},
		{"list", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1], null, []]`, "", "", "1"},
		{"date", arrow.FixedWidthTypes.Date32, `["1969-12-31", "2024-02-29"]`, `"1969-12-31"`, `"2024-02-29"`, "0"},
		{"timestamp min down, max up", utc, `["2024-06-15 19:30:45.123456Z", "2024-06-15 19:30:45.123457Z"]`,
			`"2024-06-15T19:30:45.123Z"`, `"2024-06-15T19:30:45.124Z"`, "0"},
		{"timestamp on the millisecond", utc, `["2024-06-15 19:30:45.123Z"]`, `"2024-06-15T19:30:45.123Z"`, `"2024-06-15T19:30:45.123Z"`, "0"},
		{"timestamp before 1970", utc, `["1969-12-31 23:59:59.999999Z"]`, `"1969-12-31T23:59:59.999Z"`, `"1970-01-01T00:00:00.000Z"`, "0"},
		{"timestamp without zone", ntz, `["2024-06-15 19:30:45.5"]`, `"2024-06-15T19:30:45.500"`, `"2024-06-15T19:30:45.500"`, "0"},
		{"short strings", str, `["b", "", "a"]`, `""`, `"b"`, "0"},
		{"32 characters are whole", str, `["` + a32 + `"]`, quote(a32), quote(a32), "0"},
		{"33rd is ASCII", str, `["` + a32 + `b"]`, quote(a32), quote(a32 + "\u007f"), "0"},
		{"33rd is DEL", str, `["` + a32 + `\u007f"]`, quote(a32), quote(a32 + top), "0"},
		{"33rd is wide", str, `["` + a32 + "\u00e9" + `"]`, quote(a32), quote(a32 + top), "0"},
		{"33rd is the last character", str, `["` + a32 + top + `z!"]`, quote(a32), quote(a32 + top + "\u007f"), "0"},
		{"characters, not bytes", str, `["` + strings.Repeat("\u00e9", 32) + `"]`, quote(strings.Repeat("\u00e9", 32)), quote(strings.Repeat("\u00e9", 32)), "0"},
		{"no end in twice the prefix", str, `["` + a32 + strings.Repeat(top, 40) + `"]`, quote(a32), "", "0"},
		{"ends at twice the prefix", str, `["` + a32 + strings.Repeat(top, 32) + `"]`, quote(a32), quote(a32 + strings.Repeat(top, 32)), "0"},
		{"long strings differ late", str, `["` + a65 + `", "` + a64 + `b"]`, quote(a32), quote(a32 + "\u007f"), "0"},
		{"nested", nested, `[{"p": 1, "q": {"r": "x"}}, null, {"p": null, "q": null}, {"p": 5, "q": {"r": null}}]`,
			`{"p":1,"q":{"r":"x"}}`, `{"p":5,"q":{"r":"x"}}`, `{"p":2,"q":{"r":3}}`},
	} {
		want := `{"numRecords":` + fmt.Sprint(rowsIn(t, c.dt, c.rows))
		if c.min != "" {
			want += `,"minValues":{"x":` + c.min + `}`
		}
		if c.max != "" {
			want += `,"maxValues":{"x":` + c.max + `}`
		}
		want += `,"nullCount":{"x":` + c.nulls + `},"tightBounds":true}`
		if got := statsOf(t, c.dt, c.rows, statsColumnsOf(nil)); got != want {
			t.Errorf("%s:\nwant %s\ngot  %s", c.name, want, got)
		}
		if !json.Valid([]byte(want)) {
			t.Errorf("%s: not JSON", c.name)
		}
	}
}

func rowsIn(t *testing.T, dt arrow.DataType, rows string) int {
	a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return a.Len()
}

func TestStatsLeaveOutWhatJSONCannotSay(t *testing.T) {
	floats := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true}}, nil)
	for _, c := range []struct {
		values   []float64
		min, max bool
	}{
		{[]float64{1, math.NaN()}, false, false},
		{[]float64{1, math.Inf(1)}, true, false},
		{[]float64{math.Inf(-1), 1}, false, true},
	} {
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		b.AppendValues(c.values, nil)
		got := statsOfArrays(floats, statsColumnsOf(nil), b.NewArray())
		if strings.Contains(got, "minValues") != c.min || strings.Contains(got, "maxValues") != c.max || !json.Valid([]byte(got)) {
			t.Errorf("%v: %s", c.values, got)
		}
	}
	strs := array.NewStringBuilder(memory.DefaultAllocator)
	strs.AppendValues([]string{"\xff\xfe", "a"}, nil)
	got := statsOfArrays(arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.BinaryTypes.String, Nullable: true}}, nil), statsColumnsOf(nil), strs.NewArray())
	if strings.Contains(got, "maxValues") || !strings.Contains(got, `"minValues":{"x":"a"}`) {
		t.Errorf("bytes that are no UTF-8: %s", got)
	}
	times := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"})
	times.AppendValues([]arrow.Timestamp{math.MinInt64, math.MaxInt64}, nil)
	got = statsOfArrays(arrow.NewSchema([]arrow.Field{{Name: "x", Type: times.Type(), Nullable: true}}, nil), statsColumnsOf(nil), times.NewArray())
	if got != `{"numRecords":2,"nullCount":{"x":0},"tightBounds":true}` {
		t.Errorf("times out of range: %s", got)
	}
}

func TestStatsColumns(t *testing.T) {
	fields := []arrow.Field{}
	var arrays []arrow.Array
	for i := range 40 {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.Append(int64(i))
		fields, arrays = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: arrow.PrimitiveTypes.Int64, Nullable: true}), append(arrays, b.NewArray())
	}
	schema := arrow.NewSchema(fields, nil)
	for _, c := range []struct {
		conf map[string]string
		want []string
		not  []string
	}{
		{nil, []string{"c0", "c31"}, []string{"c32"}},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "2"}, []string{"c0", "c1"}, []string{"c2"}},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "-1"}, []string{"c39"}, nil},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "0"}, nil, []string{"c0"}},
		{map[string]string{"delta.dataSkippingStatsColumns": "c35, `c36`"}, []string{"c35", "c36"}, []string{"c0", "c3"}},
	} {
		got := statsOfArrays(schema, statsColumnsOf(c.conf), arrays...)
		for _, n := range c.want {
			if !strings.Contains(got, `"`+n+`":`) {
				t.Errorf("%v: no %s in %s", c.conf, n, got)
			}
		}
		for _, n := range c.not {
			if strings.Contains(got, `"`+n+`":`) {
				t.Errorf("%v: %s in %s", c.conf, n, got)
			}
		}
	}
}
