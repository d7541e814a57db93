package deltalog

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// TestStructStatsEqualJSONStats decodes the struct statistics of foreign checkpoints that hold both forms.
func TestStructStatsEqualJSONStats(t *testing.T) {
	dir := corpusDir(t)
	root := t.TempDir()
	for _, a := range []string{"delta-rs", "kernel-rs", "delta-spark"} {
		extract(t, filepath.Join(dir, a+".tar.gz"), root)
	}
	compared := 0
	for _, pattern := range []string{"*/*/_delta_log/*.parquet", "*/*/_delta_log/_sidecars/*.parquet"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			compared += compareStats(t, name)
		}
	}
	if compared < 40 {
		t.Fatalf("only %d files have both", compared)
	}
}

func compareStats(t *testing.T, name string) (compared int) {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := file.NewParquetReader(bytes.NewReader(b))
	if err != nil {
		return 0 // broken on purpose
	}
	defer f.Close()
	for _, c := range chooseColumns(f, false) {
		if c.name != "add" || c.leaf("stats") == nil {
			continue
		}
		var parsed []*parquetLeaf
		for i := range f.MetaData().Schema.NumColumns() {
			desc := f.MetaData().Schema.Column(i)
			if l, ok := newLeaf(i, desc, nil); ok && l.repeatDef == 0 && strings.HasPrefix(desc.Path(), "add.stats_parsed.") {
				parsed = append(parsed, l)
			}
		}
		c.leaves = append(c.leaves, parsed...)
		stats, structs := c.leaf("stats"), newStatsReader(parsed)
		check := func() error {
			got, want := structs.json(), stats.text()
			if got == "" || want == "" {
				return nil
			}
			compared++
			if g, w := plainStats(t, got), plainStats(t, want); !reflect.DeepEqual(g, w) {
				t.Errorf("%s:\n got %s\nwant %s", filepath.Base(filepath.Dir(filepath.Dir(name))), got, want)
			}
			return nil
		}
		for g := range f.NumRowGroups() {
			if err := readRowGroup(&checkpointSource{size: int64(len(b)), window: b}, f, memory.DefaultAllocator, g, []*parquetColumn{c}, []func() error{check}, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	return compared
}

// plainStats drops nulls, which mean the same as nothing, and zone letters: some writers' columns do not say
// that their times are in UTC.
func plainStats(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(s, `Z"`, `"`)), &v); err != nil {
		t.Fatal(err)
	}
	var drop func(v any)
	drop = func(v any) {
		if m, ok := v.(map[string]any); ok {
			for k, x := range m {
				if x == nil {
					delete(m, k)
				}
				drop(x)
			}
		}
	}
	drop(v)
	return v
}
