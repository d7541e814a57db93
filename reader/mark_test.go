package reader

import (
	"context"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// markedLog is a log that knows its end by a mark, and counts who has it read for that.
type markedLog struct {
	*oneBatch
	marks, counts int
}

func (m *markedLog) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	got, err := m.oneBatch.Fetch(ctx, ranges, opts)
	if ranges[0].From >= record.Offset(m.n) {
		got[0].Batches = nil
	}
	return got, err
}

func (m *markedLog) Bounds(context.Context, record.TopicPartition) (broker.Bounds, error) {
	return broker.Bounds{}, nil // nothing was read yet
}

func (m *markedLog) CountEnd(context.Context, record.TopicPartition) (record.Offset, error) {
	m.counts++
	return record.Offset(m.n), nil
}

func (m *markedLog) MarkEnd(context.Context, record.TopicPartition) (broker.EndMark, error) {
	m.marks++
	return func(_ context.Context, next record.Offset) (record.Offset, bool, error) {
		return next, next >= record.Offset(m.n), nil
	}, nil
}

// TestAnEndThatOnlyReadingTells: a read up to now reads a log that counts its offsets once; who needs the end before has it
// counted, and so has it who asked for it to find where to begin (I4).
func TestAnEndThatOnlyReadingTells(t *testing.T) {
	const n = 20
	for name, c := range map[string]struct {
		change        func(cfg *Config)
		rows          int
		marks, counts int
	}{
		"all":             {func(*Config) {}, n, 1, 0},
		"nothing":         {func(cfg *Config) { cfg.Source = &markedLog{oneBatch: &oneBatch{}} }, 0, 1, 0},
		"now, followed":   {func(cfg *Config) { cfg.Follow, cfg.Until = true, Now() }, n, 1, 0},
		"an offset first": {func(cfg *Config) { cfg.Until = AtOffsets(map[int32]record.Offset{0: 7}) }, 7, 1, 0},
		"from offsets":    {func(cfg *Config) { cfg.From = AtOffsets(map[int32]record.Offset{0: 5}) }, n - 5, 0, 2},
		"from the end":    {func(cfg *Config) { cfg.From = Latest() }, 0, 0, 2},
	} {
		cfg := Config{Source: &markedLog{oneBatch: newOneBatch(t, n)}, Topic: "t", BatchRows: 8}
		c.change(&cfg)
		cur, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for rb, err := range cur.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			rows += int(rb.NumRows())
		}
		log := cfg.Source.(*markedLog)
		if rows != c.rows || log.marks != c.marks || log.counts != c.counts {
			t.Errorf("%s: %d rows, %d marks, %d counts; want %d, %d, %d", name, rows, log.marks, log.counts, c.rows, c.marks, c.counts)
		}
		if err := cur.Close(); err != nil {
			t.Error(err)
		}
	}
	log := &markedLog{oneBatch: newOneBatch(t, n)}
	cur, err := Open(t.Context(), Config{Source: log, Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	for range 2 {
		if plan, err := cur.Plan(t.Context()); err != nil || len(plan.Partitions) != 1 || plan.Partitions[0].Until != n || log.counts != 1 {
			t.Errorf("the plan is %+v, %v, after %d counts", plan, err, log.counts)
		}
	}
	latest, err := OpenLatestByKey(t.Context(), LatestByKeyConfig{Config: Config{Source: log, Topic: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	if end := latest.state[0]; end != n || log.counts != 2 {
		t.Errorf("latest by key ends at %d, after %d counts", end, log.counts)
	}
	if err := latest.Close(); err != nil {
		t.Error(err)
	}
}
