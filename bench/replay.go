package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// replayColumns are the three of the narrow replay: a number, a word and a price.
var replayColumns = []string{"_offset", "kind", "amount"}

// RunReplay measures reading a table that tiering has filled with JSON events of about 690 bytes: all columns into
// Arrow, and three of them, beside the engines that the repository's Python environment has, on the same table in
// turns; then finding one offset in a table of 100,000 files, the pause at the seam of table and log, and how late
// a reader has a record of the log that it follows. Cases "workers" and "reprocess" instead are a stream job's: see runWorkers, runReprocess.
func RunReplay(ctx context.Context, cfg Config) (r *Report, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	switch {
	case len(cfg.Cases) == 1 && cfg.Cases[0] == workersCase:
		return runWorkers(ctx, cfg)
	case len(cfg.Cases) == 1 && cfg.Cases[0] == reprocessCase:
		return runReprocess(ctx, cfg)
	case len(cfg.Cases) > 0:
		return nil, fmt.Errorf("bench config: scenario replay has the cases %s and %s beside its usual ones, each alone, not %v", workersCase, reprocessCase, cfg.Cases)
	}
	scratch, remove, err := cfg.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	log, records, bytes, err := filledLog(ctx, cfg, filepath.Join(scratch, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	_, payload, err := tiering.Infer(ctx, log, logTopic, tiering.SampleConfig{})
	if err != nil {
		return nil, err
	}
	c := &replayCase{path: filepath.Join(scratch, "table"), records: records, bytes: bytes}
	if rows, err := drain(ctx, log, c.path, payload); err != nil || rows != records {
		return nil, errors.Join(err, fmt.Errorf("%d rows in the table, want %d", rows, records))
	}
	r = &Report{Scenario: "replay", Machine: Machine(), Time: time.Now().UTC()}
	for round := range cfg.Rounds {
		if err := c.round(ctx, r, round); err != nil {
			return nil, err
		}
	}
	c.goals(r)
	if err := lookups(ctx, cfg, r, filepath.Join(scratch, "lookups")); err != nil {
		return nil, err
	}
	if err := c.seam(ctx, cfg, r, log); err != nil {
		return r, err
	}
	return r, c.follow(ctx, cfg, r, log)
}

// replayCase is one table that all sides read.
type replayCase struct {
	path           string
	records, bytes int64
}

func (c *replayCase) open(ctx context.Context) (*table.Table, error) {
	store, err := openStore(c.path)
	if err != nil {
		return nil, err
	}
	return table.Open(ctx, store, table.Config{Topic: logTopic})
}

// round runs all sides once.
func (c *replayCase) round(ctx context.Context, r *Report, round int) error {
	for _, shape := range []struct {
		name    string
		columns []string
	}{{"all columns", nil}, {"three columns", replayColumns}} {
		s, err := measure("ledgerlake, "+shape.name, round, func() (int64, int64, error) {
			rows, err := c.replay(ctx, shape.columns)
			return rows, c.bytes, err
		})
		if err != nil {
			return err
		}
		if s.Records != c.records {
			return fmt.Errorf("wrong result: %s gave %d rows of %d", s.Case, s.Records, c.records)
		}
		r.Samples = append(r.Samples, s)
		if shape.columns == nil {
			if err := c.floor(r, round); err != nil {
				return err
			}
		}
		for _, engine := range replayEngines() {
			if err := engine.replay(ctx, r, c, shape.name, shape.columns, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// replay reads the table from its first record to its end, as any caller of package reader does.
func (c *replayCase) replay(ctx context.Context, columns []string) (rows int64, err error) {
	t, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	cur, err := reader.Open(ctx, reader.Config{Table: t, Topic: logTopic, Columns: columns})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cur.Close()) }()
	rows, err = countRows(ctx, cur, func(arrow.RecordBatch) {})
	return rows, err
}

// countRows reads to the end.
func countRows(ctx context.Context, cur *reader.Cursor, each func(arrow.RecordBatch)) (rows int64, err error) {
	for {
		rb, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows += rb.NumRows()
		each(rb)
	}
}

// goals states what was measured.
func (c *replayCase) goals(r *Report) {
	rate := func(s Sample) float64 { return float64(s.Records) / 1e6 / max(s.CPUSeconds, 1e-9) }
	r.Notes = append(r.Notes, fmt.Sprintf("%s: %.2f million records per CPU second, with our decompressor; a reader of all columns does this and more.", replayFloor, r.median(replayFloor, rate)))
	all, three := r.median("ledgerlake, all columns", rate), r.median("ledgerlake, three columns", rate)
	r.atLeast("all columns: million records per CPU second", 1.5, all)
	r.atLeast("three columns / all columns, records per CPU second", 5, three/all)
	for _, engine := range replayEngines() {
		for _, shape := range []string{"all columns", "three columns"} {
			if theirs := r.median(engine.name+", "+shape, rate); theirs > 0 {
				r.atLeast(shape+": records per CPU second, ours / "+engine.name, 1, r.median("ledgerlake, "+shape, rate)/theirs)
			}
		}
	}
}
