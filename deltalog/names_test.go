package deltalog

import (
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	const v, uuid = "00000000000000000010", "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"
	for name, want := range map[string]fileKind{
		v + ".json":               kindCommit,
		v + ".checkpoint.parquet": kindClassic,
		v + ".checkpoint.0000000001.0000000003.parquet": kindMultiPart,
		v + ".checkpoint." + uuid + ".parquet":          kindUUID,
		v + ".checkpoint." + uuid + ".json":             kindUUID,
		v + ".00000000000000000012.compacted.json":      kindCompacted,
		// None of these is ours to read.
		v + ".crc":                                      kindOther,
		v + "." + uuid + ".json":                        kindOther,
		"_commit_" + uuid + ".json.tmp":                 kindOther,
		v + ".json.tmp":                                 kindOther,
		"." + v + ".json.crc":                           kindOther,
		"0" + v + ".json":                               kindOther,
		v[1:] + ".json":                                 kindOther,
		"+0000000000000000010.json":                     kindOther,
		v + ".checkpoint.0000000004.0000000003.parquet": kindOther,
		v + ".checkpoint.0000000000.0000000003.parquet": kindOther,
		v + ".checkpoint.1.3.parquet":                   kindOther,
		v + ".checkpoint.json":                          kindOther,
		v + ".00000000000000000010.compacted.json":      kindOther, // an empty range
		"99999999999999999999.json":                     kindOther, // beyond int64
		"":                                              kindOther,
	} {
		f, ok := parseName(name)
		if f.kind != want || ok != (want != kindOther) {
			t.Errorf("%q: kind %d, ok %v, want %d", name, f.kind, ok, want)
		}
		if ok && (f.version != 10 || f.key != logDir+name) {
			t.Errorf("%q: %+v", name, f)
		}
	}
}

func TestPaths(t *testing.T) {
	for raw, enc := range map[string]string{
		"a/b=1/x.parquet": "a/b=1/x.parquet",
		"a b":             "a%20b",
		"US%2FEast":       "US%252FEast",
		"a+b&c":           "a+b&c",
		"#?<>[]\\^`{|}\"": "%23%3F%3C%3E%5B%5D%5C%5E%60%7B%7C%7D%22",
		"\x01\x7f":        "%01%7F",
		"h\u00e9":         "h\u00e9",
	} {
		if got := EncodePath(raw); got != enc {
			t.Errorf("EncodePath(%q) = %q, want %q", raw, got, enc)
		}
		if got, err := DecodePath(enc); err != nil || got != raw {
			t.Errorf("DecodePath(%q) = %q, %v", enc, got, err)
		}
	}
	for _, bad := range []string{"%", "a%2", "%zz", "%2"} {
		if _, err := DecodePath(bad); err == nil {
			t.Errorf("DecodePath(%q) gave no error", bad)
		}
	}
	if got := EscapePartition("US/East a=b%}<>|\u00e9"); got != "US%2FEast a%3Db%25}<>|\u00e9" {
		t.Errorf("EscapePartition: %q", got)
	}
	for _, p := range []string{"file:/x/y%20z", "file:///x/y%20z", "/x/y%20z", "file://localhost/x/y%20z"} {
		if got := canonicalPath(p); got != "/x/y z" {
			t.Errorf("canonicalPath(%q) = %q", p, got)
		}
	}
	if !strings.HasPrefix(canonicalPath("s3://b/k%20"), "s3://b/k ") {
		t.Error("s3 path")
	}
}
