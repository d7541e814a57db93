package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// The scenarios of bench run through and their results are right: each compares what it wrote with what was sent, and
// fails on a difference. Nothing is said about speed here.
func TestBenchScenarios(t *testing.T) {
	for _, args := range [][]string{
		{"tiering", "--records", "5000"},
		{"ingest", "--records", "20000", "--case", "event x12,web x12"},
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
			var r struct {
				Scenario string
				Samples  []struct {
					Case                string
					Records             int64
					Seconds, CPUSeconds float64
				}
			}
			if err := json.Unmarshal(b, &r); err != nil {
				t.Fatalf("%v in %s", err, b)
			}
			if r.Scenario != args[0] || len(r.Samples) == 0 {
				t.Fatalf("the report says %+v", r)
			}
			for _, s := range r.Samples {
				if s.Records == 0 || s.Seconds <= 0 || s.CPUSeconds <= 0 {
					t.Errorf("a sample that measures nothing: %+v", s)
				}
			}
		})
	}
}
