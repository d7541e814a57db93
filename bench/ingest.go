package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	ingestApp     = "bench" // of the positions that every side keeps
	ingestTimeout = 10 * time.Minute
)

// RunIngest measures a topic of a real Kafka that goes into a Delta table, with this program, with the daemon
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
	r = &Report{Scenario: "ingest", Machine: Machine(), Time: time.Now().UTC(), Notes: ingestNotes(cfg)}
	for _, name := range absent {
		r.missing(name)
	}
	bed, stop, err := newTestbed(ctx, cfg, r)
	if err != nil {
		return nil, err
	}
	defer stop()
	var failed []error
	for _, c := range cases {
		w := bed.work(c)
		if err := w.run(ctx, sides); errors.Is(err, errNotInstalled) {
			r.missing("case " + c.name)
		} else if err != nil {
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

// testbed is what the cases of a run share: a real Kafka, and where tables lie.
type testbed struct {
	Config
	node    *kafkaNode
	scratch string
	lakes   lakes
	report  *Report
	number  int // of cases so far
}

func newTestbed(ctx context.Context, cfg Config, r *Report) (*testbed, func(), error) {
	scratch, remove, err := cfg.scratch()
	if err != nil {
		return nil, nil, err
	}
	node, stop, err := startKafka(ctx, scratch)
	if err != nil {
		remove()
		return nil, nil, err
	}
	b := &testbed{Config: cfg, node: node, scratch: scratch, lakes: lakes{scratch: scratch}, report: r}
	return b, func() { b.lakes.close(); stop(); remove() }, nil
}

func (b *testbed) work(c ingestCase) *ingestWork {
	b.number++
	return &ingestWork{testbed: b, ingestCase: c, number: b.number}
}

// ingestWork is one case with its topic.
type ingestWork struct {
	*testbed
	ingestCase
	number int
	kind   shape
	lake   *lake
	box    *box // nil: the programs may use the whole machine
}

// prepare finds what the case needs.
func (w *ingestWork) prepare(ctx context.Context) (err error) {
	if w.kind, err = shapeOf(w.shape); err != nil {
		return err
	}
	if w.kind.avro != "" {
		if err := os.WriteFile(w.schemaFile(), []byte(w.kind.avro), 0o644); err != nil {
			return err
		}
	}
	w.lake, err = w.lakes.of(ctx, w.store)
	return err
}

func (w *ingestWork) run(ctx context.Context, sides []ingestSide) error {
	if err := w.prepare(ctx); err != nil {
		return err
	}
	if w.rate > 0 {
		return w.runRate(ctx, sides)
	}
	topic := fmt.Sprintf("case-%d", w.number)
	if err := w.node.createTopic(ctx, topic, w.partitions); err != nil {
		return err
	}
	load, err := w.newLoad(ctx, topic)
	if err != nil {
		return err
	}
	defer load.producer.Close()
	if err := errors.Join(load.send(ctx, max(1000, int(w.share*float64(w.Records)))), load.flush(ctx)); err != nil {
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
			if err := w.take(side, s, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// runRate gives each side a topic of its own, since the load comes while it works.
func (w *ingestWork) runRate(ctx context.Context, sides []ingestSide) error {
	measure := w.steady
	if w.outage > 0 {
		measure = w.away
	}
	for round := range w.Rounds {
		for _, side := range sides {
			if side.args == nil || side.only != nil && !side.only(w.ingestCase) {
				continue
			}
			topic := fmt.Sprintf("case-%d-%s-%d", w.number, dashed(side.name), round)
			if err := w.node.createTopic(ctx, topic, w.partitions); err != nil {
				return err
			}
			s, err := measure(ctx, side, topic, round)
			if err := w.take(side, s, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// take puts a sample into the report. A peer that fails, or whose table is wrong, does not count, and the report says so;
// our own failure is an error.
func (w *ingestWork) take(side ingestSide, s Sample, err error) error {
	switch {
	case err == nil:
		w.report.Samples = append(w.report.Samples, s)
		return nil
	case side.foreign:
		line, _, _ := strings.Cut(err.Error(), "\n")
		w.report.Notes = append(w.report.Notes, fmt.Sprintf("%s, %s does not count: %.400s", side.name, w.title(), line))
		return nil
	}
	return fmt.Errorf("%s: %w", side.name, err)
}

func dashed(name string) string { return strings.ReplaceAll(name, " ", "-") }

// newTable makes an empty table for a run and gives its name in the lake.
func (w *ingestWork) newTable(ctx context.Context, side ingestSide, topic string, round int) (string, error) {
	name := fmt.Sprintf("%s-%s-%d", topic, dashed(side.name), round)
	store, err := w.lake.open(ctx, name)
	if err != nil {
		return "", err
	}
	return name, side.create(ctx, w.kind, topic, store)
}

// schemaFile is the file in which the schema of Avro messages lies.
func (w *ingestWork) schemaFile() string { return filepath.Join(w.scratch, w.shape+".avsc") }
