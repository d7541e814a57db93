package transform_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestTransformsEqualPatchedMessages: whatever a message has at, above and beside the fields that transforms fill, its
// row is that of a message in which they stood before it was decoded. I7: what is refused leaves no trace between them.
func TestTransformsEqualPatchedMessages(t *testing.T) {
	seed := seedtest.New(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	d := readme(t)
	want, err := decode.ForTable(arrow.NewSchema(d.Schema().Fields(), nil))
	if err != nil {
		t.Fatal(err)
	}
	d.Begin(3, record.BatchHeader{})
	for offset := range 3000 {
		members := []string{`"method":"PUT"`, `"status":` + pick("200", "null", `"x"`)}
		for range rng.IntN(3) {
			kafka := pick(`null`, `{}`, `{"offset":5}`, `{"topic":null,"offset":6,"x":[1]}`)
			producer := pick(`null`, `{}`, `{"timestamp":"2021-03-24T15:06:17Z"}`, `{"timestamp":null}`, `{"timestamp":"2022-01-01T00:00:00Z","\u0074imestamp":"2023-02-03T00:00:00Z"}`)
			members = append(members, pick(`"meta":null`, `"meta":{}`, `"meta":{"kafka":`+kafka+`}`, `"m\u0065ta":{"producer":`+producer+`}`,
				`"meta":{"producer":`+producer+`,"kafka":`+kafka+`,"producer":`+pick(producer, `{}`, `null`)+`}`))
		}
		rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		value := "{" + strings.Join(members, ",") + "}"
		r := &record.Record{Offset: record.Offset(offset), Value: []byte(value), Timestamp: 1}
		got, plain := d.AppendRecord(r), want.Append(patched(t, value, offset))
		if (got == nil) != (plain == nil) || d.Rows() != want.Rows() {
			t.Fatalf("seed %d: %s: %v, patched %v; %d rows and %d", seed, value, got, plain, d.Rows(), want.Rows())
		}
		if rng.IntN(20) == 0 {
			n := max(0, d.Rows()-rng.IntN(3))
			d.Truncate(n)
			want.Truncate(n)
		}
	}
	for i, a := range d.Arrays() {
		b := want.Arrays()[i]
		if array.Equal(a, b) {
			continue
		}
		for row := range a.Len() {
			if a.ValueStr(row) != b.ValueStr(row) {
				t.Fatalf("seed %d: column %s row %d: %s, patched %s", seed, d.Schema().Field(i).Name, row, a.ValueStr(row), b.ValueStr(row))
			}
		}
		t.Fatalf("seed %d: column %s differs", seed, d.Schema().Field(i).Name)
	}
}

// patched is a message with what the transforms of readme set.
func patched(t *testing.T, value string, offset int) []byte {
	var m map[string]any
	if err := json.Unmarshal([]byte(value), &m); err != nil {
		t.Fatal(err)
	}
	object := func(of map[string]any, name string) map[string]any {
		o, ok := of[name].(map[string]any)
		if !ok {
			o = map[string]any{}
			of[name] = o
		}
		return o
	}
	if meta, ok := m["meta"].(map[string]any); ok {
		if producer, ok := meta["producer"].(map[string]any); ok {
			if at, ok := producer["timestamp"].(string); ok {
				m["date"] = at[:10]
			}
		}
	}
	kafka := object(object(m, "meta"), "kafka")
	kafka["offset"], kafka["partition"], kafka["topic"] = offset, 3, "orders"
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
