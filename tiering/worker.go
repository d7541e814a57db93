package tiering

import (
	"context"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// message goes to a worker: a chunk, or when cut is set the order to hand over what it has.
type message struct {
	chunk chunk
	cut   chan<- *output
}

// output is what one worker gives to a commit.
type output struct {
	ranges  []committer.Range
	files   []*table.FileWriter // not closed yet
	rest    []piece             // what goes to the shared file
	dead    []deadLetter
	passed  []committer.Range // ranges that the log has lost
	lost    []committer.Range // what of them has no dead letter either
	rows    int64
	records int64           // rows and dead letters
	bytes   int64           // of keys and values
	times   map[int32]int64 // ms, of the newest record, by partition

	trails map[int32]*trail // of a table that keeps where records were, by partition
	noted  []int32          // of them, whose place the commit notes

	filtered int64 // records that the filter left out
	steps    steps // what it took
	more     bool  // of what was dispatched before the cut: it was made early
}

func newOutput() *output { return &output{times: map[int32]int64{}, trails: map[int32]*trail{}} }

// cursor is a worker's view of one partition since the last cut.
type cursor struct {
	from, decided record.Offset
	trail         trail
	*sink
}

// sink is where rows are collected since the last cut: those of one partition, or, in a table whose rows are in no
// order, of all that a worker has.
type sink struct {
	partition int32 // the first
	rows      *rows
	files     map[string]*dataFile // by group; none until there is enough to encode
	wide      bool                 // its rows go to more files than may be open: they wait for the cut
}

// worker decodes the partitions that hash to it.
type worker struct {
	s        *session
	in       chan message
	cursors  map[int32]*cursor
	sinks    []*sink // of the cursors
	it       record.Iterator
	filter   record.AbortFilter
	aborted  []record.AbortedTxn
	out      *output
	buffered int64 // bytes in columns
	deadSize int64
	inFiles  int64   // bytes that the open files report
	held     int64   // of them, bytes in memory
	estimate int64   // what this worker has added to the session's estimate
	open     int     // files of cursors
	pressed  bool    // counted in the session's pressed
	beside   *beside // nil: nothing is encoded beside decoding
	mark     mark    // of the batch
	values   valueSet
	standing map[int32]uint64 // partitions that wait for a record, by the stamp of what is of no use any more
	backlog  []message        // chunks that came while a cut was awaited
}

func newWorker(s *session) *worker {
	return &worker{s: s, in: make(chan message, 2), cursors: map[int32]*cursor{}, it: record.Iterator{Verified: true}, values: valueSet{},
		standing: map[int32]uint64{}, out: newOutput()}
}

// run works until ctx ends. After a failure it only gives back the budget of what still comes.
func (w *worker) run(ctx context.Context) {
	failed := false
	defer w.abort()
	for {
		m, ok := w.next(ctx)
		if !ok {
			return
		}
		err := error(nil)
		switch {
		case failed:
		case m.cut != nil:
			var out *output
			if out, err = w.cut(ctx); err == nil {
				m.cut <- out
			}
		default:
			start := time.Now()
			err = w.decode(ctx, &m.chunk)
			w.out.steps.decode.add(start)
			w.out.steps.fetch.join(m.chunk.fetch)
		}
		w.s.budget.release(int64(len(m.chunk.batches)))
		if err != nil {
			failed = true
			w.s.fail(err)
		}
	}
}

func (w *worker) abort() {
	_ = w.await() // whose error is told already, or of a session that has ended
	for _, c := range w.sinks {
		for _, f := range c.files {
			_ = f.Abort() // best effort: a leftover is no part of the table
		}
	}
}

func (w *worker) cursor(c *chunk) (*cursor, error) {
	cur := w.cursors[c.partition]
	if cur == nil {
		cur = w.begin(c.partition, c.from)
	}
	if cur.decided != c.from {
		return nil, fmt.Errorf("partition %d: fetched from offset %d, decided up to %d", c.partition, c.from, cur.decided)
	}
	return cur, nil
}

// begin makes the cursor of a partition.
func (w *worker) begin(partition int32, from record.Offset) *cursor {
	if !w.s.bare || len(w.sinks) == 0 {
		w.sinks = append(w.sinks, &sink{partition: partition, files: map[string]*dataFile{}})
	}
	cur := &cursor{from: from, decided: from, trail: newTrail(), sink: w.sinks[len(w.sinks)-1]}
	w.cursors[partition] = cur
	return cur
}

// cut hands over all that was collected since the last cut and begins anew.
func (w *worker) cut(ctx context.Context) (*output, error) {
	if err := w.settle(); err != nil {
		return nil, err
	}
	for _, c := range w.sinks {
		if len(c.files) > 0 && len(w.s.keys) == 0 {
			if _, err := w.spill(ctx, c, true); err != nil {
				return nil, err
			}
		}
	}
	for p, c := range w.cursors {
		if c.decided > c.from {
			w.out.ranges = append(w.out.ranges, committer.Range{Partition: p, From: c.from, To: c.decided})
			if w.s.origins {
				w.out.trails[p] = &c.trail
			}
		}
	}
	out := w.out
	for _, c := range w.sinks {
		for _, f := range c.files {
			if f.encoded >= ownFile || f.Stored() {
				out.files = append(out.files, f.FileWriter)
			} else {
				out.rest = append(out.rest, piece{partition: c.partition, file: f})
			}
		}
		switch {
		case c.rows == nil:
		case c.rows.sys.Rows() > 0:
			out.rest = append(out.rest, piece{partition: c.partition, rows: c.rows}) // behind the files of the partition
		default:
			w.s.freeRows(c.rows)
		}
	}
	clear(w.cursors)
	w.sinks = nil
	clear(w.values)
	w.s.rows.Add(-out.rows)
	w.s.estimate.Add(-w.estimate)
	if w.pressed {
		w.s.pressed.Add(-1)
	}
	w.out, w.buffered, w.inFiles, w.held, w.estimate, w.deadSize, w.open, w.pressed = newOutput(), 0, 0, 0, 0, 0, 0, false
	return out, nil
}
