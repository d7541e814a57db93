package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	ingestApp     = "bench" // of the positions that every side keeps
	ingestTimeout = 10 * time.Minute
)

// ingestCase is one piece of work for every side. Without a rate a topic that is full is drained; with one,
// messages come at that rate for some seconds, and the table is watched for them.
type ingestCase struct {
	name       string
	shape      string
	partitions int
	share      float64 // of Config.Records, for a drain
	rate       int     // records a second
	seconds    int     // of a rate
	latency    int     // seconds of data that may wait for a commit
	smoke      bool    // part of the short run
}

func (c ingestCase) title() string {
	if c.rate > 0 {
		return fmt.Sprintf("%s, %d/s", c.name, c.rate)
	}
	return c.name
}

// ingestCases are all cases. The three last are the deployments of the daemon's authors' talk of 2022.
func ingestCases() []ingestCase {
	return []ingestCase{
		{name: "web x1", shape: "web", partitions: 1, share: 1, latency: 2},
		{name: "web x12", shape: "web", partitions: 12, share: 1, latency: 2, smoke: true},
		{name: "event x1", shape: "event", partitions: 1, share: 1, latency: 2},
		{name: "event x12", shape: "event", partitions: 12, share: 1, latency: 2, smoke: true},
		{name: "shuffled x12", shape: "shuffled", partitions: 12, share: 0.5, latency: 2},
		{name: "event2k x12", shape: "event2k", partitions: 12, share: 0.5, latency: 2},
		{name: "fresh x12", shape: "event", partitions: 12, rate: 2000, seconds: 20, latency: 1, smoke: true},
		{name: "talk A", shape: "event2k", partitions: 12, rate: 3000, seconds: 30, latency: 5},
		{name: "talk B", shape: "event", partitions: 12, rate: 1000, seconds: 30, latency: 5},
		{name: "talk C", shape: "event3k", partitions: 12, rate: 8000, seconds: 30, latency: 5},
	}
}

// chosenCases gives the cases of a run: those that are named, else the short ones, or all.
func chosenCases(cfg Config) ([]ingestCase, error) {
	all := ingestCases()
	if len(cfg.Cases) == 0 {
		return slices.DeleteFunc(all, func(c ingestCase) bool { return !cfg.Full && !c.smoke }), nil
	}
	var out []ingestCase
	for _, name := range cfg.Cases {
		i := slices.IndexFunc(all, func(c ingestCase) bool { return c.name == name })
		if i < 0 {
			var names []string
			for _, c := range all {
				names = append(names, c.name)
			}
			return nil, fmt.Errorf("bench: no case %q; there are %s", name, strings.Join(names, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// RunIngest measures a topic of a real Kafka that goes into a local Delta table, with this program, with the daemon
// kafka-delta-ingest when Config.ReferenceBin names its binary, and with the plain pipeline. Each table is read back and
// compared with what was sent: a result that is wrong does not count. A case that fails is an error, and the others run
// all the same: the report has what they gave.
func RunIngest(ctx context.Context, cfg Config) (r *Report, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cases, err := chosenCases(cfg)
	if err != nil {
		return nil, err
	}
	sides, absent, err := ingestSides(cfg)
	if err != nil {
		return nil, err
	}
	scratch, remove, err := cfg.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	node, stop, err := startKafka(ctx, scratch)
	if err != nil {
		return nil, err
	}
	defer stop()
	r = &Report{Scenario: "ingest", Machine: machine(), Time: time.Now().UTC(), Notes: ingestNotes(cfg)}
	for _, name := range absent {
		r.missing(name)
	}
	var failed []error
	for i, c := range cases {
		w := &ingestWork{Config: cfg, ingestCase: c, node: node, scratch: scratch, number: i, report: r}
		if err := w.run(ctx, sides); err != nil {
			failed = append(failed, fmt.Errorf("case %s: %w", c.name, err))
			r.Notes = append(r.Notes, failed[len(failed)-1].Error())
		}
		if ctx.Err() != nil {
			break
		}
	}
	ingestGoals(r, cases)
	return r, errors.Join(failed...)
}

// ingestWork is one case with its topic.
type ingestWork struct {
	Config
	ingestCase
	node    *kafkaNode
	scratch string
	number  int
	report  *Report
	kind    shape
}

func (w *ingestWork) run(ctx context.Context, sides []ingestSide) (err error) {
	if w.kind, err = shapeOf(w.shape); err != nil {
		return err
	}
	if w.rate > 0 {
		return w.runRate(ctx, sides)
	}
	topic := fmt.Sprintf("case-%d", w.number)
	if err := w.node.createTopic(ctx, topic, w.partitions); err != nil {
		return err
	}
	load, err := newLoad(ctx, w.node, topic, w.partitions, w.kind, w.Seed)
	if err != nil {
		return err
	}
	defer load.producer.Close()
	if err := errors.Join(load.send(ctx, int(w.share*float64(w.Records))), load.flush(ctx)); err != nil {
		return err
	}
	if err := load.checkEnds(ctx, w.node); err != nil {
		return err
	}
	for round := range w.Rounds {
		for _, side := range sides {
			if side.only != nil && !side.only(w.ingestCase) {
				continue
			}
			s, err := w.drain(ctx, side, load, round)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			w.report.Samples = append(w.report.Samples, s)
		}
	}
	return nil
}

// runRate gives each side a topic of its own, since the load comes while it works.
func (w *ingestWork) runRate(ctx context.Context, sides []ingestSide) error {
	for round := range w.Rounds {
		for _, side := range sides {
			if side.args == nil || side.only != nil && !side.only(w.ingestCase) {
				continue
			}
			topic := fmt.Sprintf("case-%d-%s-%d", w.number, strings.ReplaceAll(side.name, " ", "-"), round)
			if err := w.node.createTopic(ctx, topic, w.partitions); err != nil {
				return err
			}
			s, err := w.steady(ctx, side, topic, round)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			w.report.Samples = append(w.report.Samples, s)
		}
	}
	return nil
}

// table makes an empty table for a run.
func (w *ingestWork) table(ctx context.Context, side ingestSide, topic string, round int) (string, error) {
	dir := filepath.Join(w.scratch, fmt.Sprintf("%s-%s-%d", topic, strings.ReplaceAll(side.name, " ", "-"), round))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, side.create(ctx, w.kind, topic, dir)
}
