package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// Log is the embedded log. Open makes one.
//
// Locks are taken in this order: life, cleaner, maintain, mu, partition.mu, queue.mu or journal.giving; spares.mu and
// room.mu are the last.
type Log struct {
	cfg        Config
	fs         vfs.FS
	dataDir    string
	journalDir string
	lock       io.Closer

	life    sync.RWMutex  // held for reading by every change; Close takes it for writing
	closed  chan struct{} // closed first of all
	closer  sync.Once
	failed  atomic.Pointer[error]
	crowded atomic.Pointer[error] // why no new journal file could be made; the old one is full

	maintain sync.Mutex       // one checkpoint, retention run or topic change at a time
	deleting []string         // directories of deleted topics that may still be there; guarded by maintain
	dropped  []droppedSegment // files to be removed once a checkpoint is written; guarded by maintain

	defaults broker.TopicConfig // what topics leave open; guarded by maintain
	awaiting atomic.Bool        // SetTopicDefaults is still to be called

	cleaner sync.Mutex // one pass over a compacted partition at a time; taken before maintain

	mu     sync.RWMutex
	topics map[string]*topic

	room    *room
	queue   queue
	staging chan []*entry  // committer -> stager
	staged  sync.WaitGroup // groups in it
	groups  chan group     // committer -> applier
	spare   chan []*entry  // applier -> committer, to be used again
	journal *journal
	handles *handles
	budget  *semaphore.Weighted

	validating *semaphore.Weighted

	sinceCheckpoint atomic.Int64
	owed            atomic.Bool   // the last checkpoint failed, whoever wanted it: while appends are refused nothing may ask for another
	sealedOpen      atomic.Int64  // files of sealed segments that a checkpoint will close
	waiting         atomic.Int64  // groups that are synced and not applied
	broken          error         // of applyGroup
	pins            pins          // files that answers lie in
	checkpointWish  chan struct{} // capacity 1
	loops           sync.WaitGroup

	producers    producerCap
	producerMu   sync.Mutex
	nextProducer int64
	endProducer  int64 // of the block that producers.json gave out
}

var _ broker.Log = (*Log)(nil)

// Open opens the log in cfg.Dir, makes it when there is none, and recovers what a crash left. It fails with
// vfs.ErrLocked when another process has the log open, and with a *segment.DamageError when files that were
// durable are damaged.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Log{cfg: cfg, fs: cfg.FS, dataDir: path.Join(cfg.Dir, "data"), journalDir: path.Join(cfg.Dir, "journal"),
		closed: make(chan struct{}), topics: map[string]*topic{}, queue: queue{wake: make(chan struct{}, 1)},
		validating: semaphore.NewWeighted(cfg.ValidateMemory),
		staging:    make(chan []*entry, 1), groups: make(chan group, 1), spare: make(chan []*entry, 4), budget: semaphore.NewWeighted(cfg.QueueBytes),
		checkpointWish: make(chan struct{}, 1), handles: newHandles(cfg.FS, cfg.OpenSegments), pins: pins{most: cfg.OpenSegments}}
	l.defaults = l.TopicDefaults()
	l.awaiting.Store(cfg.AwaitDefaults)
	if err := vfs.MakeDirs(l.fs, cfg.Dir, "data", "journal"); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	lock, err := l.fs.Lock(path.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l.lock = lock
	l.room = newRoom(&l.cfg, l.requestCheckpoint)
	l.sizeJournal()
	seq, err := l.recover(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open log: %w", err), l.release())
	}
	l.journal = newJournal(&l.cfg, l.journalDir, seq)
	if err := l.journal.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open log: %w", err), l.release())
	}
	l.room.look()
	l.loops.Go(l.commitLoop)
	l.loops.Go(l.stageLoop)
	l.loops.Go(l.applyLoop)
	l.loops.Go(l.maintainLoop)
	l.loops.Go(l.cleanLoop)
	l.loops.Go(l.roomLoop)
	return l, nil
}

// enter begins a change; leave ends it.
func (l *Log) enter() error {
	if !l.life.TryRLock() { // Close waits for what has entered, and so for what was queued and not signalled
		l.queue.signal()
		l.life.RLock()
	}
	if l.isClosed() {
		l.life.RUnlock()
		return broker.ErrClosed
	}
	if err := l.failure(); err != nil {
		l.life.RUnlock()
		return err
	}
	return nil
}

func (l *Log) leave() { l.life.RUnlock() }

func (l *Log) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// fail stops all changes for good and gives the error that they get from now on.
func (l *Log) fail(cause error) error {
	err := fmt.Errorf("%w: %w", broker.ErrStorage, cause)
	if l.failed.CompareAndSwap(nil, &err) {
		l.cfg.Logger.Error("log failed; it takes no more appends until it is opened again", "dir", l.cfg.Dir, "error", cause)
	}
	return *l.failed.Load()
}

func (l *Log) failure() error {
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// madeRoom says whether what failed is to be tried once more: there was no room for it, and all is given back that can be.
func (l *Log) madeRoom(err error) bool {
	return l.journal != nil && l.journal.madeRoom(err) // nil: in recovery, which has no spares
}

// replaceFile makes data the content of one of the files in the log's directory.
func (l *Log) replaceFile(name string, data []byte) error {
	err := vfs.WriteFileAtomic(l.fs, l.cfg.Dir, name, data)
	if !errors.Is(err, vfs.ErrUnknownOutcome) && l.madeRoom(err) {
		err = vfs.WriteFileAtomic(l.fs, l.cfg.Dir, name, data)
	}
	return err
}

// partition finds a partition.
func (l *Log) partition(tp record.TopicPartition) (*partition, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	t := l.topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.partitions) {
		return nil, fmt.Errorf("%s: %w", tp, broker.ErrUnknownTopic)
	}
	return t.partitions[tp.Partition], nil
}

// all gives every partition.
func (l *Log) all() []*partition {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var out []*partition
	for _, t := range l.topics {
		out = append(out, t.partitions...)
	}
	return out
}

// maintainLoop runs checkpoints and retention.
func (l *Log) maintainLoop() {
	ticker := newTicker(l.cfg.RetentionInterval)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-l.closed:
			return
		case <-l.checkpointWish:
			err = l.Checkpoint()
		case <-ticker.C:
			if l.owed.Load() {
				err = l.Checkpoint()
			}
			err = errors.Join(err, l.EnforceRetention())
		}
		if err != nil && !errors.Is(err, broker.ErrClosed) {
			l.cfg.Logger.Warn("log maintenance failed", "dir", l.cfg.Dir, "error", err)
		}
	}
}

// cleanLoop compacts.
func (l *Log) cleanLoop() {
	ticker := newTicker(l.cfg.CleanInterval)
	defer ticker.Stop()
	for {
		select {
		case <-l.closed:
			return
		case <-ticker.C:
		}
		if err := l.Compact(context.Background()); err != nil && !errors.Is(err, broker.ErrClosed) {
			l.cfg.Logger.Warn("compaction failed", "dir", l.cfg.Dir, "error", err)
		}
	}
}

func (l *Log) requestCheckpoint() {
	select {
	case l.checkpointWish <- struct{}{}:
	default:
	}
}

// Close ends all calls with broker.ErrClosed, waits for appends under way, writes a checkpoint and closes the
// files. A log that failed is closed without one.
func (l *Log) Close() error {
	var err error
	l.closer.Do(func() {
		close(l.closed)
		l.drain()
		l.queue.close()
		l.loops.Wait()
		if l.failure() == nil {
			err = l.finalCheckpoint()
		}
		for _, d := range l.dropped { // of checkpoints that failed
			d.close()
		}
		err = errors.Join(err, l.journal.close(), l.release())
	})
	return err
}

// drain waits until all changes are through; closed is closed, so no other begins.
func (l *Log) drain() {
	l.life.Lock()
	defer l.life.Unlock()
}

// release closes what recovery opened, and unlocks the directory.
func (l *Log) release() error {
	var err error
	for _, p := range l.all() {
		p.mu.Lock()
		err = errors.Join(err, p.closeLocked())
		p.mu.Unlock()
	}
	l.handles.close()
	return errors.Join(err, l.lock.Close())
}
