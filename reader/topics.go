package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/record"
)

// Stream is one of several that are read as one: what Open takes, with a name. Of its Config, Columns, MaxRows and Rate
// are not looked at.
type Stream struct {
	Name string // in the column TopicColumn, and in tokens; default Topic
	Config
}

// TopicsConfig says which streams to read as one.
type TopicsConfig struct {
	Streams []Stream
	Columns []string // nil: TopicColumn and all columns of all streams
	MaxRows int64    // of all streams together; 0: no limit
	Rate    Rate     // of all streams together
	// Token is where to go on: of a Topics with streams of the same names. Empty: where each Stream's From says.
	Token string
}

// Topics reads several streams, tables with their logs, as one. Each batch is of one stream; each partition of each
// stream comes in the order of its offsets, once, as Cursor gives it (I4); the streams come as they have records. Their
// columns are put together by name: one that a stream lacks is null in its rows, and TopicColumn says whose a row is.
//
// Each stream is read ahead by one batch, by a goroutine of its own. OnGap of a stream is called by that goroutine.
// A Topics is used by one goroutine. Make it with OpenTopics.
type Topics struct {
	cfg     TopicsConfig
	schema  *arrow.Schema
	streams []*topicStream
	batches chan *topicStream // whose batch is there
	running sync.WaitGroup
	cancel  context.CancelFunc
	open    int // streams that have not ended
	left    int64
	pace    *Pace
	given   arrow.RecordBatch
	from    *topicStream // whose batch was given; nil: nobody's
	failed  error
}

// topicStream is one stream of a Topics. rb, at and err are written by its goroutine until it has told batches.
type topicStream struct {
	name   string
	cur    *Cursor
	to     widening
	next   map[int32]record.Offset // behind what was given: what a token holds
	inLake bool                    // of what was given

	more chan struct{} // asks for the next; the one before is no longer used
	rb   arrow.RecordBatch
	at   map[int32]record.Offset // the cursor's position behind rb
	lake bool
	err  error
}

// OpenTopics opens all streams. The context is that of the whole read.
func OpenTopics(ctx context.Context, cfg TopicsConfig) (t *Topics, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t = &Topics{cfg: cfg, left: cfg.MaxRows, pace: NewPace(cfg.Rate), batches: make(chan *topicStream, len(cfg.Streams))}
	streams, schema, err := cfg.widen(ctx)
	if err != nil {
		return nil, err
	}
	t.schema = schema
	ctx, t.cancel = context.WithCancel(ctx)
	for _, s := range streams {
		cur, err := open(ctx, s.cfg, s.snap)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", s.name, err), t.Close())
		}
		x := &topicStream{name: s.name, cur: cur, to: s.to, next: cur.Position(), more: make(chan struct{}, 1)}
		t.streams = append(t.streams, x)
		t.open++
		t.running.Go(func() { x.run(ctx, t.batches) })
		x.more <- struct{}{}
	}
	return t, nil
}

// run reads one batch for each that is asked for.
func (x *topicStream) run(ctx context.Context, to chan<- *topicStream) {
	for range x.more {
		x.rb, x.err = x.cur.Next(ctx)
		x.at, x.lake = x.cur.Position(), x.cur.InLake()
		to <- x // has room for all
	}
}

// Schema is that of the batches.
func (t *Topics) Schema() *arrow.Schema { return t.schema }

// Next gives the next rows, io.EOF when all streams have ended. The batch is valid until the next call. After an error,
// other than that of ctx, it gives the same one again.
func (t *Topics) Next(ctx context.Context) (arrow.RecordBatch, error) {
	t.release()
	if t.failed != nil {
		return nil, t.failed
	}
	if err := t.pace.Wait(ctx); err != nil {
		return nil, err
	}
	for t.open > 0 && (t.cfg.MaxRows == 0 || t.left > 0) {
		select {
		case x := <-t.batches:
			rb, err := t.take(x)
			if err != nil {
				t.failed = err
				return nil, err
			}
			if rb != nil {
				return rb, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, io.EOF
}

// take gives what a stream has read, nil at its end.
func (t *Topics) take(x *topicStream) (arrow.RecordBatch, error) {
	if errors.Is(x.err, io.EOF) {
		x.next = x.at
		t.open--
		return nil, nil
	}
	if x.err != nil {
		return nil, fmt.Errorf("%s: %w", x.name, x.err)
	}
	rb, next := x.rb, x.at
	if t.cfg.MaxRows > 0 && rb.NumRows() > t.left {
		rb = rb.NewSlice(0, t.left)
		defer rb.Release()
		next = x.behind(rb)
	}
	out, err := x.to.batch(rb)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.name, err)
	}
	x.next, x.inLake = next, x.lake
	t.given, t.from = out, x
	t.left -= out.NumRows()
	t.pace.Used(out.NumRows(), batchSize(out))
	return out, nil
}

// behind is the position behind the rows of a batch that was cut.
func (x *topicStream) behind(rb arrow.RecordBatch) map[int32]record.Offset {
	next := make(map[int32]record.Offset, len(x.next))
	for p, o := range x.next {
		next[p] = o
	}
	names := x.cur.names()
	parts, offsets := column[*array.Int32](rb, names.Partition), column[*array.Int64](rb, names.Offset)
	if parts == nil || offsets == nil {
		return next // without places there is nowhere to go on from
	}
	for i := range int(rb.NumRows()) {
		if parts.IsValid(i) && offsets.IsValid(i) {
			next[parts.Value(i)] = record.Offset(offsets.Value(i)) + 1
		}
	}
	return next
}

// column gives the column of a name and type, or the type's zero value.
func column[A arrow.Array](rb arrow.RecordBatch, name string) (none A) {
	if i := rb.Schema().FieldIndices(name); len(i) == 1 {
		a, _ := rb.Column(i[0]).(A)
		return a
	}
	return none
}

// release is done with the batch given last, so its stream may read on.
func (t *Topics) release() {
	if t.given == nil {
		return
	}
	t.given.Release()
	t.given = nil
	t.from.more <- struct{}{}
	t.from = nil
}

// Name is whose the last batch is.
func (t *Topics) Name() string {
	if t.from == nil {
		return ""
	}
	return t.from.name
}

// InLake says whether the last batch came from the table of its stream.
func (t *Topics) InLake() bool { return t.from != nil && t.from.inLake }

// Token names the place behind the last batch, in all streams. It survives restarts and releases.
func (t *Topics) Token() string {
	at := token{Version: tokenOfSeveral}
	for _, x := range t.streams {
		one := token{Topic: x.name, Next: make(map[int32]int64, len(x.next))}
		for p, o := range x.next {
			one.Next[p] = int64(o)
		}
		at.Streams = append(at.Streams, one)
	}
	return at.String()
}

// Close ends the read.
func (t *Topics) Close() error {
	t.cancel()
	var errs []error
	for _, x := range t.streams {
		close(x.more)
	}
	t.running.Wait()
	if t.given != nil {
		t.given.Release()
		t.given = nil
	}
	for _, x := range t.streams {
		errs = append(errs, x.cur.Close())
	}
	t.streams, t.from, t.open = nil, nil, 0
	return errors.Join(errs...)
}
