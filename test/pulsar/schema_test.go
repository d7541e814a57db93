package pulsar_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// columnsOf makes Java's own word on messages, and the row of ours, comparable: nulls are nothing, times are without
// trailing zeros and zone.
func columnsOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return plainer(v).(map[string]any)
}

func plainer(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if x != nil {
				out[k] = plainer(x)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, x := range v {
			out = append(out, plainer(x))
		}
		return out
	case json.Number:
		f, err := v.Float64()
		if err == nil && strings.ContainsAny(v.String(), ".eE") {
			return fmt.Sprint(f)
		}
		return v.String()
	case string:
		if at := strings.IndexByte(v, 'T'); at == len(time.DateOnly) && len(v) >= len("2006-01-02T15:04") {
			return shortTime(v)
		}
	}
	return v
}

// schemaTopic is a topic whose messages have schemas of some kinds of PulsarSchemas.java, and what they are as columns.
type schemaTopic struct {
	name, first, later string
	want               []map[string]any
}

// TestSchemasBecomeColumns: topics with schemas of every type of Pulsar's registry, written by Pulsar's Java client, become
// typed columns with the values that Jackson and Protobuf's printer give of the same objects: in the table, in the tail behind
// it, and in the table again. A version of a schema that comes later fills the columns that there are (I4).
func TestSchemasBecomeColumns(t *testing.T) {
	p := harness.Pulsar(t, 50)
	keepAll(t, p)
	topics := []*schemaTopic{{name: "avro-versions", first: "avro1 avro2", later: "avro1"}, {name: "json-versions", first: "json1 json2", later: "json2"},
		{name: "grows", first: "avro1", later: "avro2"}}
	for _, kind := range []string{"avro", "json", "native", "kvinline", "kvjson", "kvnative", "kvints", "int8", "int16", "int32", "int64", "float", "double", "bool",
		"instant", "date", "datetime"} {
		topics = append(topics, &schemaTopic{name: kind, first: kind, later: kind})
	}
	lakes := t.TempDir()
	ingest := func(k *schemaTopic) {
		harness.Run(t, nil, "ingest", p.URL()+"/public/default/"+k.name, filepath.Join(lakes, k.name), "--until-latest", "--log-level", "warn")
		k.compare(t, filepath.Join(lakes, k.name))
	}
	write(t, p, topics, func(k *schemaTopic) string { return k.first })
	for _, k := range topics {
		ingest(k)
	}
	write(t, p, topics, func(k *schemaTopic) string { return k.later })
	for _, k := range topics {
		k.compare(t, p.URL()+"/public/default/"+k.name, "--table", filepath.Join(lakes, k.name))
		ingest(k)
	}
	schemasThatAreRefused(t, p)
}

// write lets Pulsar's client write messages to all topics, in one process.
func write(t *testing.T, p *harness.RealPulsar, topics []*schemaTopic, kinds func(*schemaTopic) string) {
	t.Helper()
	const each = 12
	args, byName := []string{p.URL()}, map[string]*schemaTopic{}
	for _, k := range topics {
		byName[k.name] = k
		for i, kind := range strings.Fields(kinds(k)) {
			args = append(args, kind, k.name, fmt.Sprint(len(k.want)+i*each), fmt.Sprint(each))
		}
	}
	for line := range strings.Lines(string(p.JavaTool(t, "PulsarSchemas.java", args...))) {
		name, text, _ := strings.Cut(line, "\t")
		k := byName[name]
		if k == nil {
			t.Fatalf("PulsarSchemas printed %q", line)
		}
		w := columnsOf(t, text)
		if k.name == "grows" {
			delete(w, "mail") // the table has no such columns
			delete(w, "score")
		}
		k.want = append(k.want, w)
	}
}

// compare reads rows and compares their columns with the messages.
func (k *schemaTopic) compare(t *testing.T, args ...string) {
	t.Helper()
	n := 0
	for line := range strings.Lines(string(harness.Run(t, nil, append([]string{"read"}, args...)...))) {
		got := columnsOf(t, line)
		maps.DeleteFunc(got, func(name string, _ any) bool { return strings.HasPrefix(name, "_") })
		if n >= len(k.want) || !reflect.DeepEqual(got, k.want[n]) {
			t.Fatalf("row %d of %v is\n%v, of %d of Java, which has\n%v", n, args, got, len(k.want), k.want[min(n, len(k.want)-1)])
		}
		n++
	}
	if n != len(k.want) || n == 0 {
		t.Fatalf("%d rows of %v, Java has %d", n, args, len(k.want))
	}
}

// shortTime leaves out zone and zeros at the end.
func shortTime(s string) string {
	s = strings.TrimSuffix(strings.TrimSuffix(s, "Z"), "+00:00")
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if strings.HasSuffix(s, ":00") && len(s) == len("2006-01-02T15:04:00") {
		s = strings.TrimSuffix(s, ":00")
	}
	return s
}

// schemasThatAreRefused: a schema without columns is said to be one; messages that name no schema are dead letters, and
// hold up nothing (I7).
func schemasThatAreRefused(t *testing.T, p *harness.RealPulsar) {
	topic, lake := "public/default/old-protobuf", filepath.Join(t.TempDir(), "lake")
	p.JavaTool(t, "PulsarSchemas.java", p.URL(), "protobuf", topic, "0", "3")
	_, err := harness.TryRun(t, nil, "ingest", p.URL()+"/"+topic, lake, "--until-latest")
	if err == nil || !strings.Contains(err.Error(), "PROTOBUF_NATIVE") || !strings.Contains(err.Error(), "--format raw") {
		t.Errorf("a schema of type PROTOBUF: %v", err)
	}
	harness.Run(t, nil, "ingest", p.URL()+"/"+topic, lake, "--until-latest", "--format", "raw")
	rows := strings.Count(string(harness.Run(t, nil, "read", lake)), "\n")
	if rows != 3 {
		t.Errorf("%d rows of raw values, want 3", rows)
	}

	topic, lake = "public/default/mixed", filepath.Join(t.TempDir(), "mixed")
	p.JavaTool(t, "PulsarSchemas.java", p.URL(), "avro", topic, "0", "5", "bytes", topic, "5", "4", "avro", topic, "9", "5")
	harness.Run(t, nil, "ingest", p.URL()+"/"+topic, lake, "--until-latest")
	if rows := strings.Count(string(harness.Run(t, nil, "read", lake)), "\n"); rows != 10 {
		t.Errorf("%d rows, want the 10 that have a schema", rows)
	}
	letters := string(harness.Run(t, nil, "read", lake+"_dead_letters"))
	if n := strings.Count(letters, "names no version of the topic's schema, which is of type AVRO"); n != 4 {
		t.Errorf("%d dead letters say why, want 4:\n%s", n, letters)
	}
}
