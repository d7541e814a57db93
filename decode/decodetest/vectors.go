// Package decodetest compares what decoders make of messages with what the software that wrote them says they hold.
package decodetest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/decode"
)

// Row is one message and what it holds.
type Row struct {
	Value []byte
	Want  map[string]any
}

// Lines calls each for the objects of NDJSON. Numbers are json.Number.
func Lines[T any](t testing.TB, ndjson []byte, each func(T)) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(ndjson))
	dec.UseNumber()
	n := 0
	for ; dec.More(); n++ {
		var v T
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		each(v)
	}
	if n == 0 {
		t.Fatal("there are no vectors")
	}
}

// Hex decodes hex digits.
func Hex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Check decodes the rows into the columns that the format proposes, and compares all values.
func Check(t testing.TB, f decode.Format, rows []Row) {
	t.Helper()
	var samples [][]byte
	for _, r := range rows {
		samples = append(samples, r.Value)
	}
	schema, err := f.Columns(t.Context(), samples)
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.NewDecoder(schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := d.Append(r.Value); err != nil {
			t.Errorf("Append(%x) = %v, want the row %v", r.Value, err, r.Want)
			d.AppendNull()
		}
	}
	cols := d.Arrays()
	for i, r := range rows {
		got := map[string]any{}
		for c, f := range schema.Fields() {
			got[f.Name] = Plain(cols[c], i)
		}
		if diff := cmp.Diff(r.Want, got); diff != "" {
			t.Errorf("row %d, message %x (-want +got):\n%s", i, r.Value, diff)
		}
	}
}

// Plain gives value i of an array as the scripts that make vectors write it: integers, days and microseconds as
// json.Number, floats as "f:" and the bits of the double, bytes as hex, decimals as text.
func Plain(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(i)
	case *array.Float32:
		return plainFloat(float64(a.Value(i)))
	case *array.Float64:
		return plainFloat(a.Value(i))
	case *array.String:
		return strings.Clone(a.Value(i))
	case *array.Binary:
		return hex.EncodeToString(a.Value(i))
	case *array.Date32:
		return json.Number(fmt.Sprint(int32(a.Value(i))))
	case *array.Timestamp:
		return json.Number(fmt.Sprint(int64(a.Value(i))))
	case *array.Decimal128:
		t := a.DataType().(*arrow.Decimal128Type)
		return a.Value(i).ToString(t.Scale)
	case *array.Struct:
		out := map[string]any{}
		for j, f := range a.DataType().(*arrow.StructType).Fields() {
			out[f.Name] = Plain(a.Field(j), i)
		}
		return out
	case *array.Map: // before List, which it embeds
		from, to := a.ValueOffsets(i)
		out := map[string]any{}
		for j := int(from); j < int(to); j++ {
			out[fmt.Sprint(Plain(a.Keys(), j))] = Plain(a.Items(), j)
		}
		return out
	case *array.List:
		from, to := a.ValueOffsets(i)
		out := []any{}
		for j := int(from); j < int(to); j++ {
			out = append(out, Plain(a.ListValues(), j))
		}
		return out
	}
	return json.Number(a.ValueStr(i))
}

func plainFloat(v float64) any { return fmt.Sprintf("f:%016x", math.Float64bits(v)) }
