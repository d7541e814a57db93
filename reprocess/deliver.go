package reprocess

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// delivering is one task of a job whose sink is an Outlet: a split, or what comes behind all of them.
type delivering struct {
	j    *Job
	from *applied
	app  string
	// ends are the partitions, each with the offset where it is done; -1: never.
	ends map[int32]record.Offset
	// begin is where a partition begins of which nobody has a position.
	begin map[int32]record.Offset
}

// run delivers until all partitions are done, or ctx ends; nil then too: what was delivered is committed. What passes by
// itself, such as a cluster that is away, is tried again.
func (d *delivering) run(ctx context.Context) error {
	for try := 1; ; try++ {
		moved, err := d.once(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil // before anything was delivered
		case ctx.Err() != nil:
			return fmt.Errorf("the last commit failed, and what is missing is delivered at the next start: %w", err)
		case final(err):
			return err
		}
		if moved {
			try = 1
		}
		d.j.cfg.Logger.Warn("delivering failed, beginning again where the sink stands", "app", d.app, "try", try, "error", err)
		if !d.rest(ctx, try) {
			return nil
		}
	}
}

// discoverEvery is how often a job that follows looks for new partitions.
const discoverEvery = time.Minute

// errMorePartitions ends a run of a job that follows, which then begins again with all of them.
var errMorePartitions = errors.New("the topic has got more partitions")

// followOutlet goes on behind the plan, into a sink that is no table.
func (j *Job) followOutlet(ctx context.Context, a *applied) error {
	for {
		d := delivering{j: j, from: a, app: j.plan.Job, ends: map[int32]record.Offset{}, begin: map[int32]record.Offset{}}
		for _, r := range j.plan.Ranges {
			d.ends[r.Partition], d.begin[r.Partition] = -1, r.To
		}
		if !j.plan.Named {
			parts, err := j.stream.Partitions(ctx, j.cfg.Topic)
			if err != nil {
				return err
			}
			for _, p := range parts {
				if _, planned := d.ends[p]; planned {
					continue
				}
				b, err := j.stream.Bounds(ctx, record.TopicPartition{Topic: j.cfg.Topic, Partition: p})
				if err != nil {
					return err
				}
				d.ends[p], d.begin[p] = -1, b.Start
			}
		}
		sinkID, err := j.prepareOutlet(ctx) // there may be more partitions now than the sink has
		if err == nil {
			err = j.checkSink(sinkID)
		}
		if err != nil {
			return err
		}
		run, stop := context.WithCancelCause(ctx)
		var looking sync.WaitGroup
		if !j.plan.Named {
			looking.Go(func() { j.discover(run, len(d.ends), stop) })
		}
		err = d.run(run)
		more := errors.Is(context.Cause(run), errMorePartitions)
		stop(nil)
		looking.Wait()
		if err != nil || !more {
			return err
		}
	}
}

// discover ends a run when the topic has more partitions than it knows.
func (j *Job) discover(ctx context.Context, known int, stop context.CancelCauseFunc) {
	tick := time.NewTicker(discoverEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if parts, err := j.stream.Partitions(ctx, j.cfg.Topic); err == nil && len(parts) > known {
			stop(errMorePartitions)
			return
		}
	}
}

// final says that no other try mends it.
func final(err error) bool {
	var beyond *broker.OutOfRangeError
	var filled *committer.FilledByError
	return errors.Is(err, broker.ErrGiveUp) || errors.Is(err, broker.ErrProducerFenced) || errors.Is(err, ErrSpec) || errors.Is(err, ErrOtherJob) ||
		errors.Is(err, broker.ErrClosed) || errors.Is(err, broker.ErrUnknownTopic) ||
		errors.As(err, &beyond) || errors.As(err, &filled)
}

// rest waits before the next try; false when ctx ended.
func (d *delivering) rest(ctx context.Context, try int) bool {
	base, most := d.j.cfg.Tiering.RetryBase, d.j.cfg.Tiering.RetryMax
	if base == 0 {
		base = 100 * time.Millisecond
	}
	if most == 0 {
		most = 15 * time.Second
	}
	pause := min(base<<min(try-1, 12), most)
	t := time.NewTimer(pause/2 + rand.N(pause/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// once opens a Delivery and delivers through it until it is done or something fails.
func (d *delivering) once(ctx context.Context) (moved bool, err error) {
	snap, err := d.j.sink.Log.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	out, err := d.j.cfg.Outlet.Open(ctx, Work{State: snap.Metadata().ID, App: d.app, Topic: d.j.cfg.Topic})
	if err != nil {
		return false, fmt.Errorf("open the sink: %w", err)
	}
	defer func() {
		if err := out.Close(); err != nil { // what was committed is safe, and what was not is told by the delivery's own error
			d.j.cfg.Logger.Warn("the sink did not end well behind its last commit", "app", d.app, "error", err)
		}
	}()
	next, own, err := d.positions(ctx, out)
	if err != nil {
		return false, err
	}
	r := &delivery{delivering: d, out: out, own: own, next: next, ahead: map[int32]record.Offset{}}
	err = r.loop(ctx)
	return r.moved, err
}

// positions is where each partition goes on: as the sink says, else as the job's table says, which is brought up to it.
func (d *delivering) positions(ctx context.Context, out Delivery) (next map[int32]record.Offset, ofSink bool, err error) {
	own, err := out.Positions(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("positions in the sink: %w", err)
	}
	snap, err := d.j.sink.Log.Snapshot(ctx) // after the sink's: whoever was before us cannot move it any more
	if err != nil {
		return nil, false, err
	}
	if own != nil && d.unknownTo(own, snap) != nil { // who came after us, and fenced us, may have moved both in between
		if own, err = out.Positions(ctx); err != nil {
			return nil, false, fmt.Errorf("positions in the sink: %w", err)
		}
		if err := d.unknownTo(own, snap); err != nil {
			return nil, false, err
		}
	}
	next = map[int32]record.Offset{}
	for p := range d.ends {
		next[p] = max(d.noted(snap, p), own[p])
	}
	return next, own != nil, d.note(ctx, next)
}

// noted is where a partition goes on as the job's table says.
func (d *delivering) noted(snap *deltalog.Snapshot, p int32) record.Offset {
	if at, known := table.LakeEnd(snap, d.app, p); known {
		return at
	}
	return d.begin[p]
}

// unknownTo says that a sink has no position where the job's table has seen one of it.
func (d *delivering) unknownTo(own map[int32]record.Offset, snap *deltalog.Snapshot) error {
	for p := range d.ends {
		if at := d.noted(snap, p); at > d.begin[p] && own[p] < at {
			return fmt.Errorf("%w: the sink has no position for partition %d at or above %d, where the job's table has seen it: its positions were deleted, and nothing says which records it has",
				broker.ErrGiveUp, p, at)
		}
	}
	return nil
}

// note brings the positions of the job's table up to next.
func (d *delivering) note(ctx context.Context, next map[int32]record.Offset) error {
	snap, err := d.j.sink.Log.Snapshot(ctx)
	if err != nil {
		return err
	}
	req := committer.Request{App: d.app, Parameters: map[string]string{"job": d.j.plan.Job}}
	for p, to := range next {
		if from := d.noted(snap, p); to > from {
			req.Ranges = append(req.Ranges, committer.Range{Partition: p, From: from, To: to})
		}
	}
	if len(req.Ranges) == 0 {
		return nil
	}
	_, err = committer.NewDirect(d.j.sink.Log).Commit(ctx, req)
	var fenced *committer.FencedError
	if errors.As(err, &fenced) {
		return nil // an unknown outcome before, and it was in
	}
	return err
}

// delivery is one Delivery at work.
type delivery struct {
	*delivering
	out  Delivery
	own  bool // the sink keeps positions itself
	next map[int32]record.Offset

	rows, bytes int64                   // delivered and not committed
	ahead       map[int32]record.Offset // partitions of them, or of offsets without any, as in next
	since       time.Time               // when the first of them was fetched
	moved       bool                    // a commit was made
	noted       time.Time               // when the job's table got the positions
}

// Limits of a commit where the job says nothing.
const (
	deliverAge   = time.Second      // consumers with read_committed wait so long for the end of the transaction
	deliverAlone = 10 * time.Second // where each commit is a version of the job's table
	deliverRows  = 100_000
	deliverBytes = 16 << 20 // of keys and values, which are kept until the commit
)

func (r *delivery) due() bool {
	rows, bytes := int64(r.j.cfg.Tiering.MaxRows), r.j.cfg.Tiering.MaxBytes
	if rows == 0 {
		rows = deliverRows
	}
	if bytes == 0 {
		bytes = deliverBytes
	}
	return len(r.ahead) > 0 && (r.rows >= rows || r.bytes >= bytes || time.Since(r.since) >= r.age())
}

func (r *delivery) age() time.Duration {
	if age := r.j.cfg.Tiering.MaxAge; age != 0 {
		return age
	}
	if r.own {
		return deliverAge
	}
	return deliverAlone
}

func (r *delivery) loop(ctx context.Context) error {
	// What is handed over is not cut off in the middle when the job is told to stop, but StopTimeout later.
	handover, cancel := outlive(ctx, r.j.cfg.Tiering.StopTimeout)
	defer cancel()
	for {
		ranges := r.ranges()
		if r.due() || len(ranges) == 0 {
			if err := r.commit(handover); err != nil {
				return err
			}
		}
		if len(ranges) == 0 {
			return r.note(handover, r.next)
		}
		err := r.wait(ctx, handover)
		if err == nil {
			err = r.step(ctx, handover, ranges)
		}
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return r.last(handover)
			}
			return err
		}
	}
}

// wait waits until the next read is due; what was delivered is committed when it is old enough, also while the job is
// paused.
func (r *delivery) wait(ctx, handover context.Context) error {
	if len(r.ahead) > 0 {
		soon, cancel := context.WithDeadline(ctx, r.since.Add(r.age()))
		err := r.j.stream.pace.Wait(soon)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := r.commit(handover); err != nil {
			return err
		}
	}
	return r.j.stream.pace.Wait(ctx)
}

// ranges are the partitions that are not done.
func (r *delivery) ranges() (out []broker.FetchRange) {
	for p, end := range r.ends {
		if end < 0 || r.next[p] < end {
			out = append(out, broker.FetchRange{TP: record.TopicPartition{Topic: r.j.cfg.Topic, Partition: p}, From: r.next[p]})
		}
	}
	return out
}

// step fetches once, and delivers what came.
func (r *delivery) step(ctx, handover context.Context, ranges []broker.FetchRange) error {
	opts := broker.FetchOptions{Isolation: broker.ReadCommitted, MinBytes: 1, MaxWait: 100 * time.Millisecond, MaxBytes: 16 << 20}
	got, changed, err := r.take(ctx, handover, ranges, opts)
	if err != nil {
		return err
	}
	for i := range got {
		if err := got[i].Err; err != nil {
			return fmt.Errorf("fetch %s at offset %d: %w", got[i].TP, ranges[i].From, err)
		}
		t := &changed[i]
		if t.next == ranges[i].From {
			continue
		}
		if len(r.ahead) == 0 {
			r.since = time.Now()
		}
		if len(t.in) > 0 {
			if err := r.out.Deliver(handover, t.in, t.results); err != nil {
				return err
			}
		}
		r.rows += int64(len(t.in))
		r.bytes += int64(len(got[i].Batches))
		p := got[i].TP.Partition
		r.next[p], r.ahead[p] = t.next, t.next
	}
	return nil
}

// take fetches, and puts what comes through the transform. That may take as long as the transform likes, so what was
// delivered before is committed beside it when it is old enough: a transaction that is open for longer than its timeout
// is aborted by the cluster.
func (r *delivery) take(ctx, handover context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) (got []broker.Fetched, changed []taken, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	taking := make(chan struct{})
	var failed error
	go func() {
		defer close(taking)
		got, changed, failed = r.from.take(ctx, ranges, opts)
	}()
	if len(r.ahead) > 0 {
		old := time.NewTimer(time.Until(r.since.Add(r.age())))
		defer old.Stop()
		select {
		case <-taking:
		case <-old.C:
			if err = r.commit(handover); err != nil {
				stop()
			}
		}
	}
	<-taking // also when the commit failed: the transform is not left at work
	if err == nil {
		err = failed
	}
	return got, changed, err
}

// commit makes what was delivered safe, and then notes it in the job's table.
func (r *delivery) commit(ctx context.Context) error {
	if len(r.ahead) == 0 {
		return nil
	}
	if err := r.out.Commit(ctx, r.ahead); err != nil {
		return fmt.Errorf("commit in the sink: %w", err)
	}
	r.rows, r.bytes, r.ahead, r.moved = 0, 0, map[int32]record.Offset{}, true
	if r.own && time.Since(r.noted) < noteEvery*r.age() {
		return nil
	}
	r.noted = time.Now()
	if err := r.note(ctx, r.next); err != nil {
		return fmt.Errorf("note the positions of the sink: %w", err)
	}
	return nil
}

// noteEvery is how many ages of a commit the job's table may be behind a sink that keeps its positions: each note is a
// version of the table.
const noteEvery = 10

// last is the end of a job that is told to stop: what was delivered is committed, and the job's table brought up to it.
func (r *delivery) last(ctx context.Context) error {
	if err := r.commit(ctx); err != nil {
		return err
	}
	return r.note(ctx, r.next)
}

// outlive gives a context that ends some time after its parent: 30 s where there is no limit.
func outlive(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		limit = 30 * time.Second
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	unhook := context.AfterFunc(parent, func() {
		t := time.AfterFunc(limit, cancel)
		context.AfterFunc(ctx, func() { t.Stop() })
	})
	return ctx, func() { unhook(); cancel() }
}
