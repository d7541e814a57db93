package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Scale is an installation to be estimated.
type Scale struct {
	Partitions int     `json:"partitions"`
	GBps       float64 `json:"gbPerSecond"` // of record values
	PB         float64 `json:"petabytes"`   // of record values that the tables hold
	Tables     int     `json:"tables"`      // over which partitions and data are spread evenly
	FlushAge   float64 `json:"flushAge"`    // seconds
	FileMB     float64 `json:"fileMB"`      // of a data file after optimize
	CPUs       float64 `json:"cpus"`        // of one machine
	MemoryGB   float64 `json:"memoryGB"`    // of one machine
}

// DefaultScale is the one that the bench issue asks about: one table of 1,000 partitions, 10 GB/s and 10 PB.
func DefaultScale() Scale {
	return Scale{Partitions: 1000, GBps: 10, PB: 10, Tables: 1, FlushAge: 10, FileMB: 512, CPUs: 8, MemoryGB: 32}
}

// Constant is a measured figure of the model, with where it comes from. One that no report holds has no value, and
// what stands on it is not said.
type Constant struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	Known  bool    `json:"known"`
	Source string  `json:"source"` // report, its commit, case; or that it is the format's, or missing
}

// Estimate is one line of what the model says.
type Estimate struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Limit  float64 `json:"limit,omitempty"` // above which it breaks; 0: a cost, not a limit
	How    string  `json:"how"`
	Remedy string  `json:"remedy,omitempty"`
}

// Load is how near its limit an estimate is; above 1 it breaks.
func (e Estimate) Load() float64 { return e.Value / e.Limit }

// CostModel is arithmetic on medians of reports.
type CostModel struct {
	Scale     Scale      `json:"scale"`
	Prices    Prices     `json:"prices"`
	Constants []Constant `json:"constants"`
	Estimates []Estimate `json:"estimates"` // costs first, then limits, the one that breaks first before the others
}

// NewCostModel takes its constants from reports; of several that hold a case, from the last.
func NewCostModel(reports []*Report, at Scale, p Prices) (*CostModel, error) {
	for _, v := range []float64{float64(at.Partitions), at.GBps, at.PB, float64(at.Tables), at.FlushAge, at.FileMB, at.CPUs, at.MemoryGB} {
		if v <= 0 {
			return nil, fmt.Errorf("scale %+v: every number must be above 0", at)
		}
	}
	m := &CostModel{Scale: at, Prices: p, Constants: modelConstants(reports)}
	m.estimate()
	return m, nil
}

// modelConstants reads what the model stands on out of the reports.
func modelConstants(reports []*Report) []Constant {
	const work, onStore = "ledgerlake, event x12", "ledgerlake, S3 fresh, 2000/s"
	find := func(name, unit, scenario, of string, f func(Sample) float64) Constant {
		c := Constant{Name: name, Unit: unit, Source: fmt.Sprintf("missing: no report of scenario %s with case %q", scenario, of)}
		var passed []string
		for _, r := range reports {
			if r.Scenario != scenario || r.runs(of) == 0 {
				continue
			}
			if v := r.median(of, f); v > 0 {
				file := cmp.Or(r.File, "a report of scenario "+scenario)
				c.Value, c.Known = v, true
				c.Source = fmt.Sprintf("%s, %q, commit %s", file, of, cmp.Or(r.Commit, "not recorded"))
				if len(passed) > 0 {
					c.Source += "; as the last given, not " + strings.Join(passed, ", ")
				}
				passed = append(passed, file)
			}
		}
		return c
	}
	requests := func(kinds ...string) func(Sample) float64 {
		return func(s Sample) (n float64) {
			for kind, k := range s.Requests {
				if slices.Contains(kinds, kind) {
					n += float64(k)
				}
			}
			return n / max(1, float64(s.Versions))
		}
	}
	rate := func(s Sample) float64 { return float64(s.Records) / s.Seconds }
	perFile := func(of func(Sample) float64) func(Sample) float64 {
		return func(s Sample) float64 { return of(s) / max(1, float64(s.Records)) }
	}
	return []Constant{
		find(cpuGB, "CPU s", "ingest", work, func(s Sample) float64 { return s.CPUSeconds / (float64(s.Bytes) / 1e9) }),
		find(stored, "bytes", "ingest", work, func(s Sample) float64 { return float64(s.FileBytes) / float64(s.Bytes) }),
		find(processMemory, "MB", "ingest", work, func(s Sample) float64 { return s.MaxMB }),
		find(puts, "puts", "ingest", onStore, requests("PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "CopyObject", "ListObjectsV2", "ListObjects")),
		find(gets, "gets", "ingest", onStore, requests("GetObject", "HeadObject")),
		find(directRate, "/s", "committer", "versitygw: direct", rate),
		find(groupRate, "/s", "committer", "versitygw: group of 3", rate),
		find(listCPU, "CPU us", "deltalog", checkpointCase, perFile(func(s Sample) float64 { return s.CPUSeconds * 1e6 })),
		find(listMemory, "bytes", "deltalog", checkpointProcess, perFile(func(s Sample) float64 { return s.MaxMB * 1e6 })),
		find(addBytes, "bytes", "deltalog", checkpointSize, perFile(func(s Sample) float64 { return float64(s.FileBytes) })),
	}
}

// Names of the constants.
const (
	cpuGB         = "processor time a GB of values"
	stored        = "bytes stored a byte of values"
	processMemory = "most memory of an ingest process"
	puts          = "puts and lists of the store a version"
	gets          = "gets of the store a version"
	directRate    = "commits a second to one table, direct, 32 writers"
	groupRate     = "commits a second to one table, a group of three, 32 writers"
	listCPU       = "processor time to list a file, from a checkpoint"
	listMemory    = "memory of a listed file"
	addBytes      = "bytes of a file in a checkpoint"
)

// Cases of scenario deltalog that the model uses.
const (
	checkpointCase    = "ledgerlake, statistics and checkpoint"
	checkpointProcess = "ledgerlake process, statistics and checkpoint"
	checkpointSize    = "checkpoint of 1000000 files"
)

// of gives a constant.
func (m *CostModel) of(name string) (float64, bool) {
	i := slices.IndexFunc(m.Constants, func(c Constant) bool { return c.Name == name })
	return m.Constants[i].Value, m.Constants[i].Known
}

// add adds an estimate that stands on constants, if all are known; f gets them in order.
func (m *CostModel) add(e Estimate, f func(c []float64) float64, on ...string) {
	var c []float64
	for _, name := range on {
		v, ok := m.of(name)
		if !ok {
			return
		}
		c = append(c, v)
	}
	e.Value = f(c)
	m.Estimates = append(m.Estimates, e)
}

func (m *CostModel) estimate() {
	at, p := m.Scale, m.Prices
	const month = 30 * 86400
	m.add(Estimate{Name: "processors that ingest uses", Unit: "", How: "rate x processor time a GB"},
		func(c []float64) float64 { return c[0] * at.GBps }, cpuGB)
	m.add(Estimate{Name: "machines", Unit: "", How: fmt.Sprintf("those processors over %g a machine, two thirds used", at.CPUs)},
		func(c []float64) float64 { return m.machines(c[0]) }, cpuGB)
	m.add(Estimate{Name: "processors a TB ingested", Unit: "$", How: "processor time a GB x price"},
		func(c []float64) float64 { return c[0] * 1000 / 3600 * p.CPUHour }, cpuGB)
	m.add(Estimate{Name: "requests a TB ingested", Unit: "$", How: "one process a machine, a version a process and flush age, puts and gets a version x prices"},
		func(c []float64) float64 {
			versions := m.versions(c[0]) / at.GBps * 1000 // a TB
			return versions * (c[1]*p.Put1000 + c[2]*p.Get1000) / 1000
		}, cpuGB, puts, gets)
	m.add(Estimate{Name: "storage a month", Unit: "$", How: "stored bytes x price"},
		func(c []float64) float64 { return at.PB * 1000 * c[0] * p.StorageTBMo }, stored)
	m.add(Estimate{Name: "processors a month", Unit: "$", How: "machines x their processors x price"},
		func(c []float64) float64 { return m.machines(c[0]) * at.CPUs * month / 3600 * p.CPUHour }, cpuGB)
	m.limits()
}

// machines are those that the rate needs, with a third of each kept free.
func (m *CostModel) machines(cpuGB float64) float64 {
	return max(1, ceil(cpuGB*m.Scale.GBps/(m.Scale.CPUs*2/3)))
}

// versions are those of all tables a second when each machine commits for itself.
func (m *CostModel) versions(cpuGB float64) float64 { return m.machines(cpuGB) / m.Scale.FlushAge }

func ceil(v float64) float64 {
	if n := float64(int64(v)); n < v {
		return n + 1
	}
	return v
}

// limits are what breaks, the first before the others.
func (m *CostModel) limits() {
	at, costs := m.Scale, len(m.Estimates)
	files := func(stored float64) float64 { return at.PB * 1e15 * stored / (at.FileMB * 1e6) / float64(at.Tables) }
	machine := at.MemoryGB * 1e9
	m.add(Estimate{
		Name: "memory to list a table's files", Unit: "GB", Limit: at.MemoryGB, How: "files a table x memory of a listed file, against a machine's",
		Remedy: "larger files, or the topic's history in several tables by time; ingest keeps no list (NoFiles) and is not affected",
	}, func(c []float64) float64 { return files(c[0]) * c[1] / 1e9 }, stored, listMemory)
	m.add(Estimate{
		Name: "seconds to list a table's files", Unit: "s", Limit: 60, How: "files a table x processor time of a listed file, against a minute that a reader waits",
		Remedy: "as above; a reader that stays open refreshes by commit and does not pay it again",
	}, func(c []float64) float64 { return files(c[0]) * c[1] / 1e6 }, stored, listCPU)
	m.add(Estimate{
		Name: "size of a checkpoint", Unit: "GB", Limit: machine / 1e9, How: "files a table x bytes of a file in a checkpoint, written anew each time, against what a machine holds",
		Remedy: "as above, or delta.checkpointInterval higher",
	}, func(c []float64) float64 { return files(c[0]) * c[1] / 1e9 }, stored, addBytes)
	m.add(Estimate{
		Name: "commits a second to a table, direct", Unit: "/s", Limit: m.limitOf(directRate), How: "a version a machine and flush age, over the tables",
		Remedy: "a group of committers, which merges them",
	}, func(c []float64) float64 { return m.versions(c[0]) / float64(at.Tables) }, cpuGB, directRate)
	m.add(Estimate{
		Name: "commits a second to a table, through a group", Unit: "/s", Limit: m.limitOf(groupRate), How: "as above",
		Remedy: "a longer flush age",
	}, func(c []float64) float64 { return m.versions(c[0]) / float64(at.Tables) }, cpuGB, groupRate)
	m.add(Estimate{
		Name: "memory of an ingest process a partition", Unit: "MB", Limit: at.MemoryGB * 1000,
		How: "most memory of a process of 12 partitions x the partitions of a machine / 12, as if it grew with them, which the budget keeps it from", Remedy: "--memory",
	}, func(c []float64) float64 { return c[0] * max(1, float64(at.Partitions)/m.machines(c[1])/12) }, processMemory, cpuGB)
	m.add(Estimate{
		Name: "partitions a machine", Unit: "", Limit: float64(at.Partitions), How: "machines beyond the number of partitions have nothing to do",
		Remedy: "more partitions",
	}, func(c []float64) float64 { return m.machines(c[0]) }, cpuGB)
	m.add(Estimate{
		Name: "requests to list a day of a table's versions", Unit: "", Limit: 1000,
		How:    "versions a day over 1,000 names a request, against about half a minute of requests: what log cleanup does, and a reader that has no hint of a checkpoint",
		Remedy: "a longer flush age, a group of committers, shorter log retention",
	}, func(c []float64) float64 { return m.versions(c[0]) / float64(at.Tables) * 86400 / 1000 }, cpuGB)
	slices.SortStableFunc(m.Estimates[costs:], func(a, b Estimate) int { return cmp.Compare(b.Load(), a.Load()) })
}

func (m *CostModel) limitOf(name string) float64 {
	v, _ := m.of(name)
	return v
}

// WriteText writes the model for people.
func (m *CostModel) WriteText(w io.Writer) error {
	at := m.Scale
	fmt.Fprintf(w, "%d partitions, %g GB/s and %g PB of values in %s; a commit each %g s, files of %g MB, machines of %g processors and %g GB\n\n",
		at.Partitions, at.GBps, at.PB, count(at.Tables, "table"), at.FlushAge, at.FileMB, at.CPUs, at.MemoryGB)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "measured\t\tsource")
	for _, c := range m.Constants {
		value := "-"
		if c.Known {
			value = short(c.Value) + " " + c.Unit
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", c.Name, value, c.Source)
	}
	fmt.Fprintln(tw, "\nit costs\t\tby")
	for _, e := range m.Estimates {
		if e.Limit == 0 {
			fmt.Fprintf(tw, "%s\t%s %s\t%s\n", e.Name, short(e.Value), e.Unit, e.How)
		}
	}
	fmt.Fprintln(tw, "\nit breaks, first first\t\tof its limit\tby\tthen")
	for _, e := range m.Estimates {
		if e.Limit > 0 {
			fmt.Fprintf(tw, "%s\t%s %s\t%s times\t%s\t%s\n", e.Name, short(e.Value), e.Unit, short(e.Load()), e.How, e.Remedy)
		}
	}
	return tw.Flush()
}
