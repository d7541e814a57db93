package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// deployment is an installation of kafka-delta-ingest that its authors told of in a talk in 2022, with the processors
// that each of its tasks had.
type deployment struct {
	name, about string
	work        ingestCase
	cpus        float64 // of each task
}

func deployments() []deployment {
	of := func(name, shape string, rate, tasks int, cpus float64, size string) deployment {
		return deployment{
			name: name, cpus: cpus,
			about: fmt.Sprintf("%d messages of %s a second, 12 partitions, %s of %g processors", rate, size, count(tasks, "task"), cpus),
			work:  ingestCase{name: name, shape: shape, partitions: 12, processes: tasks, rate: rate, seconds: 10, latency: 2},
		}
	}
	return []deployment{
		of("talk A", "event2k", 3000, 1, 0.4, "2 KB"),
		of("talk B", "event1k", 1000, 1, 0.25, "1.2 KB"),
		of("talk C", "event3k", 8000, 3, 2, "3 KB"),
	}
}

// boxSteps are the shares of a processor that are tried, a task.
var boxSteps = []float64{0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1, 1.5, 2}

// boxProbes bounds the shares that are tried for one side of a deployment.
const boxProbes = 4

// RunDeployments replays the deployments at their rates and looks for the smallest box that holds each, for this
// program and for the daemon when Config.ReferenceBin names it.
func RunDeployments(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	chosen, err := chosenDeployments(cfg)
	if err != nil {
		return nil, err
	}
	sides, _, err := ingestSides(cfg)
	if err != nil {
		return nil, err
	}
	sides = slices.DeleteFunc(sides, func(s ingestSide) bool { return s.name != sideOurs && s.name != sideDaemon })
	r := &Report{Scenario: "deployments", Machine: Machine(), Time: time.Now().UTC(), Notes: ingestNotes(cfg)}
	bed, stop, err := newTestbed(ctx, cfg, r)
	if err != nil {
		return nil, err
	}
	defer stop()
	var failed []error
	for _, d := range chosen {
		for _, side := range sides {
			if err := bed.size(ctx, d, side); err != nil {
				failed = append(failed, fmt.Errorf("%s, %s: %w", d.name, side.name, err))
				r.Notes = append(r.Notes, failed[len(failed)-1].Error())
			}
		}
		deploymentGoals(r, d)
	}
	return r, errors.Join(failed...)
}

func chosenDeployments(cfg Config) ([]deployment, error) {
	all := deployments()
	if len(cfg.Cases) == 0 {
		return all, nil
	}
	var out []deployment
	for _, name := range cfg.Cases {
		i := slices.IndexFunc(all, func(d deployment) bool { return d.name == name })
		if i < 0 {
			return nil, fmt.Errorf("bench: no case %q; there are talk A, talk B, talk C", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// size looks for the smallest step that holds a side: first without a limit, which says what it uses; then at the step
// above that, and on from there, down while a step holds and up while none does.
func (b *testbed) size(ctx context.Context, d deployment, side ingestSide) error {
	free, err := b.probe(ctx, d, side, 0)
	if err != nil {
		return err
	}
	if free.Failed != "" {
		b.report.Notes = append(b.report.Notes, fmt.Sprintf("%s does not hold %s even with the whole machine: %s", side.name, d.name, free.Failed))
		return nil
	}
	tasks := float64(d.work.processes)
	at := stepAbove(free.CPUSeconds / free.Seconds / tasks)
	held := map[int]bool{}
	for range boxProbes {
		s, err := b.probe(ctx, d, side, boxSteps[at])
		if errors.Is(err, errNoBox) {
			b.report.noBox(err)
			return nil
		}
		if err != nil {
			return err
		}
		held[at] = s.Failed == ""
		next := at + 1
		if held[at] {
			next = at - 1
		}
		if _, known := held[next]; known || next < 0 || next == len(boxSteps) {
			break
		}
		at = next
	}
	return nil
}

// stepAbove is the index of the first step that is no smaller than what is used.
func stepAbove(used float64) int {
	i, _ := slices.BinarySearch(boxSteps, used)
	return min(i, len(boxSteps)-1)
}

// errNoBox is the error of a system that gives no control groups.
var errNoBox = errors.New("no limit of processors here, shares are measured only")

func (r *Report) noBox(err error) {
	if note := err.Error(); !slices.Contains(r.Notes, note) {
		r.Notes = append(r.Notes, note)
	}
}

// probe runs a side at the deployment's rate, in a box of cpus processors a task; 0: without one. A side that does not keep
// up is a sample with Failed, not an error.
func (b *testbed) probe(ctx context.Context, d deployment, side ingestSide, cpus float64) (s Sample, err error) {
	c := d.work
	if c.name = d.name + freely; cpus > 0 {
		c.name = fmt.Sprintf("%s, %g of a processor a task", d.name, cpus)
	}
	w := b.work(c)
	if err := w.prepare(ctx); err != nil {
		return s, err
	}
	if cpus > 0 {
		if w.box, err = newBox(c.processes, cpus); err != nil {
			return s, fmt.Errorf("%w: %w", errNoBox, err)
		}
		defer func() { err = errors.Join(err, w.box.close()) }()
	}
	topic := fmt.Sprintf("deployment-%d", w.number)
	if err := w.node.createTopic(ctx, topic, w.partitions); err != nil {
		return s, err
	}
	s, err = w.steady(ctx, side, topic, 0)
	s.Case, s.CPULimit = side.name+", "+c.name, cpus
	switch limit := 3000 * float64(c.latency); {
	case errors.Is(err, errBehind):
		s.Failed, err = "did not keep up", nil
	case err != nil && side.foreign && ctx.Err() == nil:
		line, _, _ := strings.Cut(err.Error(), "\n")
		s.Failed, err = fmt.Sprintf("%.300s", line), nil
	case err == nil && s.P99 > limit:
		s.Failed = fmt.Sprintf("99 of 100 messages were visible after %.1f s only", s.P99/1000)
	}
	if err == nil {
		s.Seconds = max(s.Seconds, float64(c.seconds)) // of one that did not come to its end
		b.report.Samples = append(b.report.Samples, s)
	}
	return s, err
}

// deploymentGoals compares the boxes. That of the talk is a goal for us; beside the daemon there is none.
func deploymentGoals(r *Report, d deployment) {
	ours, theirs := r.smallestBox(sideOurs, d.name), r.smallestBox(sideDaemon, d.name)
	if ours > 0 {
		r.atMost(d.name+": processors a task, ledgerlake", d.cpus, ours)
	}
	if ours > 0 && theirs > 0 {
		r.atLeast(d.name+": processors a task, kafka-delta-ingest / ledgerlake", 1, theirs/ours)
	}
}

// boxes keeps of each side and deployment the run without a limit, for plots.
func (r *Report) boxes() *Report {
	out := &Report{Scenario: r.Scenario}
	for _, s := range r.Samples {
		if name, ok := strings.CutSuffix(s.Case, freely); ok {
			s.Case = name
			out.Samples = append(out.Samples, s)
		}
	}
	return out
}

// freely ends the names of runs without a limit.
const freely = ", no limit"

// writeBoxes is the table of what each deployment needs.
func writeBoxes(page *bytes.Buffer, r *Report) {
	page.WriteString("\n| deployment | side | processors used, no limit | smallest box that held, processors | visible there, p50/p99 ms | most memory, MB |\n|---|---|---:|---:|---:|---:|\n")
	for _, d := range deployments() {
		for _, side := range []string{sideOurs, sideDaemon} {
			free := side + ", " + d.name + freely
			if r.runs(free) == 0 {
				continue
			}
			used := r.median(free, func(s Sample) float64 { return s.CPUSeconds / s.Seconds })
			box, waited := "-", "-"
			if least := r.smallestBox(side, d.name); least > 0 {
				tasks := max(1, d.work.processes)
				box = short(least * float64(tasks))
				i := slices.IndexFunc(r.Samples, func(s Sample) bool {
					return s.CPULimit == least && s.Failed == "" && strings.HasPrefix(s.Case, side+", "+d.name+", ")
				})
				waited = fmt.Sprintf("%.0f/%.0f", r.Samples[i].P50, r.Samples[i].P99)
			}
			fmt.Fprintf(page, "| %s: %s | %s | %.3f | %s | %s | %.0f |\n", d.name, d.about, side, used, box, waited, r.median(free, func(s Sample) float64 { return s.MaxMB }))
		}
	}
}

// smallestBox is the smallest share that held a side; 0: none did, or none was tried.
func (r *Report) smallestBox(side, name string) (least float64) {
	for _, s := range r.Samples {
		if strings.HasPrefix(s.Case, side+", "+name+", ") && s.CPULimit > 0 && s.Failed == "" && (least == 0 || s.CPULimit < least) {
			least = s.CPULimit
		}
	}
	return least
}
