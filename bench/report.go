package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Sample is one measured run of one side of a scenario.
type Sample struct {
	Case       string  `json:"case"` // what was run, e.g. "ledgerlake" or "plain"
	Round      int     `json:"round"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"` // user and system, of this process
	Records    int64   `json:"records"`
	Bytes      int64   `json:"bytes"`           // of record values
	MaxMB      float64 `json:"maxMB,omitempty"` // most memory, where it was looked at

	// Of a table that was filled.
	Files     int64 `json:"files,omitempty"`
	Versions  int64 `json:"versions,omitempty"`
	FileBytes int64 `json:"fileBytes,omitempty"`

	// Milliseconds from when a record was sent until it was in the table; of scenario broker: acknowledged.
	P50 float64 `json:"p50,omitempty"`
	P95 float64 `json:"p95,omitempty"`
	P99 float64 `json:"p99,omitempty"`

	StartMS  float64          `json:"startMs,omitempty"`  // from the start of the program until a first record is in the table
	Requests map[string]int64 `json:"requests,omitempty"` // of the object store, by kind, for the making and the filling of the table
	CPULimit float64          `json:"cpuLimit,omitempty"` // processors that the program was allowed
	Failed   string           `json:"failed,omitempty"`   // why the run did not do what was asked; a sample of a limit, not of speed
}

// Goal is one aim of a scenario with what was measured.
type Goal struct {
	Name string  `json:"name"`
	Want float64 `json:"want"`
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
}

// Report is the result of one scenario; its JSON form is stable: never change a field; add.
type Report struct {
	Scenario string    `json:"scenario"`
	File     string    `json:"-"` // name of the file that it is in, if any
	Machine  string    `json:"machine"`
	Commit   string    `json:"commit,omitempty"` // of the program that measured
	Time     time.Time `json:"time"`
	Samples  []Sample  `json:"samples"`
	Goals    []Goal    `json:"goals"`
	Notes    []string  `json:"notes,omitempty"` // what a reader must know
}

// atLeast adds a goal that got must reach.
func (r *Report) atLeast(name string, want, got float64) {
	r.Goals = append(r.Goals, Goal{Name: name, Want: want, Got: got, Met: got >= want})
}

// atMost adds a goal that got must not pass.
func (r *Report) atMost(name string, want, got float64) {
	r.Goals = append(r.Goals, Goal{Name: name, Want: want, Got: got, Met: got <= want})
}

// cases are the names of the cases, in the order in which they ran.
func (r *Report) cases() []string {
	var out []string
	for _, s := range r.Samples {
		if !slices.Contains(out, s.Case) {
			out = append(out, s.Case)
		}
	}
	return out
}

// runs is the number of samples of a case.
func (r *Report) runs(name string) (n int) {
	for _, s := range r.Samples {
		if s.Case == name {
			n++
		}
	}
	return n
}

// bounds gives the least and the most of f over the samples of a case.
func (r *Report) bounds(name string, f func(Sample) float64) (low, high float64) {
	first := true
	for _, s := range r.Samples {
		if s.Case != name {
			continue
		}
		v := f(s)
		if first {
			low, high, first = v, v, false
		}
		low, high = min(low, v), max(high, v)
	}
	return low, high
}

// median gives the median of f over the samples of a case.
func (r *Report) median(name string, f func(Sample) float64) float64 {
	var v []float64
	for _, s := range r.Samples {
		if s.Case == name {
			v = append(v, f(s))
		}
	}
	return middle(v)
}

// ratio gives the median, over the rounds that have both cases, of f of one over f of the other: what changes on the machine
// between rounds is in both. NaN, which meets no goal, when there is no such round.
func (r *Report) ratio(name, over string, f func(Sample) float64) float64 {
	rounds := map[int]float64{}
	for _, s := range r.Samples {
		if s.Case == over {
			rounds[s.Round] = f(s)
		}
	}
	var v []float64
	for _, s := range r.Samples {
		if s.Case != name {
			continue
		}
		if over, under := f(s), rounds[s.Round]; over > 0 && under > 0 { // nothing takes none: it was not measured
			v = append(v, over/under)
		}
	}
	if len(v) == 0 {
		return math.NaN()
	}
	return middle(v)
}

// middle is the median; 0 of nothing.
func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}

func perSecond(s Sample) float64    { return float64(s.Bytes) / 1e6 / s.Seconds }
func perCPUSecond(s Sample) float64 { return float64(s.Bytes) / 1e6 / max(s.CPUSeconds, 1e-9) }

// remarks is what else the samples of a case say.
func (r *Report) remarks(name string) string {
	var out []string
	if ms := r.median(name, func(s Sample) float64 { return s.StartMS }); ms > 0 {
		out = append(out, fmt.Sprintf("first record after %.1f s", ms/1000))
	}
	for _, s := range r.Samples {
		if s.Case != name {
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(s.Requests)) {
			out = append(out, fmt.Sprintf("%d %s", s.Requests[kind], kind))
		}
		if s.Failed != "" {
			out = append(out, "FAILED: "+s.Failed)
		}
		break
	}
	return strings.Join(out, ", ")
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// decimals are more for what is near the time of a disk sync.
func decimals(ms float64) int {
	if ms < 10 {
		return 2
	}
	return 1
}

// WriteText writes the report for people: a row a case with median and spread, then the goals.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "scenario %s on %s\n", r.Scenario, r.Machine)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "case\truns\tMB/s median\tmin..max\tMB per CPU s\trecords/s\tmax MB\tfiles\twaited ms, p50/p95/p99\t")
	for _, c := range r.cases() {
		lo, hi := r.bounds(c, perSecond)
		n := r.runs(c)
		memory := ""
		if mb := r.median(c, func(s Sample) float64 { return s.MaxMB }); mb > 0 {
			memory = fmt.Sprintf("%.0f", mb)
		}
		files, visible := "", ""
		if n := r.median(c, func(s Sample) float64 { return float64(s.Files) }); n > 0 {
			files = fmt.Sprintf("%.0f", n)
		}
		if p50 := r.median(c, func(s Sample) float64 { return s.P50 }); p50 > 0 {
			visible = fmt.Sprintf("%s/%.1f/%.1f", strconv.FormatFloat(p50, 'f', decimals(p50), 64), r.median(c, func(s Sample) float64 { return s.P95 }), r.median(c, func(s Sample) float64 { return s.P99 }))
		}
		fmt.Fprintf(tw, "%s\t%d\t%.0f\t%.0f..%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\n", c, n, r.median(c, perSecond), lo, hi,
			r.median(c, perCPUSecond), r.median(c, func(s Sample) float64 { return float64(s.Records) / s.Seconds }), memory, files, visible, r.remarks(c))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	for _, g := range r.Goals {
		verdict := "MET"
		if !g.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "goal %s: want %.2f, got %.2f: %s\n", g.Name, g.Want, g.Got, verdict)
	}
	return nil
}
