package tiering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Tierer moves one topic into one table.
type Tierer struct {
	cfg   Config
	stats *counters
	poke  chan struct{} // the assignment changed

	mu        sync.Mutex
	started   bool
	running   bool
	assigned  map[int32]*assignment // Manual
	restart   bool                  // partitions were lost: buffers of the session hold their rows
	targets   map[int32]end
	suspects  map[suspectKey]int
	moved     bool         // a commit was made since the last failure
	dead      *table.Table // nil: not there yet, or not looked for
	deadStore objstore.Store
	ownDead   bool // opened here, so closed here
	noHold    bool
	declined  map[string]bool // paths of fields that cannot become columns
	full      bool            // no more can
}

type assignment struct {
	revoking bool
	released chan struct{} // closed when no buffer holds the partition any more
}

type suspectKey struct {
	partition int32
	base      record.Offset
}

// Open checks the configuration. Run does the work.
func Open(_ context.Context, cfg Config) (*Tierer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("tiering config: %w", err)
	}
	t := &Tierer{
		cfg: cfg, stats: newCounters(cfg.Clock), poke: make(chan struct{}, 1), assigned: map[int32]*assignment{},
		targets: map[int32]end{}, suspects: map[suspectKey]int{}, dead: cfg.DeadLetters,
	}
	t.stats.newHistograms(cfg.labels())
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(t.collector()); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return t, nil
}

// Run works until ctx ends, then commits what it has and returns nil. With UntilEnd it returns when the table
// has all that the log had when Run began. An error means that it cannot go on without a person.
func (t *Tierer) Run(ctx context.Context) error {
	t.mu.Lock()
	if t.started {
		t.mu.Unlock()
		return ErrRunning
	}
	t.started, t.running = true, true
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.running = false
		t.mu.Unlock()
		t.releaseRevoked()
	}()
	var refused refusals
	for try := 1; ; try++ {
		t.releaseRevoked()
		err := t.session(ctx)
		if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) && !atLastCommit(err) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("tier topic %s: %w", t.cfg.Topic, err)
		}
		if t.resetMoved() {
			try, refused = 1, 0
		}
		if change := t.schemaChange(err); change != nil {
			if err = change(ctx); err == nil {
				t.stats.restarted()
				continue
			}
		}
		final := false
		if err, final = t.cfg.final(err, &refused); final {
			return fmt.Errorf("tier topic %s: %w", t.cfg.Topic, err)
		}
		t.stats.restarted()
		if errors.Is(err, errRestart) {
			t.cfg.Logger.Info("partitions were taken away, beginning again from the table", "topic", t.cfg.Topic)
			continue
		}
		t.cfg.Logger.Warn("tiering failed, beginning again from the table", "topic", t.cfg.Topic, "try", try, "error", err)
		t.backoff(ctx, t.cfg.pause(try))
	}
}

// schemaChange gives what is to be done to the table's columns before the next session; nil when that is not why a session
// ended.
func (t *Tierer) schemaChange(err error) func(context.Context) error {
	var news *newFieldsError
	var narrow *narrowError
	switch {
	case errors.As(err, &news):
		return func(ctx context.Context) error { return t.evolve(ctx, news) }
	case errors.As(err, &narrow):
		return func(ctx context.Context) error { return t.widen(ctx, narrow) }
	}
	return nil
}

// lastCommitError marks the failure of the commit at the end.
type lastCommitError struct{ err error }

func (e *lastCommitError) Error() string { return e.err.Error() }
func (e *lastCommitError) Unwrap() error { return e.err }

func atLastCommit(err error) bool {
	var last *lastCommitError
	return errors.As(err, &last)
}

func (t *Tierer) session(ctx context.Context) error {
	s, err := t.newSession(ctx)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// backoff waits, and lets go of revoked partitions meanwhile.
func (t *Tierer) backoff(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-t.poke:
			t.releaseRevoked()
		}
	}
}

// Close closes the dead letter table if it was opened here. Run has returned.
func (t *Tierer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cfg.Registerer != nil {
		t.cfg.Registerer.Unregister(t.collector())
	}
	if !t.ownDead {
		return nil
	}
	t.ownDead = false
	return t.dead.Close()
}

// discoverEvery is how often new partitions are looked for.
func (t *Tierer) discoverEvery() time.Duration { return time.Minute }

// end is where UntilEnd stops in a partition: an offset, or a mark that tells it when it is reached.
type end struct {
	offset record.Offset // -1: none, or the mark tells
	mark   broker.EndMark
}

// target is the end that UntilEnd reads to: the one of the first look, also after a restart.
func (t *Tierer) target(ctx context.Context, partition int32) (to end, err error) {
	to.offset = -1
	if !t.cfg.UntilEnd {
		return to, nil
	}
	t.mu.Lock()
	first, known := t.targets[partition]
	t.mu.Unlock()
	if known {
		return first, nil
	}
	if m, ok := t.cfg.Source.(broker.Marker); ok {
		to.mark, err = m.MarkEnd(ctx, t.tp(partition))
	} else {
		to.offset, err = broker.StableEnd(ctx, t.cfg.Source, t.tp(partition))
	}
	if err != nil {
		return to, fmt.Errorf("end of %s: %w", t.tp(partition), err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.targets[partition] = to
	return to, nil
}

// ended notes the offset of an end that was marked.
func (t *Tierer) ended(partition int32, at record.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.targets[partition] = end{offset: at}
}

// suspect counts that a batch was found damaged and says whether to fetch it once more.
func (t *Tierer) suspect(partition int32, base record.Offset) bool {
	const again = 1
	t.mu.Lock()
	defer t.mu.Unlock()
	k := suspectKey{partition, base}
	t.suspects[k]++
	return t.suspects[k] <= again
}

func (t *Tierer) progressed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved = true
	clear(t.suspects)
}

func (t *Tierer) resetMoved() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	moved := t.moved
	t.moved = false
	return moved
}

// hold tells the log what it may drop (I6). A failure is no reason to stop: the log then keeps more.
func (t *Tierer) hold(ctx context.Context, partition int32, lakeEnd record.Offset) {
	t.mu.Lock()
	skip := t.noHold
	t.mu.Unlock()
	if skip {
		return
	}
	err := t.cfg.Source.Hold(ctx, t.tp(partition), lakeEnd)
	if errors.Is(err, broker.ErrNoHold) {
		t.mu.Lock()
		t.noHold = true
		t.mu.Unlock()
	} else if err != nil && ctx.Err() == nil {
		t.cfg.Logger.Warn("could not move the retention hold", "partition", t.tp(partition).String(), "offset", lakeEnd, "error", err)
	}
}

// wanted gives the partitions that a session begins with.
func (t *Tierer) wanted(ctx context.Context) ([]int32, error) {
	if t.cfg.Partitions != nil {
		return t.cfg.Partitions, nil
	}
	if !t.cfg.Manual {
		parts, err := t.cfg.Source.Partitions(ctx, t.cfg.Topic)
		if err != nil {
			return nil, fmt.Errorf("partitions of topic %s: %w", t.cfg.Topic, err)
		}
		return parts, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.restart = false
	var parts []int32
	for p, a := range t.assigned {
		if !a.revoking {
			parts = append(parts, p)
		}
	}
	slices.Sort(parts)
	return parts, nil
}
