package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// PageInfo is what a page of results says beside the results.
type PageInfo struct {
	Prices Prices // of the estimate of costs
}

// measureKind is one thing that a page shows of samples.
type measureKind struct {
	name, unit string
	of         func(Sample) float64
}

var pageMeasures = []measureKind{
	{"records a second", "/s", func(s Sample) float64 { return float64(s.Records) / max(s.Seconds, 1e-9) }},
	{"records per CPU second", "/CPU s", func(s Sample) float64 {
		if s.CPUSeconds <= 0 {
			return 0
		}
		return float64(s.Records) / s.CPUSeconds
	}},
	{"most memory", " MB", func(s Sample) float64 { return s.MaxMB }},
	{"sent to visible, p50", " ms", func(s Sample) float64 { return s.P50 }},
	{"sent to visible, p99", " ms", func(s Sample) float64 { return s.P99 }},
	{"share of one processor", " %", func(s Sample) float64 {
		if s.P50 == 0 {
			return 0
		}
		return 100 * s.CPUSeconds / s.Seconds
	}},
}

// ReadReport reads the JSON form of a report.
func ReadReport(file string) (*Report, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s is no report of ledgerlake bench: %w", file, err)
	}
	if r.Scenario == "" || len(r.Samples) == 0 {
		return nil, fmt.Errorf("%s is no report of ledgerlake bench: it has no scenario or no samples", file)
	}
	if !scenarioName.MatchString(r.Scenario) {
		return nil, fmt.Errorf("%s is no report of ledgerlake bench: scenario %q", file, r.Scenario)
	}
	return r, nil
}

// scenarioName is what may become the name of a file.
var scenarioName = regexp.MustCompile(`^[a-z]+$`)

// WritePage makes README.md in a folder, with a plot a measure and the reports themselves, so that every figure on the
// page can be traced to its samples.
func WritePage(dir string, reports []*Report, info PageInfo) error {
	if len(reports) == 0 {
		return errors.New("no reports")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, "# Benchmarks, %s\n\nEvery figure is a median; samples are in the JSON files beside this page.\n", reports[0].Time.Format("2006-01-02"))
	page.WriteString("Bars compare within a group, whiskers are the least and the most of the runs. `ledgerlake bench` makes the reports, `ledgerlake bench report` this page.\n")
	writeGoals(&page, reports)
	for i, r := range reports {
		name := r.Scenario
		if slices.ContainsFunc(reports[:i], func(o *Report) bool { return o.Scenario == name }) {
			name = fmt.Sprintf("%s-run%d", r.Scenario, i+1)
		}
		if err := writeScenario(&page, dir, name, r); err != nil {
			return err
		}
	}
	writeCosts(&page, reports, info.Prices)
	return os.WriteFile(filepath.Join(dir, "README.md"), page.Bytes(), 0o644)
}

// writeGoals lists all goals, met or not.
func writeGoals(page *bytes.Buffer, reports []*Report) {
	page.WriteString("\n## Goals\n\n| scenario | goal | want | got | |\n|---|---|---:|---:|---|\n")
	for _, r := range reports {
		for _, g := range r.Goals {
			verdict := "met"
			if !g.Met {
				verdict = "**missed**"
			}
			fmt.Fprintf(page, "| %s | %s | %s | %s | %s |\n", r.Scenario, g.Name, short(g.Want), short(g.Got), verdict)
		}
	}
}

// writeScenario adds a report to the page; the files beside it begin with name.
func writeScenario(page *bytes.Buffer, dir, name string, r *Report) error {
	fmt.Fprintf(page, "\n## %s\n\n%s, commit %s, on %s\n\n", r.Scenario, r.Time.Format("2006-01-02 15:04 MST"), cmp.Or(r.Commit, "not recorded"), r.Machine)
	for _, n := range r.Notes {
		fmt.Fprintf(page, "- %s\n", n)
	}
	f, err := os.Create(filepath.Join(dir, name+".json"))
	if err != nil {
		return err
	}
	if err := errors.Join(r.WriteJSON(f), f.Close()); err != nil {
		return err
	}
	for i, m := range pageMeasures {
		groups := r.groups(m)
		if len(groups) == 0 {
			continue
		}
		file := fmt.Sprintf("%s-%d.svg", name, i)
		var plot bytes.Buffer
		if err := writePlot(&plot, r.Scenario+": "+m.name, groups); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), plot.Bytes(), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(page, "\n![%s: %s](%s)\n", r.Scenario, m.name, file)
	}
	page.WriteString("\n<details><summary>All figures</summary>\n\n```\n")
	if err := r.WriteText(page); err != nil {
		return err
	}
	page.WriteString("```\n\n</details>\n")
	return nil
}

// groups gives the medians of a measure by piece of work; nothing when no sample has it.
func (r *Report) groups(m measureKind) []barGroup {
	var out []barGroup
	for _, name := range r.cases() {
		v := r.median(name, m.of)
		if v == 0 {
			continue
		}
		side, work := splitCase(name)
		i := slices.IndexFunc(out, func(g barGroup) bool { return g.title == work })
		if i < 0 {
			out, i = append(out, barGroup{title: work}), len(out)
		}
		low, high := r.bounds(name, m.of)
		out[i].bars = append(out[i].bars, bar{
			label: side, value: v, low: low, high: high, ours: strings.HasPrefix(side, "ledgerlake"), valueAsShown: short(v) + m.unit,
		})
	}
	return out
}

// splitCase parts "side, work". A case without a comma is a side of the scenario's only work.
func splitCase(name string) (side, work string) {
	side, work, _ = strings.Cut(name, ", ")
	return side, work
}

// short shows a number in about three digits.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.1f k", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
