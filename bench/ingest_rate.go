package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// errBehind is the end of a run whose program did not keep up with its load.
var errBehind = errors.New("does not keep up")

// patience is how long a side may take from what is sent to what is seen. In a box it is shorter: it shall keep up.
func (w *ingestWork) patience() time.Duration {
	if w.box != nil {
		return 25 * time.Second
	}
	return time.Minute
}

// steady lets one side follow a topic that gets messages at a rate, and measures when each is in the table. The load goes
// on until those that are measured are there, as it would: a side may wait for more before it commits the last of them.
func (w *ingestWork) steady(ctx context.Context, side ingestSide, topic string, round int) (Sample, error) {
	f, err := w.follow(ctx, side, topic, round)
	if err != nil {
		return Sample{}, err
	}
	defer f.close()
	if err := f.first(ctx, w.patience()); err != nil {
		return f.sample(), err
	}
	if err := f.send(ctx, time.Duration(w.seconds)*time.Second); err != nil {
		return f.sample(), err
	}
	f.only = f.load.ends()
	stop := f.more(ctx)
	err = f.until(ctx, f.only, w.patience())
	f.took = time.Since(f.from)
	s := f.sample()
	if err := errors.Join(err, stop()); err != nil {
		return s, err
	}
	if err := w.count(&s, f.table); err != nil {
		return s, err
	}
	return s, f.check(ctx)
}

// away kills a side in the middle of a rate and starts it again later, when its group has given it up. The sample is the
// catching up: from the second start until all that had come before it is in the table.
func (w *ingestWork) away(ctx context.Context, side ingestSide, topic string, round int) (Sample, error) {
	f, err := w.follow(ctx, side, topic, round)
	if err != nil {
		return Sample{}, err
	}
	defer func() { f.close() }()
	if err := f.first(ctx, w.patience()); err != nil {
		return f.sample(), err
	}
	if err := f.send(ctx, time.Duration(w.seconds)*time.Second); err != nil {
		return f.sample(), err
	}
	f.halt()
	if err := errors.Join(f.look(), f.load.steady(ctx, w.rate, time.Duration(w.outage)*time.Second, nil)); err != nil {
		return f.sample(), err
	}
	before := f.offsets
	missed := f.load.ends()
	f.begin = time.Now()
	if f.fleet, err = w.launch(ctx, side, f.load, f.table); err != nil {
		return f.sample(), err
	}
	stop := f.more(ctx)
	err = f.until(ctx, missed, 2*time.Minute)
	s := f.sample()
	s.Seconds, s.CPUSeconds, s.Records = time.Since(f.begin).Seconds(), f.cpu().Seconds(), f.offsets-before
	s.Bytes = f.load.bytesOf(s.Records)
	s.P50, s.P95, s.P99, s.StartMS = 0, 0, 0, 0
	if err := errors.Join(err, stop()); err != nil {
		return s, err
	}
	return s, f.check(ctx)
}

// following is one side at work on a topic that grows.
type following struct {
	*follower
	fleet
	w     *ingestWork
	side  ingestSide
	round int
	table string
	load  *topicLoad

	begin   time.Time // of the programs
	started time.Duration
	waits   []time.Duration
	from    time.Time       // since when the load is measured
	cpu0    time.Duration   // until then
	only    map[int32]int64 // the last offset of each partition that is measured; nil: all
	took    time.Duration   // of the load, until the last that is measured was in the table
}

// follow starts a side on an empty topic and table.
func (w *ingestWork) follow(ctx context.Context, side ingestSide, topic string, round int) (*following, error) {
	table, err := w.newTable(ctx, side, topic, round)
	if err != nil {
		return nil, err
	}
	load, err := w.newLoad(ctx, topic)
	if err != nil {
		return nil, err
	}
	f := &following{follower: newFollower(w.lake.path(table)), w: w, side: side, round: round, table: table, load: load, begin: time.Now()}
	if f.fleet, err = w.launch(ctx, side, load, table); err != nil {
		load.producer.Close()
		return nil, err
	}
	return f, nil
}

// cpu is that of the programs; the follower's own field is for drains.
func (f *following) cpu() time.Duration { return f.fleet.cpu() }

func (f *following) close() {
	f.load.producer.Close()
	f.fleet.end()
	_ = os.RemoveAll(f.dir)
}

// halt ends the programs at once, as a machine that is switched off does.
func (f *following) halt() {
	for _, c := range f.fleet {
		_ = c.cmd.Process.Signal(syscall.SIGKILL)
	}
	f.fleet.end()
}

// first waits until a first record of each partition is in the table, so that start-up and the group's first assignment are
// not in what is measured after it.
func (f *following) first(ctx context.Context, patience time.Duration) error {
	if err := errors.Join(f.load.send(ctx, f.w.partitions), f.load.flush(ctx)); err != nil {
		return err
	}
	if err := f.until(ctx, f.load.ends(), patience); err != nil {
		return err
	}
	f.started, f.from, f.cpu0 = time.Since(f.begin), time.Now(), f.cpu()
	f.advance = func(p int32, from, to int64, now time.Time) {
		f.waits = append(f.waits, f.load.since(p, from, to, now)...)
	}
	return nil
}

// send sends at the rate and watches the table meanwhile.
func (f *following) send(ctx context.Context, d time.Duration) error {
	sent := make(chan error, 1)
	go func() { sent <- f.load.steady(ctx, f.w.rate, d, nil) }()
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	for {
		select {
		case err := <-sent:
			return err
		case <-tick.C:
			if err := f.look(); err != nil {
				return err
			}
		}
	}
}

// more goes on with the load until the function that it gives is called.
func (f *following) more(ctx context.Context) (stop func() error) {
	quit, sent := make(chan struct{}), make(chan error, 1)
	go func() { sent <- f.load.steady(ctx, f.w.rate, ingestTimeout, quit) }()
	return func() error { close(quit); return <-sent }
}

// check ends the programs and compares what they have left in the table with the first records of each partition.
func (f *following) check(ctx context.Context) error {
	f.fleet.end()
	if err := f.look(); err != nil {
		return err
	}
	return f.w.check(ctx, f.table, f.load.upTo(f.at))
}

func (f *following) until(ctx context.Context, ends map[int32]int64, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errBehind)
	defer cancel()
	if err := f.wait(ctx, ends); err != nil {
		return fmt.Errorf("%w; its log: %s", err, f.log())
	}
	return nil
}

func (f *following) wait(ctx context.Context, ends map[int32]int64) error {
	return f.follower.wait(ctx, ends, f.ended)
}

// sample is what was seen so far.
func (f *following) sample() Sample {
	s := f.w.sample(f.side, f.round, f.fleet, f.follower)
	s.StartMS = float64(f.started.Microseconds()) / 1e3
	s.Seconds, s.CPUSeconds = f.took.Seconds(), (f.cpu() - f.cpu0).Seconds()
	s.Records, s.Bytes = int64(len(f.waits)), f.load.bytesOf(int64(len(f.waits)))
	if len(f.waits) > 0 {
		slices.Sort(f.waits)
		at := func(q float64) float64 {
			return f.waits[min(len(f.waits)-1, int(q*float64(len(f.waits))))].Seconds() * 1e3
		}
		s.P50, s.P95, s.P99 = at(0.5), at(0.95), at(0.99)
	}
	return s
}

// steady sends messages at a rate, every 10 ms some, for a time or until quit is closed.
func (l *topicLoad) steady(ctx context.Context, rate int, d time.Duration, quit <-chan struct{}) error {
	const step = 10 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	begin, total, sent := time.Now(), int(float64(rate)*d.Seconds()), 0
	for sent < total {
		due := min(total, int(float64(rate)*time.Since(begin).Seconds()))
		if err := l.send(ctx, due-sent); err != nil {
			return err
		}
		sent = due
		select {
		case <-tick.C:
		case <-quit:
			return l.flush(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return l.flush(ctx)
}

// bytesOf are those of so many values, on average.
func (l *topicLoad) bytesOf(records int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes * records / max(1, l.want.records)
}
