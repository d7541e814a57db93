package reprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/reader"
)

// Control is what people say to a job while it runs, on whatever machines: a small file beside its plan, which every
// process of the job looks at. It outlives them: a paused job that is started again is paused still.
type Control struct {
	Paused  bool   `json:"paused"`
	MaxRate string `json:"maxRate,omitempty"` // in the place of the job's, for each process; empty: the job's
}

func (c Control) validate() error {
	if c.MaxRate == "" {
		return nil
	}
	if _, err := reader.ParseRate(c.MaxRate); err != nil {
		return fmt.Errorf("%w: maxRate: %w", ErrSpec, err)
	}
	return nil
}

// controlKey is where it is in the store of the job's table.
func controlKey(job string) string { return "_ledgerlake/jobs/" + job + ".json" }

// ReadControl gives what was said last; the zero Control when nothing was. store is that of the job's table.
func ReadControl(ctx context.Context, store objstore.Store, job string) (c Control, err error) {
	raw, err := store.Get(ctx, controlKey(job))
	if errors.Is(err, objstore.ErrNotFound) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err == nil {
		err = c.validate()
	}
	if err != nil {
		return Control{}, fmt.Errorf("read %s of %s: %w", controlKey(job), store.URL(), err)
	}
	return c, nil
}

// SetControl says it. Of two at the same moment the later one counts.
func SetControl(ctx context.Context, store objstore.Store, job string, c Control) error {
	if err := c.validate(); err != nil {
		return err
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := store.Put(ctx, controlKey(job), append(raw, '\n')); err != nil {
		return fmt.Errorf("write %s of %s: %w", controlKey(job), store.URL(), err)
	}
	return nil
}

// controlEvery is how often a process looks at it.
const controlEvery = 2 * time.Second

// obey looks at the Control at once, and then again and again until ctx ends.
func (j *Job) obey(ctx context.Context) (stop func(), err error) {
	var last Control
	look := func() error {
		c, err := ReadControl(ctx, j.cfg.Sink, j.plan.Job)
		if err != nil || c == last {
			return err
		}
		last = c
		j.cfg.Logger.Info("the job is told", "job", j.plan.Job, "paused", c.Paused, "max_rate", c.MaxRate)
		return j.stream.pace.set(c, j.cfg.Spec)
	}
	if err := look(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(j.cfg.ControlEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := look(); err != nil && ctx.Err() == nil {
				j.cfg.Logger.Warn("the job goes on as it was told before", "job", j.plan.Job, "error", err)
			}
		}
	})
	return func() { cancel(); looking.Wait() }, nil
}

// governor keeps all reads of a process to what its job is told: not at all while it is paused, else at a rate. Its
// changes reach those who wait.
type governor struct {
	mu      sync.Mutex
	rate    reader.Rate
	pace    *reader.Pace // nil: no limit
	paused  bool
	changed chan struct{} // closed with the next change
}

func newGovernor(rate reader.Rate) *governor {
	return &governor{rate: rate, pace: reader.NewPace(rate), changed: make(chan struct{})}
}

func (g *governor) set(c Control, spec Spec) error {
	if c.MaxRate != "" {
		spec.MaxRate = c.MaxRate
	}
	rate, err := spec.rate()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused = c.Paused
	if rate != g.rate {
		g.rate, g.pace = rate, reader.NewPace(rate)
	}
	close(g.changed)
	g.changed = make(chan struct{})
	return nil
}

func (g *governor) now() (pace *reader.Pace, paused bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pace, g.paused, g.changed
}

// Wait waits until the next read is due.
func (g *governor) Wait(ctx context.Context) error {
	for {
		pace, paused, changed := g.now()
		if paused {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if pace == nil {
			return nil
		}
		turn, cancel := context.WithCancel(ctx)
		stopped := make(chan struct{})
		go func() { // ends with turn
			defer close(stopped)
			select {
			case <-changed:
				cancel()
			case <-turn.Done():
			}
		}()
		err := pace.Wait(turn)
		cancel()
		<-stopped
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// Used counts what was read.
func (g *governor) Used(records, bytes int64) {
	pace, _, _ := g.now()
	pace.Used(records, bytes)
}

// fetchBytes is what one fetch asks for at most: less where a rate is to be kept to evenly.
func (g *governor) fetchBytes() int {
	const most = 4 << 20
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.rate.Bytes > 0:
		return int(min(max(g.rate.Bytes/4, 64<<10), most))
	case g.rate.Records > 0:
		return int(min(max(g.rate.Records*100, 64<<10), most)) // about a quarter of a second's, of short records
	}
	return most
}
