package deltalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseErrorsSayWhere(t *testing.T) {
	for line, want := range map[string]string{
		`{`:                               "line 2",
		`{"add":{"path":1}}`:              "want a string",
		`{"add":{"path":""}}`:             "without path",
		`{"add":{"path":"a","size":1.5}}`: "whole number",
		`{"add":{"path":"a","size":99999999999999999999}}`: "64 bits",
		`{"add":{"path":"a","size":-1}}`:                   "size -1",
		`{"add":{"path":"a","partitionValues":{"x":1}}}`:   "want a string",
		`{"add":{"path":"a","partitionValues":"x"}}`:       "want an object",
		`{"add":{"path":"a"}} x`:                           "end of the line",
		`{"add":{"path":"a\u12"}}`:                         "hex digit",
		`{"add":{"path":"a\q"}}`:                           "escape",
		`{"txn":{"appId":"a"}}`:                            "without appId or version",
		`{"protocol":{}}`:                                  "minReaderVersion",
		`{"metaData":{"id":5}}`:                            "cannot unmarshal",
		`[]`:                                               `want "{"`,
		`nul`:                                              "want",
		`{"x":01}`:                                         "want",
		`{"x":tru}`:                                        "true",
		`{"x":` + strings.Repeat("[", 5000):                "deeper",
	} {
		_, err := parseCommit([]byte("\n"+line), "f.json")
		var c *CorruptError
		if !errors.As(err, &c) || c.File != "f.json" || c.Line != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", line, err, want)
		}
	}
}

func TestParallelParseIsTheSame(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(protocolLine + metadataLine)
	for i := range 12_000 {
		b.WriteString(addLine(fmt.Sprint("some/longer/path/of/a/file-", i)))
		if i%3 == 0 {
			b.WriteString(removeLine(fmt.Sprint("some/longer/path/of/a/file-", i)))
		}
	}
	one, err := parseLines(b.Bytes(), "x", 1)
	if err != nil {
		t.Fatal(err)
	}
	pieces := splitLines(b.Bytes(), 5)
	if len(pieces) != 5 || !bytes.Equal(bytes.Join(pieces, nil), b.Bytes()) {
		t.Fatalf("%d pieces", len(pieces))
	}
	many := &actions{}
	line := 1
	for _, p := range pieces {
		a, err := parseLines(p, "x", line)
		if err != nil {
			t.Fatal(err)
		}
		if err := many.join(a); err != nil {
			t.Fatal(err)
		}
		line += bytes.Count(p, []byte("\n"))
	}
	if d := cmp.Diff(one, many, cmp.AllowUnexported(actions{}), cmp.FilterValues(func(_, _ slab) bool { return true }, cmp.Ignore())); d != "" {
		t.Fatal(d[:min(len(d), 2000)])
	}
	broken := bytes.Replace(b.Bytes(), []byte(`file-11000"`), []byte(`file-11000`), 1)
	_, err1 := parseLines(broken, "x", 1)
	_, err2 := parseCommit(broken, "x")
	if err1 == nil || err2 == nil || err1.Error() != err2.Error() {
		t.Fatalf("%v / %v", err1, err2)
	}
}

func TestParseStats(t *testing.T) {
	s, ok := ParseStats(`{"numRecords":3,"minValues":{"a":12345678901234567890}}`)
	if !ok || *s.NumRecords != 3 || string(s.MinValues["a"]) != "12345678901234567890" {
		t.Fatalf("%+v", s)
	}
	for _, bad := range []string{"", "{", `{"numRecords":"x"}`} {
		if _, ok := ParseStats(bad); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// samePlain checks that the quick reader of adds reads a line as the other one does, if it reads it at all, and says whether it
// did.
func samePlain(t *testing.T, row []byte) bool {
	t.Helper()
	read := false
	for _, tagTexts := range []bool{false, true} {
		quick, careful := &parser{a: &actions{}, in: newInterner(), tagTexts: tagTexts}, &parser{a: &actions{}, in: newInterner(), tagTexts: tagTexts}
		if !quick.plainAdd(row) {
			if len(quick.a.adds) > 0 || len(quick.a.tagTexts) > 0 {
				t.Fatalf("%q: something is left of it", row)
			}
			continue
		}
		read = true
		if err := careful.line(row); err != nil {
			t.Fatalf("%q was accepted: %v", row, err)
		}
		if d := cmp.Diff(quick.a.adds, careful.a.adds); d != "" || !slices.Equal(quick.a.tagTexts, careful.a.tagTexts) {
			t.Fatalf("%q\n%s%q %q", row, d, quick.a.tagTexts, careful.a.tagTexts)
		}
	}
	return read
}

// Adds that are written as nearly all are take a short way, which gives what the long one does; others take the long one.
func TestPlainAdds(t *testing.T) {
	for _, c := range []struct {
		line  string
		plain bool
	}{
		{`{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true}}`, true},
		{`{"add":{"path":"a","partitionValues":{"p":null,"q":"\u00fc"},"size":1,"modificationTime":-2,"dataChange":false,"stats":"{\"numRecords\":1}"}}`, true},
		{"{\"add\":{\"dataChange\":true,\"stats\":\"\",\"size\":0,\"path\":\"\\u0061\u00fc\\\"\",\"tags\":{\"a\":\"b\",\"c\":null}}}", true}, // tags as text only
		{`{"add":{"path":"a","path":"b","size":1,"size":2}}`, true},
		{`{"add":{"path":"a","size":1} }`, false},
		{`{"add":{"path":"a","size":1}} `, false},
		{`{"add":{"path":"a","size":1},"txn":{"appId":"a","version":1}}`, false},
		{`{"add":{"path":"a","size":1}}}`, false},
		{`{"add":{"path":"a","size":1,}}`, false},
		{`{"add":{"path":"a","size":01}}`, false},
		{`{"add":{"path":"a","size":1.0}}`, false},
		{`{"add":{"path":"a","size":-1}}`, false},
		{`{"add":{"path":"","size":1}}`, false},
		{`{"add":{"size":1}}`, false},
		{`{"add":{}}`, false},
		{`{"add":{"path":"a`, false},
		{`{"add":{"path":"a"`, false},
		{`{"add":{"path":"a"}`, false},
		{`{"add":{"path":null,"size":1}}`, false},
		{`{"add":{"path":"a","dataChange":truex}}`, false},
		{`{"add":{"path":"a","dataChange":null}}`, false},
		{`{"add":{"path":"a","partitionValues":{"a":1}}}`, false},
		{`{"add":{"path":"a","partitionValues":{"a":"b"}]}`, false},
		{`{"add":{"path":"a","stats":null}}`, false},
		{`{"add":{"path":"a","deletionVector":{"storageType":"u"}}}`, false},
		{"{\"add\":{\"path\":\"a\nb\"}}", false},
		{`{"remove":{"path":"a"}}`, false},
		{``, false},
	} {
		if got := samePlain(t, []byte(c.line)); got != c.plain {
			t.Errorf("%s: read by the short way: %v, want %v", c.line, got, c.plain)
		}
	}
}

// FuzzParseCommit checks that the scanner takes no line that is not JSON, never panics, and that what it read can
// be written and read again (I8).
func FuzzParseCommit(f *testing.F) {
	for _, s := range []string{protocolLine, metadataLine, addLine("a"), removeLine("b"),
		`{"add":{"path":"x\u00e9\ud83d\ude00","partitionValues":{"p":null},"size":-0,"tags":{"a":"b"},"deletionVector":{"storageType":"u"}}}`,
		`{"txn":{"appId":"a","version":5}}`, `{"unknown":[1,2.5e-3,{"a":null}],"add":null}`, "{\"add\":{\"path\":\"\xff\"}}", `{"domainMetadata":{"domain":"d"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for row := range bytes.Lines(data) {
			samePlain(t, bytes.TrimSuffix(row, []byte("\n")))
		}
		a, err := parseCommit(data, "f")
		if err != nil {
			return
		}
		for row := range bytes.Lines(data) {
			row = bytes.TrimSuffix(row, []byte("\n"))
			if len(bytes.TrimLeft(row, " \t\r")) > 0 && !json.Valid(row) {
				t.Fatalf("accepted %q, which is not JSON", row)
			}
		}
		out, err := encodeCommit(map[string]any{}, a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseCommit(out, "again")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		same := cmp.Options{cmpopts.EquateEmpty()}
		if d := cmp.Diff(a.adds, b.adds, same); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(a.removes, b.removes, same); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(a.txns, b.txns, same); d != "" {
			t.Fatal(d)
		}
	})
}
