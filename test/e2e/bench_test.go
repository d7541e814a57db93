package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// The scenarios of bench run through and their results are right: each compares what it wrote with what was sent, and
// fails on a difference. Nothing is said about speed here.
func TestBenchScenarios(t *testing.T) {
	for _, args := range [][]string{
		{"tiering", "--records", "5000"},
		{"ingest", "--records", "20000", "--case", "event x12,web x12,wide x12,avro x12,divided x12,gzip x12,2 processes,S3 x12"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			if args[0] == "ingest" {
				harness.NeedKafka(t)
			}
			t.Chdir(harness.Top(t))
			file := filepath.Join(t.TempDir(), "report.json")
			harness.Run(t, nil, append([]string{"bench", "--rounds", "1", "--json", file}, args...)...)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			type sample struct {
				Case                string
				Records             int64
				Seconds, CPUSeconds float64
			}
			var r struct {
				Scenario string
				Samples  []sample
				Notes    []string
			}
			if err := json.Unmarshal(b, &r); err != nil {
				t.Fatalf("%v in %s", err, b)
			}
			if r.Scenario != args[0] || len(r.Samples) == 0 {
				t.Fatalf("the report says %+v", r)
			}
			for _, c := range cases(args) {
				absent := slices.ContainsFunc(r.Notes, func(n string) bool { return strings.HasPrefix(n, "case "+c+" did not run") }) // no S3 server, say
				if !absent && !slices.ContainsFunc(r.Samples, func(s sample) bool { return strings.HasSuffix(s.Case, ", "+c) }) {
					t.Errorf("no sample of case %s; the report's notes: %q", c, r.Notes)
				}
			}
			for _, s := range r.Samples {
				if s.Records == 0 || s.Seconds <= 0 || s.CPUSeconds <= 0 {
					t.Errorf("a sample that measures nothing: %+v", s)
				}
			}
		})
	}
}

// cases are those that the arguments ask for.
func cases(args []string) []string {
	if i := slices.Index(args, "--case"); i >= 0 {
		return strings.Split(args[i+1], ",")
	}
	return nil
}
