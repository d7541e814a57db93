package harness

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Event is a message: its bytes as they are produced, and the row that a table must show for it.
type Event struct {
	Key, Value []byte
	Row        map[string]any // column -> value, as JSON decodes it with numbers kept (json.Number)
}

// EventSchema is the Delta schema of the events' payload columns.
const EventSchema = `{"type":"struct","fields":[
{"name":"n","type":"long","nullable":true,"metadata":{}},
{"name":"small","type":"integer","nullable":true,"metadata":{}},
{"name":"name","type":"string","nullable":true,"metadata":{}},
{"name":"amount","type":"double","nullable":true,"metadata":{}},
{"name":"ok","type":"boolean","nullable":true,"metadata":{}},
{"name":"at","type":"timestamp","nullable":true,"metadata":{}},
{"name":"day","type":"date","nullable":true,"metadata":{}},
{"name":"tags","type":{"type":"array","elementType":"string","containsNull":true},"nullable":true,"metadata":{}},
{"name":"place","type":{"type":"struct","fields":[
 {"name":"city","type":"string","nullable":true,"metadata":{}},
 {"name":"zip","type":"integer","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]}`

// WriteEventSchema puts EventSchema into a file, for --schema.
func WriteEventSchema(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(name, []byte(EventSchema), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// words has the strings that engines disagree about: quotes, escapes, several bytes a letter, none at all.
var words = []string{"", "plain", "two words", `quo"te`, `back\slash`, "tab\there", "line\nend", "caf\u00e9",
	"\u65e5\u672c", "\U0001f30a wave", "null", "\u0000zero"}

// NewEvent makes the n-th event of a seed. The same arguments give the same event.
func NewEvent(seed uint64, n int) Event {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	maybe := func(v any) any { // one in eight is null, one in eight is absent
		switch r.IntN(8) {
		case 0:
			return nil
		case 1:
			return absent{}
		}
		return v
	}
	at := time.Unix(1_600_000_000+r.Int64N(200_000_000), r.Int64N(1_000_000)*1000).UTC()
	row := map[string]any{
		"n":      int64(n),
		"small":  maybe(r.Int32() - 1<<30),
		"name":   maybe(someText(r)),
		"amount": maybe(float64(r.Int64N(1_000_000_000))/100 - 1e6),
		"ok":     maybe(r.IntN(2) == 0),
		"at":     maybe(at.Format(time.RFC3339Nano)),
		"day":    maybe(at.Format(time.DateOnly)),
		"tags":   maybe(someTags(r)),
		"place":  maybe(map[string]any{"city": words[r.IntN(len(words))], "zip": r.Int32N(100_000)}),
	}
	message := map[string]any{}
	for name, v := range row {
		if _, ok := v.(absent); ok {
			row[name] = nil
			continue
		}
		message[name] = v
	}
	value := mustJSON(message)
	return Event{Key: fmt.Appendf(nil, "key-%d", n%97), Value: value, Row: normal(row)}
}

type absent struct{}

// someText is short, but for one in sixty that has up to 8 KiB: batches, pages and messages differ in size.
func someText(r *rand.Rand) string {
	text := words[r.IntN(len(words))]
	if r.IntN(60) == 0 {
		text = strings.Repeat(text+" and on ", 1+r.IntN(500))
	}
	return text
}

func someTags(r *rand.Rand) []any {
	tags := make([]any, r.IntN(4))
	for i := range tags {
		if r.IntN(6) > 0 { // else a null inside of the list
			tags[i] = words[r.IntN(len(words))]
		}
	}
	return tags
}

// normal gives a row the form that it has after a trip through JSON.
func normal(row map[string]any) map[string]any {
	out, err := DecodeRow(mustJSON(row))
	if err != nil {
		panic(err) // it was encoded just above
	}
	return out
}

// mustJSON encodes the maps of this file, whose types all have a JSON form.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// DecodeRow decodes one row. Numbers keep their digits.
func DecodeRow(line []byte) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(string(line)))
	d.UseNumber()
	var row map[string]any
	if err := d.Decode(&row); err != nil {
		return nil, fmt.Errorf("row %.200q: %w", line, err)
	}
	return row, nil
}

// DecodeRows decodes NDJSON.
func DecodeRows(t testing.TB, out []byte) []map[string]any {
	t.Helper()
	var rows []map[string]any
	for line := range strings.Lines(string(out)) {
		row, err := DecodeRow([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// Bytes decodes a binary column of a row.
func Bytes(t testing.TB, row map[string]any, column string) []byte {
	t.Helper()
	s, ok := row[column].(string)
	if !ok {
		t.Fatalf("column %s is %v, want base64", column, row[column])
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatalf("column %s: %v", column, err)
	}
	return b
}

// Int decodes a whole number of a row.
func Int(t testing.TB, row map[string]any, column string) int64 {
	t.Helper()
	n, ok := row[column].(json.Number)
	if !ok {
		t.Fatalf("column %s is %v, want a number", column, row[column])
	}
	i, err := n.Int64()
	if err != nil {
		t.Fatalf("column %s: %v", column, err)
	}
	return i
}
