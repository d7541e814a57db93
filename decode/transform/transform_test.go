package transform_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/record"
)

var (
	text   = arrow.BinaryTypes.String
	long   = arrow.PrimitiveTypes.Int64
	stamp  = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	nested = arrow.StructOf(
		arrow.Field{Name: "a", Type: text, Nullable: true},
		arrow.Field{Name: "offset", Type: long, Nullable: true},
		arrow.Field{Name: "deep", Type: arrow.StructOf(arrow.Field{Name: "topic", Type: text, Nullable: true}), Nullable: true},
	)
)

func decoder(t testing.TB, spec transform.Spec, fields ...arrow.Field) *transform.Decoder {
	t.Helper()
	j, err := decode.ForTable(arrow.NewSchema(fields, nil))
	if err != nil {
		t.Fatal(err)
	}
	d, err := transform.New(j, spec, "orders", false)
	if err != nil {
		t.Fatal(err)
	}
	d.Begin(7, record.BatchHeader{LeaderEpoch: 3})
	return d
}

func column(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

func rec(value string) *record.Record {
	return &record.Record{Offset: 42, Timestamp: 1626823098519, Key: []byte("k1"), Value: []byte(value), Headers: []record.Header{
		{Key: []byte("type"), Value: []byte("old")}, {Key: []byte("type"), Value: []byte("order")}, {Key: []byte("none")},
	}}
}

// got gives the value of column x after one record, as text; "(null)" for null.
func got(t *testing.T, typ arrow.DataType, source, value string) string {
	t.Helper()
	d := decoder(t, transform.Spec{Set: []transform.Field{{Property: "x", Source: source}}}, column("x", typ))
	if err := d.AppendRecord(rec(value)); err != nil {
		return "error: " + err.Error()
	}
	return d.Arrays()[0].ValueStr(0)
}

// TestSources has the examples of kafka-delta-ingest's own tests, and what it leaves open. Each expression runs as it is,
// without a tree, and once more over one, with the same result.
func TestSources(t *testing.T) {
	const ts = `{"ts":1626823098,"f":1626823098.51995,"fs":"1626823098.51995","s":"1626823098","m":1732279537028,"u":1626823098519951}`
	for _, c := range []struct {
		typ                 arrow.DataType
		source, value, want string
	}{
		{text, "substr(name, `0`, `4`)", `{"name":"William"}`, "Will"},
		{text, "substr(name, `3`, `4`)", `{"name":"William"}`, "liam"},
		{text, "substr(name, `1`, `2`)", `{"name":"\u00e4\ud83d\ude00\"z"}`, "\U0001F600\""},
		{text, "substr(modified, `0`, `10`)", `{"modified":"2021-03-16T14:38:58Z"}`, "2021-03-16"},
		{arrow.FixedWidthTypes.Date32, "substr(modified, `0`, `10`)", `{"modified":"2021-03-16T14:38:58Z"}`, "2021-03-16"},
		{arrow.FixedWidthTypes.Date32, "modified", `{"modified":"2021-03-16T23:38:58-02:00"}`, "2021-03-17"},
		{arrow.FixedWidthTypes.Date32, "kafka.timestamp", `{}`, "2021-07-20"},
		{text, "epoch_seconds_to_iso8601(ts)", ts, "2021-07-20T23:18:18Z"},
		{text, "epoch_seconds_to_iso8601(f)", ts, "2021-07-20T23:18:18Z"},
		{text, "epoch_seconds_to_iso8601(to_number(fs))", ts, "2021-07-20T23:18:18Z"},
		{text, "epoch_seconds_to_iso8601(to_number(s))", ts, "2021-07-20T23:18:18Z"},
		{text, "epoch_millis_to_iso8601(m)", ts, "2024-11-22T12:45:37.028Z"},
		{text, "epoch_micros_to_iso8601(u)", ts, "2021-07-20T23:18:18.519951Z"},
		{text, "substr(epoch_micros_to_iso8601(u), `0`, `10`)", ts, "2021-07-20"},
		{long, "epoch_millis_to_micro(m)", ts, "1732279537028000"},
		{stamp, "epoch_millis_to_micro(m)", ts, "2024-11-22T12:45:37.028Z"},
		{text, "epoch_seconds_to_iso8601(ts)", `{"ts":-1}`, "1969-12-31T23:59:59Z"},
		{text, "epoch_seconds_to_iso8601(ts)", `{"ts":1e18}`, "error: decode value: x: transform epoch_seconds_to_iso8601(ts): the time is not between the years 1 and 9999 (byte 0)"},
		{long, "a.b.c", `{"a":{"b":{"c":9007199254740993}}}`, "9007199254740993"},
		{long, `"a.b"."c d"`, `{"a.b":{"c d":1,"c\u0020d":2}}`, "2"},
		{text, "a", `{"a":{"b":[1, 2]}}`, `{"b":[1, 2]}`},
		{long, "a.b", `{"a":[1]}`, "(null)"},
		{text, "substr(missing, `0`, `1`)", `{}`, "(null)"}, // a dead letter in kafka-delta-ingest
		{text, "status || 'new'", `{"status":""}`, "new"},
		{text, "status || 'new'", `{"status":"old"}`, "old"},
		{text, "status || a || `7`", `{"a":[ ]}`, "7"},
		{arrow.FixedWidthTypes.Boolean, "n > `3` && !b", `{"n":4,"b":false}`, "true"},
		{arrow.FixedWidthTypes.Boolean, "a == 'x'", `{"a":"\u0078"}`, "true"},
		{text, "join('-', tags[*].n)", `{"tags":[{"n":"a"},{"n":"b"}]}`, "a-b"},
		{long, "length(tags)", `{"tags":[1,2,3]}`, "3"},
		{text, "tags[?n > `1`] | [0].s", `{"tags":[{"n":1,"s":"a"},{"n":2,"s":"b"}]}`, "b"},
		{text, "substr(join('', tags), `1`, `2`)", `{"tags":["ab","cd"]}`, "bc"},
		{long, "length(keys(@))", `{"a":1,"b":2}`, "2"},
	} {
		if s := got(t, c.typ, c.source, c.value); s != c.want {
			t.Errorf("%s of %s is %s, want %s", c.source, c.value, s, c.want)
		}
		if !strings.HasPrefix(c.source, "kafka.") && !strings.HasPrefix(c.want, "error") {
			if s := got(t, c.typ, "not_null("+c.source+")", c.value); strings.ReplaceAll(s, " ", "") != strings.ReplaceAll(c.want, " ", "") {
				t.Errorf("over a tree, %s of %s is %s, want %s", c.source, c.value, s, c.want)
			}
		}
	}
}

func TestRecordSources(t *testing.T) {
	for _, c := range []struct {
		typ          arrow.DataType
		source, want string
	}{
		{arrow.PrimitiveTypes.Int32, "kafka.partition", "7"},
		{long, "kafka.offset", "42"},
		{text, "kafka.offset", "42"},
		{text, "kafka.topic", "orders"},
		{long, "kafka.timestamp", "1626823098519000"},
		{stamp, "kafka.timestamp", "2021-07-20T23:18:18.519Z"},
		{long, "kafka.timestamp_type", "0"},
		{text, "kafka.key", "k1"},
		{arrow.BinaryTypes.Binary, "kafka.key", "azE="},
		{text, "kafka.headers.type", "order"},
		{text, "kafka.headers.none", "(null)"},
		{text, "kafka.headers.other", "(null)"},
		{long, "kafka.schema_id", "(null)"},
		{long, "kafka.leader_epoch", "3"},
	} {
		if s := got(t, c.typ, c.source, `{}`); s != c.want {
			t.Errorf("%s is %s, want %s", c.source, s, c.want)
		}
	}
}

// TestNestedTargets: fields of structs are filled beside what the message has of them, and structs that it lacks are made.
func TestNestedTargets(t *testing.T) {
	spec, err := transform.Parse([]string{"s.offset: kafka.offset", "s.deep.topic: kafka.topic"})
	if err != nil {
		t.Fatal(err)
	}
	d := decoder(t, spec, column("n", long), column("s", nested))
	for _, v := range []string{`{"n":1,"s":{"a":"x"}}`, `{"n":2}`, `{"s":null}`, `{"s":{"offset":1,"deep":{"topic":"t"}}}`, ``} {
		r := rec(v)
		if v == "" {
			r.Value = nil
		}
		if err := d.AppendRecord(r); err != nil {
			t.Fatalf("%s: %v", v, err)
		}
	}
	raw, err := json.Marshal(d.Arrays()[1])
	want := `[{"a":"x","deep":{"topic":"orders"},"offset":42},{"a":null,"deep":{"topic":"orders"},"offset":42},` +
		`{"a":null,"deep":{"topic":"orders"},"offset":42},{"a":null,"deep":{"topic":"orders"},"offset":42},{"a":null,"deep":{"topic":"orders"},"offset":42}]`
	if err != nil || string(raw) != want {
		t.Errorf("struct is\n%s (%v), want\n%s", raw, err, want)
	}
}

// TestPolicies: I7, a record without a value is null, a dead letter or the end, as asked, and leaves no half row.
func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		field transform.Field
		value string
		want  string
	}{
		{transform.Field{}, `{}`, "(null)"},
		{transform.Field{}, `{"a":"x"}`, "dead"},
		{transform.Field{OnError: transform.Null}, `{"a":"x"}`, "(null)"},
		{transform.Field{OnError: transform.Null}, `{}`, "(null)"},
		{transform.Field{OnError: transform.DeadLetter}, `{}`, "dead"},
		{transform.Field{OnError: transform.Fail}, `{}`, "fatal"},
		{transform.Field{OnError: transform.Fail}, `{"a":"x"}`, "fatal"},
		{transform.Field{OnError: transform.Fail, Default: "5"}, `{}`, "5"},
		{transform.Field{Default: "5"}, `{"a":null}`, "5"},
		{transform.Field{Default: "5"}, `{"a":6}`, "6"},
	} {
		c.field.Property, c.field.Source = "x", "a"
		d := decoder(t, transform.Spec{Set: []transform.Field{c.field}}, column("x", long), column("a", text))
		for range 2 {
			err := d.AppendRecord(rec(c.value))
			s := "none"
			var bad *decode.Error
			var fatal *transform.FatalError
			switch {
			case errors.As(err, &fatal):
				s = "fatal"
			case errors.As(err, &bad) && bad.Path == "x":
				s = "dead"
			case err == nil:
				s = d.Arrays()[0].ValueStr(d.Rows() - 1)
			}
			if s != c.want {
				t.Errorf("%+v of %s: %s (%v), want %s", c.field, c.value, s, err, c.want)
			}
			if (err == nil) != (d.Rows() > 0) || d.Rows() > 0 && (d.Arrays()[0].Len() != d.Rows() || d.Arrays()[1].Len() != d.Rows()) {
				t.Errorf("%+v of %s leaves %d rows", c.field, c.value, d.Rows())
			}
		}
	}
}

func TestWhereRenameDrop(t *testing.T) {
	spec := transform.Spec{Rename: map[string]string{"from": "sender"}, Drop: []string{"secret"}, Where: "kafka.headers.type == 'order' && kafka.offset >= `42` && (a || b)"}
	d := decoder(t, spec, column("sender", text), column("secret", text), column("from", text))
	for _, c := range []struct {
		value string
		keep  bool
	}{{`{"a":1,"from":"me","secret":"s"}`, true}, {`{"from":"you"}`, false}, {`{"b":true}`, true}, {`{"a":[]}`, false}} {
		if err := d.AppendRecord(rec(c.value)); (err == nil) != c.keep || err != nil && !errors.Is(err, decode.ErrFiltered) {
			t.Errorf("%s: %v, want kept: %v", c.value, err, c.keep)
		}
	}
	if s := fmt.Sprint(d.Arrays()); s != `[["me" (null)] [(null) (null)] [(null) (null)]]` {
		t.Errorf("rows are %s", s)
	}
	early := decoder(t, transform.Spec{Where: "starts_with(kafka.key, 'k2')"}, column("a", text))
	if err := early.AppendRecord(rec(`this is no JSON`)); !errors.Is(err, decode.ErrFiltered) {
		t.Errorf("the filter comes after the value was decoded: %v", err)
	}
}

func TestBadSpecs(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"date", "want PROPERTY: SOURCE"},
		{"x: kafka.offsets", "there is no source kafka.offsets"},
		{"x: kafka.headers", "there is no source kafka.headers"},
		{"x: substr(a, `1`)", "substr takes 3 arguments, not 2"},
		{"x: nope(a)", `has no function "nope"`},
		{"x: pad_left(a, n)", `has no function "pad_left"`},
		{"x: a[", "JMESPath"},
		{"x..y: a", "an empty name"},
	} {
		if _, err := transform.Parse([]string{c.text}); err == nil || !errors.Is(err, transform.ErrSpec) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := transform.Parse([]string{"x: a", "x.y: b"}); err == nil {
		t.Error("two transforms fill one column")
	}
	j, _ := decode.ForTable(arrow.NewSchema([]arrow.Field{column("a", text)}, nil))
	if _, err := transform.New(j, transform.Spec{Set: []transform.Field{{Property: "x", Source: "a"}}}, "t", false); err == nil || !strings.Contains(err.Error(), "columns [a]") {
		t.Errorf("a column that is not there: %v", err)
	}
}

// TestSpecSurvives: readers of the log find the spec in the table's properties.
func TestSpecSurvives(t *testing.T) {
	s := transform.Spec{Set: []transform.Field{{Property: "x", Source: "a || `1`", Type: "decimal(10,2)", Default: `"d"`, OnError: transform.Fail}}, Where: "a"}
	back, err := transform.Of(map[string]string{transform.Property("app"): s.String()}, "app")
	if err != nil || back.String() != s.String() {
		t.Errorf("%s came back as %s (%v)", s, back, err)
	}
}

func TestExtend(t *testing.T) {
	spec := transform.Spec{Rename: map[string]string{"old": "new"}, Drop: []string{"gone"}, Set: []transform.Field{
		{Property: "date", Source: "kafka.timestamp", Type: "date"}, {Property: "off", Source: "kafka.offset"}, {Property: "at", Source: "epoch_millis_to_iso8601(n)"},
		{Property: "s.topic", Source: "kafka.topic"}, {Property: "price", Source: "n", Type: "decimal(10,2)"}, {Property: "copy", Source: "s.a"},
	}}
	got, err := spec.Extend(arrow.NewSchema([]arrow.Field{column("n", long), column("old", stamp), column("gone", text), column("s", arrow.StructOf(column("a", long)))}, nil))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range got.Fields() {
		all = append(all, f.Name+" "+f.Type.String())
	}
	want := "n int64, s struct<a: int64, topic: utf8>, date date32, off int64, at timestamp[us, tz=UTC], price decimal(10, 2), copy int64, new timestamp[us, tz=UTC]"
	if s := strings.ReplaceAll(strings.Join(all, ", "), " nullable", ""); s != want {
		t.Errorf("columns are\n%s, want\n%s", s, want)
	}
}

// readme are the transforms of kafka-delta-ingest's README.
func readme(t testing.TB) *transform.Decoder {
	spec, err := transform.Parse([]string{"date: substr(meta.producer.timestamp, `0`, `10`)", "meta.kafka.offset: kafka.offset",
		"meta.kafka.partition: kafka.partition", "meta.kafka.topic: kafka.topic"})
	if err != nil {
		t.Fatal(err)
	}
	kafka := arrow.StructOf(column("offset", long), column("topic", text), column("partition", arrow.PrimitiveTypes.Int32))
	producer := arrow.StructOf(column("timestamp", stamp))
	return decoder(t, spec, column("meta", arrow.StructOf(column("kafka", kafka), column("producer", producer))), column("method", text),
		column("status", arrow.PrimitiveTypes.Int32), column("url", text), column("date", arrow.FixedWidthTypes.Date32))
}

const request = `{"meta":{"producer":{"timestamp":"2021-03-24T15:06:17.321710+00:00"}},"method":"DELETE","session_id":"7c28bcf9-be26-4d0b-931a-3374ab4bb458","status":204,"url":"http://www.youku.com","uuid":"831c6afa-375c-4988-b248-096f9ed101f8"}`

func TestWarmDecoderDoesNotAllocate(t *testing.T) {
	d := readme(t)
	r := rec(request)
	for range 100 {
		if err := d.AppendRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		d.Reset()
		for range 50 {
			if err := d.AppendRecord(r); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations for 50 records", n)
	}
	if s := d.Arrays()[4].ValueStr(0); s != "2021-03-24" {
		t.Errorf("date %s", s)
	}
}

func BenchmarkDecoder(b *testing.B) {
	r := rec(request)
	run := func(name string, d decode.Decoder, add func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(request)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%4096 == 0 {
					d.Reset()
				}
				if err := add(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	d := readme(b)
	run("readme", d, func() error { return d.AppendRecord(r) })
	j, err := decode.ForTable(arrow.NewSchema(d.Schema().Fields(), nil))
	if err != nil {
		b.Fatal(err)
	}
	run("without", j, func() error { return j.Append(r.Value) })
	tree := decoder(b, transform.Spec{Set: []transform.Field{{Property: "x", Source: "join('-', [method, url])"}}}, append(d.Schema().Fields(), column("x", text))...)
	run("tree", tree, func() error { return tree.AppendRecord(r) })
}

// FuzzDecoder: I8, no value panics; what needs no tree gives what the same over a tree gives.
func FuzzDecoder(f *testing.F) {
	for _, s := range []string{request, `{"a":{"b":"x\u0041"},"n":1.5}`, `{"a":{"b":[]},"n":-0,"t":"\ud83d\ude00"}`, `{`, `{"n":1e400}`, `{"a":1234567890123456789,"n":1234567890123456790,"t":"18446744073709551616"}`, `{"a":{"x":[9007199254740993]},"t":{"x":[9007199254740992]}}`, ``} {
		f.Add([]byte(s))
	}
	sources := []string{"a.b", "n", "substr(t, `1`, `2`)", "to_number(t)", "a || n", "a == n", "a < n", "to_number(t) >= n", "a == t", "!a", "n > `2`", "epoch_millis_to_iso8601(n)"}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, source := range sources {
			r := rec("")
			r.Value = value
			spec := func(s string) transform.Spec {
				return transform.Spec{Set: []transform.Field{{Property: "x", Source: s, OnError: transform.Null}}}
			}
			fast, tree := decoder(t, spec(source), column("x", text)), decoder(t, spec("not_null("+source+")"), column("x", text))
			below := decoder(t, spec(source), column("x", text), column("a", arrow.StructOf(column("b", text)))) // fields that columns lead to
			if err := below.AppendRecord(r); err == nil && (fast.AppendRecord(r) != nil || below.Arrays()[0].ValueStr(0) != fast.Arrays()[0].ValueStr(0)) {
				t.Fatalf("%s of %q: %q with a column for it, %q without", source, value, below.Arrays()[0].ValueStr(0), fast.Arrays()[0])
			}
			fast.Reset()
			err1, err2 := fast.AppendRecord(r), tree.AppendRecord(r)
			if (err1 == nil) != (err2 == nil) {
				t.Fatalf("%s of %q: %v without a tree, %v with one", source, value, err1, err2)
			}
			if err1 != nil {
				continue
			}
			a, b := fast.Arrays()[0].ValueStr(0), tree.Arrays()[0].ValueStr(0)
			var x, y any // numbers and objects may be written in another way
			same := a == b || json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && strings.ReplaceAll(fmt.Sprint(x), "-0", "0") == strings.ReplaceAll(fmt.Sprint(y), "-0", "0")
			if !same {
				t.Fatalf("%s of %q: %q without a tree, %q with one", source, value, a, b)
			}
		}
	})
}
