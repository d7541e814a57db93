package format_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/gzip"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/decodetest"
	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

var (
	long   = arrow.PrimitiveTypes.Int64
	text   = arrow.BinaryTypes.String
	double = arrow.PrimitiveTypes.Float64
)

func schema(fields ...arrow.Field) *arrow.Schema { return arrow.NewSchema(fields, nil) }

func col(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

func decoder(t testing.TB, spec string, o format.Options, payload *arrow.Schema) decode.Decoder {
	t.Helper()
	f, err := format.Parse(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	d, err := f.NewDecoder(payload)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func row(d decode.Decoder, i int) string {
	var out []any
	for _, a := range d.Arrays() {
		out = append(out, decodetest.Plain(a, i))
	}
	return fmt.Sprint(out)
}

// What a table records opens the same format again, and holds no secret; a registry that is named goes first.
func TestFormatsInTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.avsc")
	if err := os.WriteFile(file, []byte(`{"type":"record","name":"R","fields":[{"name":"n","type":"long"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	reg := registry.Config{URLs: []string{"http://me:hidden@127.0.0.1:1/x?token=hidden", "http://127.0.0.1:2"}, User: "you", Password: "hidden"}
	for _, c := range []struct {
		name string
		o    format.Options
		want string
	}{
		{"json", format.Options{}, ""},
		{"raw", format.Options{}, ""},
		{"json+gzip", format.Options{}, `{"format":"json+gzip"}`},
		{"csv", format.Options{CSV: format.CSVOptions{Fields: []string{"a", "b"}, Comma: ';', Null: "-"}}, `{"format":"csv","csv":{"fields":["a","b"],"comma":59,"null":"-"}}`},
		{"avro-confluent", format.Options{Registry: reg, Subject: "s"}, `{"format":"avro-confluent","registry":["http://127.0.0.1:1/x","http://127.0.0.1:2"]}`},
		{"protobuf-confluent", format.Options{Registry: reg, Message: "m.M"}, `{"format":"protobuf-confluent","registry":["http://127.0.0.1:1/x","http://127.0.0.1:2"],"message":"m.M"}`},
		{"json-registry", format.Options{Registry: reg, Validate: true}, `{"format":"json-registry","registry":["http://127.0.0.1:1/x","http://127.0.0.1:2"],"validate":true}`},
		{"avro-raw+gzip", format.Options{SchemaFile: file}, ""},
	} {
		made, err := format.Parse(c.name, c.o)
		if err != nil {
			t.Fatal(err)
		}
		text := made.String()
		if c.o.SchemaFile == "" && text != c.want || strings.Contains(text, "hidden") || strings.Contains(text, file) {
			t.Errorf("%s in a table is %s, want %s", c.name, text, c.want)
		}
		again, err := format.Of(map[string]string{format.Property("app"): text}, "app", format.Access{})
		if err != nil {
			t.Fatal(err)
		}
		if (again == nil) != (text == "") || again != nil && (again.Name != c.name || again.String() != text) {
			t.Errorf("%s comes back as %v from %s", c.name, again, text)
		}
		if other, err := format.Of(map[string]string{format.Property("app"): text}, "other", format.Access{}); other != nil || err != nil {
			t.Errorf("of another application: %v, %v", other, err)
		}
	}
	near, err := format.Of(map[string]string{format.Property("a"): `{"format":"avro-confluent","registry":["http://127.0.0.1:1"]}`}, "a", format.Access{Registry: registry.Config{URLs: []string{"http://127.0.0.1:9"}}})
	if err != nil || !strings.Contains(near.String(), "127.0.0.1:9") || strings.Contains(near.String(), "127.0.0.1:1\"") {
		t.Errorf("with a registry that is named: %v, %v", near, err)
	}
	for _, text := range []string{"x", `{"format":"xml"}`, `{"format":"avro-raw"}`, `{"format":"avro-raw","schemas":["AAAA"]}`, `{"format":"csv","csv":{"comma":300}}`} {
		if f, err := format.Of(map[string]string{format.Property("app"): text}, "app", format.Access{}); err == nil || !strings.Contains(err.Error(), "--format") {
			t.Errorf("%s gives %v, %v", text, f, err)
		}
	}
}

// A schema that is too large for a property is left out of it, and asked for.
func TestLargeSchemasStayOutOfTables(t *testing.T) {
	var doc strings.Builder
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50_000 {
		fmt.Fprintf(&doc, "%016x", rng.Uint64())
	}
	made, err := format.Parse("avro-raw", format.Options{Schemas: []string{`{"type":"record","name":"R","doc":"` + doc.String() + `","fields":[{"name":"n","type":"long"}]}`}})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.String(); got != `{"format":"avro-raw"}` {
		t.Errorf("a property of %d bytes", len(got))
	}
	if _, err := format.Of(map[string]string{format.Property("app"): made.String()}, "app", format.Access{}); err == nil || !strings.Contains(err.Error(), "avro-raw needs a schema file (--value-schema); say how") {
		t.Errorf("Of = %v", err)
	}
}

func TestSpecsAreChecked(t *testing.T) {
	reg := registry.Config{URLs: []string{"http://127.0.0.1:1"}}
	for spec, c := range map[string]struct {
		o    format.Options
		want string
	}{
		"xml":                {format.Options{}, `"xml" is not one of json, json-registry`},
		"json+zip":           {format.Options{}, `"json+zip" is not one of`},
		"avro-confluent":     {format.Options{}, "avro-confluent needs a schema registry"},
		"json":               {format.Options{Registry: reg}, "json has no use for a schema registry"},
		"avro-raw":           {format.Options{}, "avro-raw needs a schema file"},
		"avro-container":     {format.Options{SchemaFile: "x"}, "has no use for a schema file"},
		"protobuf":           {format.Options{SchemaFile: "x"}, "needs the name of a message"},
		"csv":                {format.Options{Message: "M"}, "has no use for the name of a message"},
		"raw":                {format.Options{CSV: format.CSVOptions{Null: "x"}}, "has no use for settings of CSV"},
		"json-registry":      {format.Options{Registry: registry.Config{URLs: []string{"nowhere"}}}, "http://HOST:PORT"},
		"protobuf-confluent": {format.Options{Registry: reg, Validate: true}, "has no use for validation"},
		"avro-soe":           {format.Options{SchemaFile: "/does/not/exist"}, "no such file"},
		"pulsar":             {format.Options{}, "pulsar needs a topic of Pulsar"},
		"pulsar+gzip":        {format.Options{Kind: "JSON"}, "do not say that values are compressed"},
		"csv+gzip":           {format.Options{CSV: format.CSVOptions{Comma: '"'}}, "cannot stand between fields"},
	} {
		if _, err := format.Parse(spec, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Parse(%s) = %v, want %q", spec, err, c.want)
		}
	}
	for _, name := range format.Names() {
		if !strings.Contains(name, "registry") && !strings.Contains(name, "confluent") && name != "avro-soe" && name != "avro-raw" && name != "protobuf" && name != "pulsar" {
			if _, err := format.Parse(name+"+gzip", format.Options{}); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestSchemaFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.avsc": `{"type":"record","name":"A","fields":[{"name":"a","type":"long"}]}`,
		"b.avsc": `{"type":"record","name":"B","fields":[{"name":"b","type":"string"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := decoder(t, "avro-raw", format.Options{SchemaFile: filepath.Join(dir, "b.avsc")}, schema(col("b", text)))
	if err := d.Append([]byte{4, 'h', 'i'}); err != nil || row(d, 0) != "[hi]" {
		t.Errorf("%v, %s", err, row(d, 0))
	}
	f, err := format.Parse("avro-soe", format.Options{SchemaFile: dir})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := f.Columns(t.Context(), nil); err != nil || s.Field(0).Name != "a" {
		t.Errorf("columns %v, %v: want those of the first file", s, err)
	}
}

func TestGzip(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	fmt.Fprint(w, `{"a":1}`)
	w.Close()
	d := decoder(t, "json+gzip", format.Options{}, schema(col("a", long)))
	var bad *decode.Error
	for _, v := range []string{`{"a":1}`, "", zipped.String()[:20], zipped.String()[:5]} {
		if err := d.Append([]byte(v)); !errors.As(err, &bad) || !strings.HasPrefix(bad.Reason, "gzip: ") {
			t.Errorf("Append(%q) = %v", v, err)
		}
	}
	if err := errors.Join(d.Append(zipped.Bytes()), d.Append(nil)); err != nil || row(d, 0)+row(d, 1) != "[1][<nil>]" {
		t.Errorf("%v, %s", err, row(d, 0))
	}
	var bomb bytes.Buffer // I8
	w = gzip.NewWriter(&bomb)
	for range 70 {
		_, _ = w.Write(make([]byte, 1<<20))
	}
	w.Close()
	if err := d.Append(bomb.Bytes()); !errors.As(err, &bad) || !strings.Contains(bad.Reason, "more than 64 MiB") {
		t.Errorf("%d bytes that are 70 MiB: %v", bomb.Len(), err)
	}
}

func TestCSV(t *testing.T) {
	o := format.Options{CSV: format.CSVOptions{Fields: []string{"id", "skipped", "name", "price", "day"}, Comma: ';', Null: `\N`}}
	d := decoder(t, "csv", o, schema(col("day", arrow.FixedWidthTypes.Date32), col("price", double), col("id", long), col("name", text), col("other", text)))
	for line, want := range map[string]string{
		"1;x;a b;1.5;2026-01-02":         "[20455 f:3ff8000000000000 1 a b <nil>]",
		"-7;;\"q\"\";\r\n\";0;\\N\r\n":   "[<nil> f:0000000000000000 -7 q\";\r\n <nil>]",
		"2;;\"\\N\";\\N;1970-01-01\n":    "[0 <nil> 2 \\N <nil>]",
		"3;;;1;1970-01-01":               "[0 f:3ff0000000000000 3  <nil>]",
		"4;;\x01\\\u00e9;1;1970-01-01\n": "[0 f:3ff0000000000000 4 \x01\\\u00e9 <nil>]",
	} {
		n := d.Rows()
		if err := d.Append([]byte(line)); err != nil || row(d, n) != want {
			t.Errorf("%q: %v, %s, want %s", line, err, row(d, n), want)
		}
	}
	for line, want := range map[string]string{
		"1;x;a":                       "the line has 3 fields, want 5 (byte 5)",
		"1;x;a;1;1970-01-01;6":        "the line has more than 5 fields (byte 19)",
		"1;x;\"a;1;1970-01-01":        "name: a quoted field has no end (byte 4)",
		"1;x;\"a\"b;1;1970-01-01":     "name: a quoted field goes on behind its quote (byte 7)",
		"1;x;a\"b;1;1970-01-01":       `name: '"' in a field without quotes (byte 5)`,
		"one;x;a;1;1970-01-01":        "id: ",
		"1;x;a;1;yesterday":           "day: the string is not a date of the form YYYY-MM-DD (byte 8)",
		"1;x;\xff;1;1970-01-01":       "the line is not UTF-8",
		"1;x;a;1;1970-01-01\n2;x;a;1": `day: '\n' in a field without quotes (byte 18)`,
	} {
		n := d.Rows()
		var bad *decode.Error
		if err := d.Append([]byte(line)); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || d.Rows() != n {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	byTable := decoder(t, "csv", format.Options{}, schema(col("a", long), col("b", text)))
	if err := byTable.Append([]byte("1,x")); err != nil || row(byTable, 0) != "[1 x]" {
		t.Errorf("%v, %s", err, row(byTable, 0))
	}
}

// Raw leaves the columns of a table empty.
func TestRaw(t *testing.T) {
	d := decoder(t, "raw", format.Options{}, schema(col("a", long)))
	if err := d.Append([]byte{0xff}); err != nil || row(d, 0) != "[<nil>]" {
		t.Errorf("%v, %s", err, row(d, 0))
	}
}

// I7: JSON of a registry is decoded without it, and checked against it on request.
func TestJSONOfARegistry(t *testing.T) {
	srv := srfake.New()
	defer srv.Close()
	id, _, err := srv.RegisterSchema("t-value", sr.Schema{Type: sr.TypeJSON, Schema: `{"type":"object","required":["a"],"properties":{"b":{"type":"string"},"a":{"type":"integer","minimum":0}}}`})
	if err != nil {
		t.Fatal(err)
	}
	o := format.Options{Registry: registry.Config{URLs: []string{srv.URL()}}, Subject: "t-value"}
	f, err := format.Parse("json-registry", o)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := f.Columns(t.Context(), nil)
	if err != nil || payload.String() != schema(col("b", text), col("a", long)).String() {
		t.Fatalf("columns %v, %v", payload, err)
	}
	framed := func(id int, s string) []byte { return append([]byte{0, 0, 0, 0, byte(id)}, s...) }
	var bad *decode.Error
	loose := decoder(t, "json-registry", o, payload)
	o.Validate = true
	strict := decoder(t, "json-registry", o, payload)
	for _, d := range []decode.Decoder{loose, strict} {
		if err := d.Append(framed(id, `{"a":1,"b":"x"}`)); err != nil || row(d, 0) != "[x 1]" {
			t.Errorf("%v, %s", err, row(d, 0))
		}
		if err := d.Append(framed(id, `{"a":1,"b":"x}`)); !errors.As(err, &bad) || bad.Pos < 5 {
			t.Errorf("half of an object: %v", err)
		}
		if err := d.Append([]byte(`{"a":1}`)); !errors.As(err, &bad) {
			t.Errorf("no frame: %v", err)
		}
	}
	if err := loose.Append(framed(id, `{"a":-1}`)); err != nil {
		t.Error(err)
	}
	if err := strict.Append(framed(id, `{"a":-1}`)); !errors.As(err, &bad) || !strings.Contains(bad.Reason, "at '/a': minimum: got -1, want 0") {
		t.Errorf("a value that the schema forbids: %v", err)
	}
	srv.Close()
	var away *decode.UnavailableError
	if err := strict.Append(framed(99, `{"a":1}`)); !errors.As(err, &away) {
		t.Errorf("an outage: %v", err)
	}
}
