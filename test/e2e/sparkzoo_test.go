package e2e

import (
	"bytes"
	"encoding/json"
	"math/big"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Tables that are unlike each other, by Spark (sparkzoo.py says which), are read by us as Spark reads them, row by row, and
// found sound; those whose features we do not have are refused by name.
func TestWeReadSparksZoo(t *testing.T) {
	harness.SparkPython(t)
	folder := t.TempDir()
	rows, versions := map[string]map[string]int{}, map[string]int64{}
	for line := range bytes.Lines(harness.RunSpark(t, "sparkzoo.py", folder)) {
		var a struct {
			Table   string
			Row     any
			Version *int64
			Error   string
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&a); err != nil {
			t.Fatalf("Spark printed %q: %v", line, err)
		}
		switch {
		case a.Error != "":
			t.Errorf("Spark cannot make %s: %s", a.Table, a.Error)
		case a.Version != nil:
			versions[a.Table] = *a.Version
		default:
			if rows[a.Table] == nil {
				rows[a.Table] = map[string]int{}
			}
			rows[a.Table][canonical(t, a.Row)]++
		}
	}
	refused := map[string]string{"variant": "variant"}
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder, name)
			if feature, ok := refused[name]; ok {
				if _, err := harness.TryRun(t, nil, "read", path); err == nil || !strings.Contains(err.Error(), feature) {
					t.Errorf("%v, want a refusal that names %s", err, feature)
				}
				return
			}
			rowsAsCounted(t, readTable(t, path), rows[name])
			harness.Run(t, nil, "check", path)
			if i, err := inspect(t, path); err != nil || i.Version != version {
				t.Errorf("version %d (%v), Spark says %d", i.Version, err, version)
			}
		})
	}
}

// rowsAsCounted fails unless the rows are those that are wanted, each as often.
func rowsAsCounted(t *testing.T, got []map[string]any, want map[string]int) {
	t.Helper()
	n, left := 0, map[string]int{}
	for row, times := range want {
		n, left[row] = n+times, times
	}
	for _, row := range got {
		key := canonical(t, row)
		if left[key]--; left[key] < 0 {
			t.Errorf("a row that Spark does not have: %.1000s", key)
		}
	}
	for row, times := range left {
		if times > 0 {
			t.Errorf("a row is not there: %.1000s", row)
		}
	}
	if len(got) != n {
		t.Errorf("%d rows, Spark has %d", len(got), n)
	}
}

// canonical gives a decoded row as one text, numbers by their value.
func canonical(t *testing.T, row any) string {
	t.Helper()
	var plain func(v any) any
	plain = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if r, ok := new(big.Rat).SetString(v.String()); ok {
				return r.String()
			}
		case []any:
			out := make([]any, len(v))
			for i := range v {
				out[i] = plain(v[i])
			}
			return out
		case map[string]any:
			out := make(map[string]any, len(v))
			for k := range v {
				out[k] = plain(v[k])
			}
			return out
		}
		return v
	}
	b, err := json.Marshal(plain(row))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
