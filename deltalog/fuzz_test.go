package deltalog

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzCheckpoint checks that whatever a checkpoint file holds becomes actions or an error, within bounded memory, and that what
// became actions once does again (I8).
func FuzzCheckpoint(f *testing.F) {
	f.Add(textCheckpoint(f, 3, "x", compress.Codecs.Snappy, true, "stats", "stats_parsed.minValues.a"))
	f.Add(textCheckpoint(f, 3, "x", compress.Codecs.Brotli, false, "stats"))
	f.Add(datedCheckpoint(f, -141428, "org.apache.spark.version", "2.4.0"))
	for _, settings := range []map[string]string{nil, structSettings()} {
		b, _, err := encodeCheckpoint(structTable(f, settings, allStats, "", `{"numRecords":5}`), time.Now())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		read := func(light bool) (*actions, error) {
			all := &actions{}
			err := parseParquet(&checkpointSource{size: int64(len(b)), window: b}, light, func(a *actions) error {
				if err := all.joinNamed(a); err != nil {
					return err
				}
				if len(all.adds) < 100 {
					for i := range a.adds {
						x := a.adds[i]
						x.Path, x.Stats = string([]byte(x.Path)), string([]byte(x.Stats)) // which are good for this call
						all.adds = append(all.adds, x)
					}
				}
				return nil
			})
			return all, err
		}
		_, _ = read(true)
		one, err := read(false)
		if err != nil {
			return
		}
		two, err := read(false)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(one.adds, two.adds, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// FuzzSchema checks that a schema that is read is written as one that is read as the same (I8).
func FuzzSchema(f *testing.F) {
	for _, s := range []string{`{"type":"struct","fields":[]}`, `{"type":"struct","fields":[{"name":"a","type":"decimal(38,18)","nullable":false,"metadata":{"x":[1,null]}}]}`,
		`{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":{"type":"map","keyType":"string","valueType":"variant","valueContainsNull":true},"containsNull":false},"nullable":true}]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		one, err := ParseSchema(s)
		if err != nil {
			return
		}
		text := one.JSON()
		two, err := ParseSchema(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if again := two.JSON(); again != text {
			t.Fatalf("%s\nbecame\n%s", text, again)
		}
		_, _ = ToArrow(one)
	})
}

// FuzzPath checks that what is encoded for the log is decoded as it was, and that anything can be decoded (I8).
func FuzzPath(f *testing.F) {
	for _, s := range []string{"a b", "p=%3A/x", "%", "%zz", "file:///x", "\x00\xff", "s3://b/k?x#y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, _ = DecodePath(s)
		_ = canonicalPath(s)
		if got, err := DecodePath(EncodePath(s)); err != nil || got != s {
			t.Fatalf("%q became %q by %q, %v", s, got, EncodePath(s), err)
		}
	})
}
