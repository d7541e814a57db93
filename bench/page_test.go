package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPageShowsEachFigureAndWhatWasMissed(t *testing.T) {
	r := &Report{
		Scenario: "ingest", Machine: "a machine", Commit: "abc", Time: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), Notes: []string{"a note"},
		Samples: []Sample{
			{Case: "ledgerlake, web x1", Seconds: 2, CPUSeconds: 1, Records: 4000, Bytes: 1e6, MaxMB: 50, FileBytes: 5e5},
			{Case: "ledgerlake, web x1", Round: 1, Seconds: 1, CPUSeconds: 1, Records: 4000, Bytes: 1e6, MaxMB: 60, FileBytes: 5e5},
			{Case: "peer & co, web x1", Seconds: 8, CPUSeconds: 8, Records: 4000, Bytes: 1e6, MaxMB: 300},
			{Case: "ledgerlake, fresh, 9/s", Seconds: 8, CPUSeconds: 2, Records: 72, Bytes: 1e3, P50: 700, P95: 900, P99: 1000},
		},
	}
	r.atLeast("a goal that holds", 2, 4)
	r.atMost("a goal that does not", 2, 4)
	dir := t.TempDir()
	if err := WritePage(dir, []*Report{r}, PageInfo{Prices: DefaultPrices(), Notes: []string{"left out: Pulsar"}}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| a goal that holds | 2.00 | 4.00 | met |", "| a goal that does not | 2.00 | 4.00 | **missed** |", "\n- left out: Pulsar\n", "| 4 | 60 MB resident for it |  |  | not measured here |", "commit abc, on a machine", "- a note",
		"(ingest-0.svg)", "| web x1 | peer & co | 2222 |", "700.0/900.0/1000.0"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	plots, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil || len(plots) != len(pageMeasures) {
		t.Fatalf("%d plots for %d measures, %v", len(plots), len(pageMeasures), err)
	}
	for _, name := range plots {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(f); err == nil; {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s is not XML: %v", name, err)
		}
		_ = f.Close()
	}
	again, err := ReadReport(filepath.Join(dir, "ingest.json"))
	if err != nil || len(again.Samples) != len(r.Samples) || len(again.Goals) != 2 {
		t.Errorf("the report beside the page: %+v, %v", again, err)
	}
}

func TestReadReportRefusesOtherFiles(t *testing.T) {
	for _, text := range []string{"", "{}", "[1]", `{"scenario":"x"}`, `{"scenario":"../../evil","samples":[{}]}`} {
		name := filepath.Join(t.TempDir(), "r.json")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadReport(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Two reports of one scenario keep files of their own, so that each figure can be traced to its samples.
func TestPageOfTwoRunsOfOneScenario(t *testing.T) {
	dir := t.TempDir()
	run := func(seconds float64) *Report {
		return &Report{Scenario: "log", Samples: []Sample{{Case: "ledgerlake", Seconds: seconds, Records: 10, Bytes: 10, CPUSeconds: 1}}}
	}
	if err := WritePage(dir, []*Report{run(1), run(2)}, PageInfo{Prices: DefaultPrices()}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"log.json": 1, "log-run2.json": 2} {
		r, err := ReadReport(filepath.Join(dir, name))
		if err != nil || r.Samples[0].Seconds != want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// Parts of one scenario, by one program on one machine, are one report on the page.
func TestPageJoinsPartsOfAScenario(t *testing.T) {
	of := func(name, commit string) *Report {
		return &Report{Scenario: "ingest", Commit: commit, Samples: []Sample{{Case: name, Seconds: 1, Records: 10, Bytes: 10, CPUSeconds: 1}}, Notes: []string{"the same"}, Goals: []Goal{{Name: name}}}
	}
	got := joined([]*Report{of("ledgerlake, a", "1"), of("ledgerlake, b", "1"), of("ledgerlake, a", "1"), of("ledgerlake, c", "2")})
	if len(got) != 3 || len(got[0].Samples) != 2 || len(got[0].Goals) != 2 || len(got[0].Notes) != 1 || len(got[1].Samples) != 1 || got[2].Commit != "2" {
		t.Errorf("%+v", got)
	}
}

// Goals that other cases and programs measure are rows of the page: met, or missed.
func TestPageStatesHistoryTheTalkAndTheSoak(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	write := func(length, verification string, flat bool) {
		t.Helper()
		text := fmt.Sprintf(`{"length":%q,"records":900,"verification":%q,"commit":"old","time":"2026-11-28T00:00:00Z","machine":"m",
			"verdicts":[{"name":"rss","growth":5,"allowed":10,"flat":true},{"name":"handles","growth":%d,"allowed":10,"flat":%v}],
			"samples":[{"at":1000000000,"values":{"rss":3e6}},{"at":2000000000,"values":{"rss":2e6,"rows":900,"cpu_seconds":1}}]}`,
			length, verification, map[bool]int{true: -1, false: 20}[flat], flat)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sample := func(name string, records int64) []Sample {
		return []Sample{{Case: name, Seconds: 1, CPUSeconds: 2, Records: records, Bytes: 500e6}}
	}
	broker := &Report{Scenario: "broker", Commit: "new", Samples: sample(brokerCase(sideHistory, "consume", 12), 9)}
	historyGoals(broker)
	replay := &Report{Scenario: "replay", Commit: "new", Samples: sample("2 workers", 9)}
	talkGoal(replay, "2 workers", talkRecords, 1e6)
	talkGoal(replay, "reprocess, a copy", 2_000_000, 0.5e6)
	for _, c := range []struct {
		length, verification string
		flat                 bool
		said                 string
	}{
		{"30m0s", SoakVerified, true, "met | at commit old, 2026-11-28 |"},
		{"30m0s", SoakVerified, false, "**missed** in 1 of 4 | at commit old, 2026-11-28 |"},
		{"29m0s", SoakVerified, true, "**missed** in 1 of 4 | at commit old, 2026-11-28 |"},
		{"30m0s", "row 7 is there twice", true, "**missed** in 1 of 4 | at commit old, 2026-11-28 |"},
	} {
		write(c.length, c.verification, c.flat)
		soak, err := ReadReport(file)
		if err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		writeAims(&page, []*Report{broker, replay, soak})
		for _, want := range []string{
			"200 MB/s of record bytes a core | 200 | 250 | met |  |",
			"where it took 40 minutes | 60.0 | 50.0, 100 | **missed** in 1 of 2 | seconds for 5 x 10 million messages at the rate of 5 x 2.00 M; the slowest is 24.0 times",
			"over half an hour at full rate | 1.00 | ", c.said,
		} {
			if !strings.Contains(page.String(), want) {
				t.Errorf("%+v: the page lacks %q:\n%s", c, want, page.String())
			}
		}
		if s := soak.Samples[0]; s.MaxMB != 3 || s.Records != 900 {
			t.Errorf("%+v", s)
		}
	}
}
