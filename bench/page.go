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
	Prices Prices   // of the estimate of costs
	Notes  []string // lines at the top, such as what was left out
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

// ReadReport reads the JSON form of a report, or what `make soak` writes. Of a soak that does not say when it ended, the file's
// time tells it.
func ReadReport(file string) (*Report, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if r, ok := soakReport(b, info.ModTime()); ok {
		r.File = file
		return r, nil
	}
	r := &Report{File: file}
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
	reports = joined(reports)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, "# Benchmarks, %s\n\nMedians; the samples are in the JSON files beside this page. Bars compare within a group, whiskers are the least and the most of the runs.\n",
		reports[0].Time.Format("2006-01-02"))
	for _, note := range info.Notes {
		fmt.Fprintf(&page, "- %s\n", note)
	}
	if err := writeRatios(&page, dir, reports); err != nil {
		return err
	}
	writeAims(&page, reports)
	for i, r := range reports {
		name := r.Scenario
		if slices.ContainsFunc(reports[:i], func(o *Report) bool { return o.Scenario == name }) {
			name = fmt.Sprintf("%s-run%d", r.Scenario, i+1)
		}
		named := *r
		named.File = name + ".json"
		reports[i] = &named
		if err := writeScenario(&page, dir, name, r); err != nil {
			return err
		}
	}
	if err := writeCosts(&page, reports, info.Prices); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), page.Bytes(), 0o644)
}

// joined makes one report of those that are parts of one: the same scenario, program and machine, and other cases.
func joined(reports []*Report) (out []*Report) {
	for _, r := range reports {
		i := slices.IndexFunc(out, func(o *Report) bool {
			return o.Scenario == r.Scenario && o.Commit == r.Commit && o.Machine == r.Machine &&
				!slices.ContainsFunc(r.cases(), func(c string) bool { return o.runs(c) > 0 })
		})
		if i < 0 {
			out = append(out, r)
			continue
		}
		o := *out[i]
		o.Samples, o.Goals = slices.Concat(o.Samples, r.Samples), slices.Concat(o.Goals, r.Goals)
		for _, n := range r.Notes {
			if !slices.Contains(o.Notes, n) {
				o.Notes = append(slices.Clone(o.Notes), n)
			}
		}
		out[i] = &o
	}
	return out
}

// writeRatios draws how many times the daemon's figures ours are, in every drain in which both ran.
func writeRatios(page *bytes.Buffer, dir string, reports []*Report) error {
	var groups []barGroup
	for _, r := range reports {
		if r.Scenario == "ingest" {
			groups = append(groups, r.ratios()...)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	var plot bytes.Buffer
	if err := writePlot(&plot, "ledgerlake beside kafka-delta-ingest, times its records", groups, true); err != nil {
		return err
	}
	page.WriteString("\n![ledgerlake beside kafka-delta-ingest](ratios.svg)\n")
	return os.WriteFile(filepath.Join(dir, "ratios.svg"), plot.Bytes(), 0o644)
}

// ratios are those of the drains in which the daemon ran.
func (r *Report) ratios() (groups []barGroup) {
	for _, name := range r.cases() {
		side, work := splitCase(name)
		daemon := sideDaemon + ", " + work
		if side != sideOurs || r.runs(daemon) == 0 || r.median(name, func(s Sample) float64 { return s.P50 }) > 0 {
			continue
		}
		g := barGroup{title: work}
		for _, m := range pageMeasures[:2] {
			if theirs := r.median(daemon, m.of); theirs > 0 {
				v := r.median(name, m.of) / theirs
				g.bars = append(g.bars, bar{label: m.name[len("records "):], value: v, ours: true, valueAsShown: short(v) + " x"})
			}
		}
		if len(g.bars) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// writeGoals lists the goals of a scenario, met or not.
func writeGoals(page *bytes.Buffer, r *Report) {
	if len(r.Goals) == 0 {
		return
	}
	page.WriteString("\n| goal | want | got | |\n|---|---:|---:|---|\n")
	for _, g := range r.Goals {
		verdict := "met"
		if !g.Met {
			verdict = "**missed**"
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s |\n", g.Name, short(g.Want), short(g.Got), verdict)
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
	plotted := r
	if r.Scenario == "deployments" {
		plotted = r.boxes()
		writeBoxes(page, r)
	}
	for i, m := range pageMeasures {
		groups := plotted.groups(m)
		if len(groups) == 0 {
			continue
		}
		file := fmt.Sprintf("%s-%d.svg", name, i)
		var plot bytes.Buffer
		if err := writePlot(&plot, r.Scenario+": "+m.name, groups, false); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), plot.Bytes(), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(page, "\n![%s: %s](%s)\n", r.Scenario, m.name, file)
	}
	page.WriteString("\n<details><summary>All figures and goals</summary>\n")
	writeGoals(page, r)
	page.WriteString("\n```\n")
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
