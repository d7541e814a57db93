package reprocess

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// CommandOutlet is a process of any language as a sink. It gets a JSON object a record on a line of its standard input,
// in the form that Command describes, and acknowledges by lines {"_partition": p, "_offset": n} on its standard output:
// this record and all before it in the partition are safe. The line {"_flush": true} asks it to acknowledge all that it
// got; nothing more comes before it has done so. A record that the transform refused comes as it was, with the reason in
// _error, as what becomes of it is the sink's affair (I7).
//
// The job's position moves behind the acknowledgement, so a record may come again after either was killed, and always the
// same at the same place: a sink that knows what it has by (_partition, _offset), as one that replaces rows by them or
// keeps them beside its rows, ends with each record once. Each split has a process of its own.
type CommandOutlet struct {
	Argv []string
	// AnswerTime is how long the program may take to read on, or to acknowledge the next record. Default 5 minutes.
	AnswerTime time.Duration

	mu     sync.Mutex
	failed map[string]int // by Work.App: deliveries in a row that failed without a commit
}

// Prepare implements Outlet. A command has no identity.
func (o *CommandOutlet) Prepare(context.Context, SourceTopic) (id string, err error) { return "", nil }

// maxFailed is how many deliveries in a row may fail before the command itself is held to be at fault.
const maxFailed = 5

// Open implements Outlet.
func (o *CommandOutlet) Open(_ context.Context, w Work) (Delivery, error) {
	p, err := start(o.Argv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", broker.ErrGiveUp, err)
	}
	d := &commandDelivery{o: o, app: w.App, p: p, patience: cmp.Or(o.AnswerTime, answerTime), sent: map[int32]record.Offset{}, acked: map[int32]record.Offset{}, news: make(chan struct{}, 1), ended: make(chan struct{})}
	d.w = bufio.NewWriterSize(p.in, 256<<10)
	go d.read() // ends with the process's output, which Close waits for
	return d, nil
}

// count notes how a delivery of an application went, and says whether to give up: others' success is none of its own.
func (o *CommandOutlet) count(app string, ok bool) (giveUp bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ok {
		delete(o.failed, app)
		return false
	}
	if o.failed == nil {
		o.failed = map[string]int{}
	}
	o.failed[app]++
	return o.failed[app] >= maxFailed
}

type commandDelivery struct {
	o   *CommandOutlet
	app string
	p   *process
	w   *bufio.Writer
	buf []byte

	patience time.Duration
	stalled  atomic.Bool // it took nothing for that long

	news  chan struct{} // something was acknowledged
	ended chan struct{} // closed behind the last line

	mu    sync.Mutex
	sent  map[int32]record.Offset // the last one, by partition
	acked map[int32]record.Offset
	err   error // of a line
}

// read takes the acknowledgements as they come, so that neither side waits for the other's pipe.
func (d *commandDelivery) read() {
	defer close(d.ended)
	for raw := range d.p.lines {
		d.ack(raw)
		select {
		case d.news <- struct{}{}:
		default:
		}
	}
}

func (d *commandDelivery) ack(raw []byte) {
	var a struct {
		Partition *int32         `json:"_partition"`
		Offset    *record.Offset `json:"_offset"`
	}
	err := json.Unmarshal(raw, &a)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return
	}
	if err != nil || a.Partition == nil || a.Offset == nil {
		d.err = fmt.Errorf("it wrote %.80q: want {\"_partition\": p, \"_offset\": n} as acknowledgements, and nothing else", raw)
		return
	}
	if last, ok := d.sent[*a.Partition]; !ok || *a.Offset > last {
		d.err = fmt.Errorf("it acknowledged offset %d of partition %d, which it did not get", *a.Offset, *a.Partition)
		return
	}
	if at, ok := d.acked[*a.Partition]; !ok || *a.Offset > at {
		d.acked[*a.Partition] = *a.Offset
	}
}

// Positions implements Delivery: the job's table has them.
func (d *commandDelivery) Positions(context.Context) (map[int32]record.Offset, error) {
	return nil, nil
}

// Deliver implements Delivery.
func (d *commandDelivery) Deliver(ctx context.Context, in []Record, results []Result) error {
	return d.within(ctx, func(goesOn func()) error {
		for i := range in {
			goesOn()
			r := &results[i]
			if r.Drop && r.Err == nil {
				continue
			}
			rec, why := in[i], ""
			if r.Err != nil {
				why = r.Err.Error()
			} else {
				rec.Value = r.Value
			}
			var err error
			if d.buf, err = line(d.buf[:0], &rec, why); err != nil {
				return err
			}
			d.mu.Lock()
			d.sent[rec.Partition] = rec.Offset // first: the acknowledgement may be faster than we
			d.mu.Unlock()
			if _, err := d.w.Write(append(d.buf, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
}

// within writes to the process, which is ended when ctx is, or when it takes nothing for too long: it may have stopped to
// read. write calls goesOn as it goes on.
func (d *commandDelivery) within(ctx context.Context, write func(goesOn func()) error) error {
	unhook := context.AfterFunc(ctx, d.p.end)
	defer unhook()
	idle := time.AfterFunc(d.patience, func() {
		d.stalled.Store(true)
		d.p.end()
	})
	defer idle.Stop()
	if err := write(func() { idle.Reset(d.patience) }); err != nil {
		return d.failure(ctx, err)
	}
	return nil
}

// failure is why the process does not do what it should: its own word first.
func (d *commandDelivery) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.err != nil:
		err = d.err
	case d.stalled.Load():
		err = fmt.Errorf("it took nothing for %s, and was ended: it must read on, or end", d.patience)
	}
	err = fmt.Errorf("sink command %s: %w", d.p.name, err)
	if d.o.count(d.app, false) {
		err = fmt.Errorf("%w: %w", broker.ErrGiveUp, err)
	}
	return err
}

// errSinkEnded is for a command that ended before it had acknowledged everything.
var errSinkEnded = errors.New("it ended before it had acknowledged what it got")

// Commit implements Delivery: it waits for the acknowledgements.
func (d *commandDelivery) Commit(ctx context.Context, _ map[int32]record.Offset) error {
	if d.settled() {
		d.o.count(d.app, true)
		return nil
	}
	err := d.within(ctx, func(func()) error {
		_, err := d.w.WriteString("{\"_flush\":true}\n")
		return errors.Join(err, d.w.Flush())
	})
	if err != nil {
		return err
	}
	timer := time.NewTimer(d.patience)
	defer timer.Stop()
	for !d.settled() {
		select {
		case <-d.news:
			timer.Reset(d.patience)
		case <-d.ended:
			if !d.settled() {
				return d.failure(ctx, errSinkEnded)
			}
		case <-timer.C:
			return d.failure(ctx, fmt.Errorf("no acknowledgement came for %s: it must answer {\"_flush\": true} by the last offset of each partition, and flush its output", d.patience))
		case <-ctx.Done():
			return ctx.Err()
		}
		if d.broken() {
			return d.failure(ctx, errSinkEnded)
		}
	}
	d.o.count(d.app, true)
	return nil
}

func (d *commandDelivery) settled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return false
	}
	for p, last := range d.sent {
		if at, ok := d.acked[p]; !ok || at < last {
			return false
		}
	}
	return true
}

func (d *commandDelivery) broken() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err != nil
}

// Close ends the process: by the end of its input, and if that does not do, by force. What was acknowledged counts,
// however it ends: once everything was, its exit status is for the log.
func (d *commandDelivery) Close() error {
	settled := d.settled()
	_ = d.p.in.Close()
	if !settled {
		d.p.end()
	}
	stop := time.AfterFunc(10*time.Second, d.p.end)
	defer stop.Stop()
	<-d.ended
	if err := d.p.wait(); err != nil && settled {
		return fmt.Errorf("after it acknowledged everything: %w", err)
	}
	return nil // or ended by us, for a reason that is told
}
