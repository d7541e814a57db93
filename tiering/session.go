package tiering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// session is one run of the pipeline, from the positions in the table to the first failure that leaves its
// buffers in doubt. Its main loop alone decides what is dispatched and when a commit is made.
type session struct {
	t       *Tierer
	ctx     context.Context //nolint:containedctx // of all its goroutines; it outlives Run's by the last commit
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	budget  *budget
	fetch   *fetcher
	workers []*worker

	snap         *deltalog.Snapshot // whose schema the files are written for
	incarnation  string
	schemaString string
	schema       *arrow.Schema // of data files
	logID        [16]byte      // of the topic when the session began, and of all that is fetched; zeros: not known
	topicID      string        // to be recorded with the next commit; empty: it stands there
	columns      []source
	bare         bool // the table has no partition and offset columns: see Config.AsItIs
	payload      *arrow.Schema
	keys         keyColumns   // the partition columns
	origins      bool         // the table keeps where records were before: see anchor.go
	rules        *table.Rules // rows are looked at before they are kept: see checkRules
	ruled        []source     // their columns

	fetchBytes int64
	spillAt    int64         // bytes of columns of a worker, of which there may be twice as many while a commit is under way
	holdAt     int64         // bytes of encoded rows, likewise
	encodeAt   int64         // see the constant
	maxOpen    int           // files that a worker encodes at a time
	rows       atomic.Int64  // not cut yet
	estimate   atomic.Int64  // bytes of data files of what is not cut yet
	pressed    atomic.Int32  // workers that need a cut to free memory
	joined     atomic.Int32  // partitions of the session
	look       chan struct{} // the three above changed in a way that matters
	failed     chan error
	flushed    chan result

	anchorMu sync.Mutex
	anchors  map[int32]record.Offset

	blockMu sync.Mutex
	blocks  []block // told by workers, not taken up yet

	freeMu   sync.Mutex
	free     []*rows
	freeSize int64 // memory that they keep

	// Of the main loop alone:
	parts    map[int32]member
	backlog  map[int32]record.Offset // ends of the partitions that were behind when they were joined, until reached
	dirty    bool                    // something was dispatched since the last cut
	flushing bool
	want     bool // a commit is due
	replies  chan *output
	waits    map[int32]waiting // partitions that stood before a record
	stranded error             // of a record that the fetcher did not wait for
	age      *time.Timer
}

// member is a partition of a session.
type member struct {
	gen     uint64 // of its position at the fetcher: chunks of an older one are not for it
	leaving bool   // after the next commit
}

func (t *Tierer) newSession(ctx context.Context) (*session, error) {
	snap, err := t.cfg.Table.Refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	if err := committer.CheckFiller(snap.Metadata(), t.cfg.App); err != nil { // no commit of ours would be taken
		return nil, err
	}
	s := &session{
		t: t, snap: snap, incarnation: snap.Metadata().ID, schemaString: snap.Metadata().SchemaString, bare: !t.cfg.Table.Names.Ordered(),
		budget:     newBudget(t.cfg.MemoryBudget / 4),
		fetchBytes: min(maxFetch, t.cfg.MemoryBudget/32),
		spillAt:    t.cfg.MemoryBudget / 8 / int64(t.cfg.Workers),
		holdAt:     t.cfg.MemoryBudget / 4 / int64(t.cfg.Workers),
		look:       make(chan struct{}, 1), failed: make(chan error, 1), flushed: make(chan result, 1),
		parts: map[int32]member{}, backlog: map[int32]record.Offset{}, waits: map[int32]waiting{},
		origins: t.cfg.Table.Names.Ledger != "", anchors: map[int32]record.Offset{},
	}
	s.encodeAt, s.maxOpen = encodeAt, maxOpen
	if len(snap.Metadata().PartitionColumns) > 0 {
		s.encodeAt, s.maxOpen = min(encodeAtKeys, max(encodeAt, s.spillAt/4)), maxOpenKeyed
	} else if s.bare {
		s.holdAt /= 2 // a worker has one file, so storing its rows early makes no file more
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	err = s.checkTopic(ctx)
	if err == nil {
		err = s.missingColumns()
	}
	if err == nil {
		err = s.planColumns()
	}
	if err == nil {
		err = s.recordProperties(ctx)
	}
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.fetch = newFetcher(s)
	for range t.cfg.Workers {
		s.workers = append(s.workers, newWorker(s))
	}
	s.age = time.NewTimer(time.Hour)
	s.age.Stop()
	return s, nil
}

// recordProperties says in the table how it is filled from now on, before the first record is fetched: who reads the
// log meanwhile makes the rows that the table will have (I4). If we stop behind it, the next session has the same to say.
func (s *session) recordProperties(ctx context.Context) error {
	set := changed(s.snap.Metadata().Configuration, s.t.cfg.properties())
	if len(set) == 0 {
		return nil
	}
	c, err := s.snap.Alter(deltalog.Change{Set: set})
	if err == nil {
		c.Incarnation = s.incarnation
		_, err = s.t.cfg.Change.of(ctx, s.t.cfg.Table, c)
	}
	if err != nil {
		return fmt.Errorf("record in the table how it is filled: %w", err)
	}
	return nil
}

// checkTopic makes sure that the topic is the one that the table was filled from: the positions of another one
// would mean other records, and nothing else tells when it has grown beyond them (I3).
func (s *session) checkTopic(ctx context.Context) error {
	var id [16]byte
	if src, ok := s.t.cfg.Source.(broker.TopicIdentifier); ok {
		var err error
		if id, err = src.TopicID(ctx, s.t.cfg.Topic); err != nil {
			return fmt.Errorf("id of topic %s: %w", s.t.cfg.Topic, err)
		}
	}
	s.logID = id
	if err := s.checkAlone(s.snap, id); err != nil || id == [16]byte{} {
		return err
	}
	recorded, err := table.CheckTopic(s.snap, s.t.cfg.App, s.t.cfg.Topic, id)
	var changed *table.TopicChangedError
	if errors.As(err, &changed) && s.t.cfg.AcceptTopic {
		s.t.cfg.Logger.Warn("going on with a topic that was made again, as told", "topic", s.t.cfg.Topic,
			"was", table.FormatTopicID(changed.Was), "is", table.FormatTopicID(changed.Is))
		recorded, err = false, nil
	}
	if !recorded {
		s.topicID = table.FormatTopicID(id)
	}
	return err
}

// checkAlone makes sure that nobody else fills a table whose rows do not say their topic (I3). One that a job fills is the job's.
func (s *session) checkAlone(snap *deltalog.Snapshot, id [16]byte) error {
	names := s.t.cfg.Table.Names
	if !names.Ordered() || names.Topic != "" || snap.Metadata().Configuration[committer.FilledByProperty] != "" {
		return nil
	}
	return table.CheckAlone(snap, s.t.cfg.App, id)
}

func (s *session) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// over says whether a limit is reached by what is not cut yet.
func (s *session) over() bool {
	return s.rows.Load() >= int64(s.t.cfg.MaxRows) || s.estimate.Load() >= s.t.cfg.MaxBytes || s.pressed.Load() > 0
}

// nudge makes the main loop look at over.
func (s *session) nudge() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

func (t *Tierer) tp(partition int32) record.TopicPartition {
	return record.TopicPartition{Topic: t.cfg.Topic, Partition: partition}
}

// join begins to read a partition where the table stands.
func (s *session) join(ctx context.Context, partition int32, snap *deltalog.Snapshot) error {
	tp := s.t.tp(partition)
	b, err := s.t.cfg.Source.Bounds(ctx, tp)
	if err != nil {
		return fmt.Errorf("bounds of %s: %w", tp, err)
	}
	next, ok := table.LakeEnd(snap, s.t.cfg.App, partition)
	if !ok {
		next = b.Start
	}
	if next > b.End {
		return &AheadError{TP: tp, LakeEnd: next, LogEnd: b.End}
	}
	at, noted, err := table.PlaceOf(snap, s.t.cfg.App, partition)
	if err != nil {
		return err
	}
	if noted {
		s.setAnchor(partition, at.Offset)
	}
	s.hold(ctx, partition, next)
	s.t.stats.joined(partition, next, b)
	to, err := s.t.target(ctx, partition)
	if err != nil {
		return err
	}
	s.parts[partition] = member{gen: s.fetch.add(partition, next, to)}
	s.joined.Store(int32(len(s.parts)))
	if !s.t.cfg.UntilEnd && next < b.Stable { // a bounded run commits at its end
		s.backlog[partition] = b.Stable
	}
	return nil
}

// run is the session from start to end. nil means that all is committed and Run is over.
func (s *session) run(stop context.Context) (err error) {
	defer func() {
		s.cancel()
		s.wg.Wait()
		s.drain()
		s.t.stats.inFlight(s.budget.peak)
	}()
	s.t.stats.began(s.budget)
	if err := s.joinAll(stop); err != nil {
		return err
	}
	fetchCtx, stopFetch := context.WithCancel(s.ctx)
	defer stopFetch()
	s.wg.Go(func() {
		if err := s.fetch.run(fetchCtx); err != nil {
			s.fail(err)
		}
	})
	for _, w := range s.workers {
		s.wg.Go(func() { w.run(s.ctx) })
	}
	ended, err := s.loop(stop)
	if err != nil || !ended {
		return err
	}
	stopFetch()
	err = s.finish(stop)
	switch {
	case err == nil:
		return nil
	case stop.Err() != nil && s.ctx.Err() != nil: // without the cancellation in its chain: this is a failure
		return &lastCommitError{fmt.Errorf("%w %s; what is missing is tiered at the next start: %v", ErrStopTimeout, s.t.cfg.StopTimeout, err)}
	}
	return &lastCommitError{err}
}

func (s *session) joinAll(ctx context.Context) error {
	parts, err := s.t.wanted(ctx)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := s.join(ctx, p, s.snap); err != nil {
			return err
		}
	}
	return nil
}
