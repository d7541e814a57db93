package where

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

func schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "l", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "k", Type: arrow.BinaryTypes.Binary, Nullable: true},
		{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "t", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true},
		{Name: "c", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}, Nullable: true},
		{Name: "two words", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "n", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
	}, nil)
}

// one is a row of small values, so that equality is frequent.
func one(n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema())
	day := time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC)
	b.Field(0).(*array.Int32Builder).Append(int32(n))
	b.Field(1).(*array.Int64Builder).Append(int64(n))
	b.Field(2).(*array.Float64Builder).Append(float64(n) / 2)
	b.Field(3).(*array.StringBuilder).Append(strconv.Itoa(n))
	b.Field(4).(*array.BinaryBuilder).Append([]byte(strconv.Itoa(n)))
	b.Field(5).(*array.BooleanBuilder).Append(n%2 == 1)
	b.Field(6).(*array.Date32Builder).Append(arrow.Date32FromTime(day))
	b.Field(7).(*array.TimestampBuilder).Append(arrow.Timestamp(day.UnixMicro()))
	b.Field(8).(*array.Decimal128Builder).Append(decimal128.FromI64(int64(n) * 50))
	b.Field(9).(*array.Int64Builder).Append(int64(n))
	b.Field(10).AppendNull()
	return b.NewRecordBatch()
}

// TestRows checks filters on the row of n = 3.
func TestRows(t *testing.T) {
	row := one(3)
	for text, want := range map[string]bool{
		"i = 3": true, "i == 3.0": true, "i != 3": false, "i <> 4": true, "i < 3.5": true, "i <= 3": true, "i >= 3.1": false, "i > 2.9": true,
		"l = 99999999999999999999": false, "l < 99999999999999999999": true, "l > -1e300": true, "l != 3.5": true, "l = 3.5": false,
		"f = 1.5": true, "f > 1e-3": true, "f < -1": false, "s = '3'": true, "s > '20'": true, "s IN ('1', '3')": true, "s NOT IN ('1','3')": false,
		"k = '3'": true, "k < '3'": false, "b = true": true, "b = FALSE": false, "d = '2026-01-04'": true, "d < '2026-01-04'": false,
		"t >= '2026-01-04T00:00:00Z'": true, "t > '2026-01-04'": false, "t = '2026-01-04 00:00:00.000'": true, "t < '2026-01-04T01:00:00+00:30'": true,
		"c = 1.5": true, "c > 1.49": true, "c < 1.50": false, "c = -1.5": false, "c = 1.500": true,
		`"two words" = 3`: true, "`two words` = 3": true, "n IS NULL": true, "n is not null": false, "i IS NULL": false, "NOT i IS NULL": true,
		"i BETWEEN 1 AND 3": true, "i NOT BETWEEN 1 AND 3": false, "i = 1 OR i = 3 AND s = '3'": true, "(i = 1 OR i = 3) AND s = '4'": false,
		"NOT (i = 1 OR s = '4')": true, "NOT NOT i = 3": true, "NOT (i = 3 AND s = '3')": false, "i IN (3)": true,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		b, err := f.Bind(schema())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if keep, err := b.Rows(row); err != nil || keep[0] != want {
			t.Errorf("%s = %v, %v; want %v", text, keep, err, want)
		}
	}
}

// TestErrors proves I8: what cannot be read is refused with its place.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "ends", "i": "ends", "i =": "ends", "= 3": "column", "i = = 3": "position 5", "i = 3 i = 4": "position 7", "(i = 3": "ends", "i = 'x": "quote",
		"i = NULL": "IS NULL", "i IS 3": "NULL", "i IN 3": "(", "i IN (3": ", or )", "i ? 3": "no meaning", "i BETWEEN 1 3": "AND", "i NOT 3": "IN or BETWEEN",
		strings.Repeat("(", 200) + "i = 3": "nested", strings.Repeat("NOT ", 200) + "i = 3": "nested", strings.Repeat("x", maxText+1): "bytes",
	} {
		if _, err := Parse(text); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want an error about %s", text, err, want)
		}
	}
	for _, text := range []string{"x = 3", "i = 'x'", "i = TRUE", "s = 3", "b = 1", "b = 'true'", "d = 3", "d = '2026-13-01'", "t = 'soon'", "c = 1.555", "c = 1e3", "c = 'x'", "n = 3", "f = 'x'", "f = 1x"} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, err := f.Bind(schema()); !errors.Is(err, ErrSyntax) {
			t.Errorf("bind %s: %v", text, err)
		}
	}
}

func TestNaN(t *testing.T) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "f", Type: arrow.PrimitiveTypes.Float64}}, nil))
	b.Field(0).(*array.Float64Builder).AppendValues([]float64{math.NaN(), 1}, nil)
	rb := b.NewRecordBatch()
	for text, want := range map[string]string{"f = 1": "[false true]", "f != 1": "[true false]", "f < 5": "[false true]", "NOT f < 5": "[false false]", "f IS NULL": "[false false]"} {
		f, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		x, err := f.Bind(rb.Schema())
		if err != nil {
			t.Fatal(err)
		}
		if keep, err := x.Rows(rb); err != nil || fmt.Sprint(keep) != want {
			t.Errorf("%s: %v, %v", text, keep, err)
		}
	}
}

func randomFilter(rng *rand.Rand, depth int) string {
	if depth > 0 && rng.IntN(2) == 0 {
		l, r := randomFilter(rng, depth-1), randomFilter(rng, depth-1)
		return []string{"(" + l + " AND " + r + ")", "(" + l + " OR " + r + ")", "NOT (" + l + ")"}[rng.IntN(3)]
	}
	n := rng.IntN(8)
	column := []string{"i", "l", "f", "s", "d", "t", "c"}[rng.IntN(7)]
	lit := func(n int) string {
		switch column {
		case "s":
			return fmt.Sprintf("'%d'", n)
		case "d", "t":
			return time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC).Format("'2006-01-02'")
		case "f", "c":
			return fmt.Sprintf("%g", float64(n)/2)
		}
		return fmt.Sprint(float64(n) + []float64{0, 0, 0.5}[rng.IntN(3)])
	}
	switch rng.IntN(6) {
	case 0:
		return column + " IS NULL"
	case 1:
		return column + " IN (" + lit(n) + ", " + lit(n+1) + ")"
	case 2:
		return column + " NOT BETWEEN " + lit(n) + " AND " + lit(n+2)
	}
	return column + " " + []string{"=", "!=", "<", "<=", ">", ">="}[rng.IntN(6)] + " " + lit(n)
}

// TestStatsRuleOutNothingKept compares what statistics say with the rows themselves, for random filters on random
// rows with nulls: rows that are kept are never ruled out (I4).
func TestStatsRuleOutNothingKept(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	out := 0
	for range 3000 {
		text := randomFilter(rng, 3)
		f, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b, err := f.Bind(schema())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		rb := randomRows(rng, 1+rng.IntN(4))
		keep, err := b.Rows(rb)
		if err != nil {
			t.Fatal(err)
		}
		kept := int64(0)
		for _, k := range keep {
			if k {
				kept++
			}
		}
		sel, err := Select(t.Context(), rb, keep)
		if err != nil || sel.NumRows() != kept {
			t.Fatalf("%s: %d rows selected of %v, %v", text, sel.NumRows(), keep, err)
		}
		may := b.MayMatch(statsOf(rb))
		if !may {
			out++
		}
		if kept > 0 && !may {
			t.Fatalf("%s keeps %v and the statistics rule it out", text, keep)
		}
	}
	t.Logf("the statistics ruled out %d of 3000", out)
	if out < 300 {
		t.Errorf("the statistics ruled out %d of 3000", out)
	}
}

func randomRows(rng *rand.Rand, n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema())
	for range n {
		row := one(rng.IntN(8))
		for c := range schema().NumFields() {
			if rng.IntN(4) == 0 || row.Column(c).IsNull(0) {
				b.Field(c).AppendNull()
			} else if err := b.Field(c).AppendValueFromString(row.Column(c).ValueStr(0)); err != nil {
				panic(err)
			}
		}
	}
	return b.NewRecordBatch()
}

// statsOf computes exact statistics.
func statsOf(rb arrow.RecordBatch) func(string, arrow.DataType) Stats {
	return func(column string, typ arrow.DataType) Stats {
		a := rb.Column(rb.Schema().FieldIndices(column)[0])
		s := Stats{Rows: rb.NumRows(), Nulls: int64(a.NullN()), NullsKnown: true}
		get, err := getter(a)
		if err != nil {
			return s
		}
		for i := range a.Len() {
			if a.IsNull(i) {
				continue
			}
			v := get(i)
			l := Limit{Int: v.i, Float: v.f, Bytes: v.b, Decimal: v.d}
			if c, _ := v.compare(s.Min.value(v.form)); !s.MinSet || c < 0 {
				s.Min, s.MinSet = l, true
			}
			if c, _ := v.compare(s.Max.value(v.form)); !s.MaxSet || c > 0 {
				s.Max, s.MaxSet = l, true
			}
		}
		return s
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"i = 3", "NOT (i IN (1,2) AND s <= 'x''y') OR \"two words\" IS NOT NULL", "c BETWEEN -1.5 AND +2e3", "((((", "t > '2026"} {
		f.Add(s)
	}
	row := one(3)
	f.Fuzz(func(t *testing.T, text string) {
		x, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		b, err := x.Bind(schema())
		if err != nil {
			return
		}
		keep, err := b.Rows(row)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if keep[0] && !b.MayMatch(statsOf(row)) {
			t.Fatalf("%q keeps the row and the statistics rule it out", text)
		}
	})
}
