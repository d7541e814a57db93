package expr

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func testSchema() *arrow.Schema {
	inner := arrow.StructOf(arrow.Field{Name: "c", Type: arrow.BinaryTypes.String, Nullable: true})
	outer := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, arrow.Field{Name: "b", Type: inner, Nullable: true})
	var fields []arrow.Field
	for _, f := range []struct {
		name string
		typ  arrow.DataType
	}{{"i", arrow.PrimitiveTypes.Int32}, {"l", arrow.PrimitiveTypes.Int64}, {"y", arrow.PrimitiveTypes.Int8}, {"f", arrow.PrimitiveTypes.Float32},
		{"d", arrow.PrimitiveTypes.Float64}, {"n", &arrow.Decimal128Type{Precision: 10, Scale: 2}}, {"s", arrow.BinaryTypes.String}, {"b", arrow.FixedWidthTypes.Boolean},
		{"x", arrow.BinaryTypes.Binary}, {"day", arrow.FixedWidthTypes.Date32}, {"t", arrow.FixedWidthTypes.Timestamp_us}, {"z", &arrow.TimestampType{Unit: arrow.Microsecond}},
		{"st", outer}, {"odd name", arrow.PrimitiveTypes.Int32}} {
		fields = append(fields, arrow.Field{Name: f.name, Type: f.typ, Nullable: true})
	}
	return arrow.NewSchema(fields, nil)
}

type pair struct {
	a any
	b any // of the inner struct; missing: null
}

// missing is a struct whose only field is null.
type missing struct{}

func at(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05.999999", s)
	if err != nil {
		panic(err)
	}
	return t
}

func day(s string) time.Time { return at(s + " 00:00:00") }

// testRows are the rows of test/e2e/sparkexpr.py.
func testRows() [][]any {
	return [][]any{
		{1, 5, 1, 1.5, 2.5, "10.25", "abc", true, "abc", day("2020-02-29"), at("2020-02-29 12:34:56.789012"), at("2020-02-29 23:59:59.999999"), pair{1, "in"}, 7},
		{-1, -5, -128, math.NaN(), math.NaN(), "-10.25", "", false, "", day("1969-12-31"), at("1969-12-31 23:59:59.999999"), at("1969-12-31 00:00:00"), pair{}, 0},
		{nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil},
		{math.MaxInt32, math.MaxInt64, 127, math.Inf(1), 1e300, "99999999.99", `ab%c_\x`, true, "\xff", day("9999-12-31"), at("9999-12-31 23:59:59.999999"), at("9999-12-31 00:00:00"), pair{math.MaxInt32, missing{}}, -1},
		{math.MinInt32, math.MinInt64 + 1, 0, math.Copysign(0, -1), math.Copysign(0, -1), "0.00", "  12 ", false, "\x00", day("0001-01-01"), at("0001-01-01 00:00:00"), at("0001-01-01 00:00:00"), pair{0, ""}, 1000},
		{12, 12, 12, 12.0, 12.0, "12.00", "12", true, "12", day("2012-12-12"), at("2012-12-12 12:12:12"), at("2012-12-12 12:12:12"), pair{12, "12"}, 12},
		{0, 0, 0, 0.1, 0.1, "0.10", "Stra\u00dfe \U0001f600", nil, nil, day("1582-10-15"), at("1582-10-15 00:00:00"), nil, pair{3, "x"}, 5},
	}
}

func testColumns(t testing.TB) ([]arrow.Array, int) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, testSchema())
	defer b.Release()
	rows := testRows()
	for _, row := range rows {
		for i, v := range row {
			appendValue(b.Field(i), v)
		}
	}
	rb := b.NewRecordBatch()
	t.Cleanup(rb.Release)
	return rb.Columns(), len(rows)
}

func appendValue(b array.Builder, v any) {
	if v == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(v.(int)))
	case *array.Int32Builder:
		b.Append(int32(v.(int)))
	case *array.Int64Builder:
		b.Append(int64(v.(int)))
	case *array.Float32Builder:
		b.Append(float32(v.(float64)))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.Decimal128Builder:
		d, err := decimal128.FromString(v.(string), 10, 2)
		if err != nil {
			panic(err)
		}
		b.Append(d)
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.BinaryBuilder:
		b.Append([]byte(v.(string)))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.Date32Builder:
		b.Append(arrow.Date32FromTime(v.(time.Time)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.(time.Time).UnixMicro()))
	case *array.StructBuilder:
		b.Append(true)
		p := v.(pair)
		appendValue(b.FieldBuilder(0), p.a)
		inner := b.FieldBuilder(1).(*array.StructBuilder)
		switch p.b.(type) {
		case nil:
			inner.AppendNull()
		case missing:
			inner.Append(true)
			inner.FieldBuilder(0).AppendNull()
		default:
			inner.Append(true)
			appendValue(inner.FieldBuilder(0), p.b)
		}
	}
}

// Spark's own answers, row by row: true, false, null, or an error. What this package does not understand is refused
// when it is bound, and named here, so that the list cannot grow unseen.
func TestAsSpark(t *testing.T) {
	raw, err := os.ReadFile("testdata/spark.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Condition string
		Answers   []string
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	cols, rows := testColumns(t)
	refused := map[string]bool{"x = X'616263'": true, "s = 12": true, "CAST(n AS STRING) = '12.00'": true, "f = 'NaN'": true}
	strict := map[string]bool{"upper(s) = 'ABC'": true} // rows of which nothing is said: letters beyond ASCII
	agreed := 0
	for _, c := range cases {
		b, err := condition(c.Condition)
		if errors.Is(err, ErrUnsupported) && allErrors(c.Answers) {
			continue
		}
		if (err != nil) != refused[c.Condition] {
			t.Errorf("%s: %v", c.Condition, err)
		}
		if err != nil {
			continue
		}
		e := On(cols)
		for row := range rows {
			got := "error"
			if v, err := e.value(b, row); err == nil {
				got = map[bool]string{true: "true", false: "false"}[v.i == 1]
				if v.null {
					got = "null"
				}
			}
			if got != c.Answers[row] && (got != "error" || !strict[c.Condition]) {
				t.Errorf("%s of row %d: %s, Spark says %s", c.Condition, row, got, c.Answers[row])
			}
			agreed++
		}
	}
	t.Logf("%d conditions, %d answers", len(cases), agreed)
}

func allErrors(answers []string) bool {
	return strings.Join(answers, " ") == strings.TrimSuffix(strings.Repeat("error ", len(answers)), " ")
}

func condition(text string) (*Bound, error) {
	e, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return e.Condition(testSchema())
}

// What is not understood is refused, and says what it was.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "ends too early", "i >": "ends too early", "i": "not a condition", "nope > 1": "no column nope", "st.nope > 1": "no field st.nope", "i.a = 1": "no field i.a",
		"rand() > 0.5": "function or operator rand", "s RLIKE 'a'": `"RLIKE"`, "s LIKE 'a' ESCAPE '!'": "ESCAPE", "i = 'x'": `"x" is no int`, "day > i": "date beside int",
		"st = st": "nested values", "i > 1 2": `"2"`, "'a": "does not end", "`a": "does not end", "s = 'a''b'": "two quotes", "i > 1e": "the number 1e", "i > 0x10": "the number 0x10",
		"i + s > 0": "+ of a string", "CAST(i AS INTERVAL) = 1": "the type interval", "i > 1 -- x": "'-'", "n * n * n * n > 1": "digits", "n / 2 > 1": "/ of decimal(10,2)",
		"current_date() > day": "current_date", "s LIKE s": "pattern", "EXISTS(SELECT 1)": `"1"`, "x -> x + 1": `">"`, "i IN ()": "IN ()", "a[0] = 1": `'['`,
		"NOT i": "not of a int", strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300): "nested deeper", strings.Repeat("NOT ", 300) + "true": "nested deeper",
		strings.Repeat("true AND ", 300) + "true": "in a row", strings.Repeat("x", 70000): "bytes",
	} {
		if _, err := condition(text); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: %v, want a refusal that says %q", text, err, want)
		}
	}
}

// The words of operators are no functions, and functions count their arguments.
func TestArgumentsCounted(t *testing.T) {
	for _, name := range []string{"and", "or", "not", "in", "like", "div", "negative", "case", "switch", "between", "lit", "col", "call", "cast", "isnull", "isnotnull", "abs",
		"isnan", "if", "nullif", "ifnull", "nvl", "coalesce", "date", "to_date", "date_trunc", "date_format", "year", "hour", "length", "contains", "trim", "upper", "substring"} {
		for _, args := range []string{"", "i, i, i, i", "b, b, b, b", "s, 'a', 'b', 'c'"} {
			text := name + "(" + args + ") IS NULL"
			if name == "coalesce" && args != "" {
				continue // any number but none
			}
			if _, err := condition(text); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%s: %v, want a refusal", text, err)
			}
		}
	}
	for _, text := range []string{"and(b)", "and(b, b)", "or(true)", "like(s)", "like(s, 'a')", "div(i) > 1", "div(i, 2) > 1", "negative(i) > 1", "in(i)", "in(i, 1)", "col(i)", "lit(i)", "case(b)", "NOT(b) AND not(b, b)"} {
		if _, err := condition(text); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, want a refusal", text, err)
		}
	}
}

// nested puts a text in the place of X in another, many times.
func nested(inner, outer string, times int) string {
	for range times {
		inner = strings.Replace(outer, "X", inner, 1)
	}
	return inner
}

// I8: an operand that is looked at several times is evaluated once, so nesting does not multiply the work. Here a second
// time per level would be 2^35 and more.
func TestOperandsOnce(t *testing.T) {
	cols, rows := testColumns(t)
	for text, want := range map[string]string{
		nested("(i < 0)", "(X BETWEEN true AND true)", 60):                                   "false true null false true false false",
		nested("(i + 0)", "nullif(X, 12)", 60) + " > 0":                                      "true false null true false null false",
		nested("(i + 0)", "(CASE X WHEN -1 THEN 12 WHEN 0 THEN 1 END)", 1) + " > 1":          "null true null null null null false",
		nested("(b AND true)", "(CASE X WHEN true THEN true WHEN false THEN false END)", 35): "true false null true false true null",
		"(i + 0) BETWEEN (l BETWEEN 0 AND 5)::int AND (i + 0 BETWEEN 0 AND 1)::int + 11":     "true false null false false false false",
	} {
		b, err := condition(text)
		if err != nil {
			t.Errorf("%.80s: %v", text, err)
			continue
		}
		e, got := On(cols), make([]string, rows)
		for row := range rows {
			v, err := e.value(b, row)
			switch {
			case err != nil:
				got[row] = "error"
			case v.null:
				got[row] = "null"
			default:
				got[row] = map[bool]string{true: "true", false: "false"}[v.i == 1]
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%.80s: %s, want %s", text, got, want)
		}
	}
}

// I8: what one expression, and one row of it, may cost is bounded.
func TestBudgets(t *testing.T) {
	if _, err := condition("i IN (" + strings.Repeat("1,", maxNodes) + "1)"); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "more than 10000") {
		t.Errorf("many nodes: %v", err)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	defer texts.Release()
	texts.AppendValues([]string{strings.Repeat("x", 1<<20), "x"}, nil)
	column := texts.NewArray()
	defer column.Release()
	for text, fails := range map[string]bool{
		"concat(s" + strings.Repeat(",s", 20) + ") = ''":                false,
		"concat(s" + strings.Repeat(",s", 100) + ") = ''":               true,
		nested("s", "(X || s)", 50) + " = ''":                           true,
		"'' IN ('x'" + strings.Repeat(",upper(s)", 100) + ")":           true,
		"'' IN ('x'" + strings.Repeat(",substring(s, 1, 1)", 100) + ")": true,
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		b, err := parsed.Condition(schema)
		if err != nil {
			t.Fatal(err)
		}
		e := On([]arrow.Array{column})
		if _, err := e.True(b, 0); (err != nil) != fails || fails && !strings.Contains(err.Error(), "more than 64 MiB") {
			t.Errorf("%.40s: %v, want an error: %t", text, err, fails)
		}
		if _, err := e.True(b, 1); err != nil { // the next row has all of it again
			t.Errorf("%.40s of a short text: %v", text, err)
		}
	}
}

// I8: any text is an expression or a refusal, and has an answer or an error for every row.
func FuzzCondition(f *testing.F) {
	for _, s := range []string{"i > 0 AND s LIKE '%a_'", "CASE WHEN b THEN n * 2 END = 1.5", "CAST(s AS INT) IN (1, null)", "substring(s, l, i) = date_format(t, 'yyyy')", "st.b.c || 'x' <=> null", "-i % 0 BETWEEN 1 AND d", "and(b)", "negative()",
		"CASE nullif(i + 1, 2) WHEN 1 THEN true ELSE (i + 1 BETWEEN 1 AND 2) BETWEEN b AND true END", "upper(concat(s, s)) LIKE CAST(null AS string)"} {
		f.Add(s)
	}
	cols, rows := testColumns(f)
	f.Fuzz(func(t *testing.T, text string) {
		b, err := condition(text)
		if err != nil {
			if !errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		for row := range rows {
			_, _ = On(cols).True(b, row)
		}
	})
}

func BenchmarkCondition(b *testing.B) {
	cols, rows := testColumns(b)
	c, err := condition("i > 0 AND s LIKE 'a%' OR l IN (1, 2, 3)")
	if err != nil {
		b.Fatal(err)
	}
	e := On(cols)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, _ = e.True(c, i%rows)
	}
}
