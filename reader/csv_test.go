package reader

import (
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestCSV reads what was written with a reader of the standard library.
func TestCSV(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "text, with comma", Type: arrow.BinaryTypes.String},
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64},
		{Name: "b", Type: arrow.BinaryTypes.Binary},
		{Name: "t", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}},
		{Name: "l", Type: arrow.ListOf(arrow.BinaryTypes.String)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	texts := []string{"plain", "a,b", `say "x"`, "two\nlines", "", " padded ", "\u20ac", `\ back`}
	for i, s := range texts {
		b.Field(0).(*array.StringBuilder).Append(s)
		b.Field(1).(*array.Int64Builder).Append(int64(-i))
		b.Field(2).(*array.Float64Builder).Append(float64(i) / 4)
		b.Field(3).(*array.BinaryBuilder).Append([]byte(s))
		b.Field(4).(*array.TimestampBuilder).Append(arrow.Timestamp(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro()))
		lb := b.Field(5).(*array.ListBuilder)
		lb.Append(true)
		lb.ValueBuilder().(*array.StringBuilder).Append(s)
	}
	for i := range schema.NumFields() {
		b.Field(i).AppendNull()
	}
	rb := b.NewRecordBatch()
	out, err := AppendCSV(AppendCSVHeader(nil, schema), rb)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(out), "\n,,,,,\n") { // null is nothing, an empty text is ""
		t.Errorf("nulls: %q", out)
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) != len(texts)+2 || rows[0][0] != "text, with comma" {
		t.Fatalf("%v, %v", rows, err)
	}
	for i, s := range texts {
		if rows[i+1][0] != s {
			t.Errorf("text %q came back as %q", s, rows[i+1][0])
		}
	}
	if r := rows[2]; r[1] != "-1" || r[2] != "0.25" || r[3] != "YSxi" || r[4] != "2026-01-02T03:04:05Z" || r[5] != `["a,b"]` {
		t.Errorf("row %q", r)
	}
	if !strings.Contains(string(out), "\n\"\",-4,") {
		t.Errorf("an empty text is not \"\": %q", out)
	}
	raw, err := AppendValues(nil, rb, "b")
	if err != nil || string(raw) != strings.Join(texts, "\n")+"\n\n" {
		t.Errorf("raw values %q, %v", raw, err)
	}
	for _, column := range []string{"n", "none"} {
		if _, err := AppendValues(nil, rb, column); !errors.Is(err, ErrNotReplayable) {
			t.Errorf("raw values of %s: %v", column, err)
		}
	}
}
