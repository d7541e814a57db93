package deltalog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Log is the transaction log of one table.
type Log struct {
	store  objstore.Store
	cfg    Config
	turn   chan struct{} // held by the commit under way
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // background checkpoints

	io    chan struct{} // held while state is read, replayed or replaced, over calls to the store
	state *state
	// suspects are versions that were read or made and of whose state nothing is left, oldest first, until the store has said
	// what became of them. They are few: a look at the table that succeeds clears them, and no commit is made without one.
	suspects []suspect

	mu           sync.Mutex // guards what follows; never held over calls to the store
	snap         *Snapshot  // of state, nil while that moves on
	recent       recentCommits
	checkpointed Version        // newest version that a checkpoint is known of or was tried for
	covered      int64          // Snapshot.pending at that time
	busy         bool           // a checkpoint is under way
	untold       *ReplacedError // noticed, and no commit has said so yet
	closed       bool
}

// Open opens the log of an existing table. ErrNotTable when there is none.
func Open(ctx context.Context, store objstore.Store, cfg Config) (*Log, error) {
	l, err := newLog(store, cfg)
	if err != nil {
		return nil, err
	}
	if _, err := l.Snapshot(ctx); err != nil {
		l.cancel()
		return nil, err
	}
	return l, nil
}

func newLog(store objstore.Store, cfg Config) (*Log, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Log{store: store, cfg: cfg, turn: make(chan struct{}, 1), io: make(chan struct{}, 1), checkpointed: -1}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// CreateOptions describe a new table.
type CreateOptions struct {
	Schema           *StructType
	PartitionColumns []string
	Configuration    map[string]string
	Name             string
	Description      string
	Engine           string // overrides Config.Engine for the first commit
}

// Create makes a new table. ErrTableExists when the root holds one; of many concurrent Creates one succeeds.
func Create(ctx context.Context, store objstore.Store, opts CreateOptions, cfg Config) (*Log, error) {
	l, err := newLog(store, cfg)
	if err != nil {
		return nil, err
	}
	first, err := l.firstCommit(opts)
	if err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	found, err := list(ctx, store, 0)
	if err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	if found.newest >= 0 {
		return nil, fmt.Errorf("create table: %w", ErrTableExists)
	}
	if err := l.publishFirst(ctx, first, opts.Engine); err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	if _, err := l.Snapshot(ctx); err != nil {
		l.cancel()
		return nil, err
	}
	return l, nil
}

func (l *Log) firstCommit(opts CreateOptions) (*actions, error) {
	if opts.Schema == nil || len(opts.Schema.Fields) == 0 {
		return nil, fmt.Errorf("%w: a table needs a schema with at least one column", ErrInvalidCommit)
	}
	p, err := protocolFor(opts.Schema, opts.Configuration)
	if err != nil {
		return nil, err
	}
	schema, conf := opts.Schema, withoutFeatureSettings(opts.Configuration)
	if mappingOf(conf) != "none" {
		schema = schema.clone()
		conf[mappingMaxID] = strconv.FormatInt(assignMapping(schema, nil, 0), 10)
	}
	now := l.cfg.Clock().UnixMilli()
	m := &Metadata{ID: uuid.NewString(), Name: opts.Name, Description: opts.Description, Format: Format{Provider: "parquet"},
		SchemaString: schema.JSON(), PartitionColumns: opts.PartitionColumns, CreatedTime: &now, Configuration: conf}
	m.normalize()
	if schema, err = validMetadata(m); err != nil {
		return nil, err
	}
	if err := checkWrite(&p, m, schema, nil); err != nil {
		return nil, err
	}
	return &actions{protocol: &p, metadata: m}, nil
}

// publishFirst writes version 0 and finds out whether it is ours when the store did not say so.
func (l *Log) publishFirst(ctx context.Context, a *actions, engine string) error {
	id := uuid.NewString()
	now := l.cfg.Clock().UnixMilli()
	info := l.info(Commit{Operation: "CREATE TABLE", ReadVersion: -1}, id, now, now, a.metadata.Configuration)
	if engine != "" {
		info["engineInfo"] = engine
	}
	data, err := encodeCommit(info, a)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := l.store.PutIfAbsent(ctx, commitName(0), data)
		if err == nil {
			return nil
		}
		if !errors.Is(err, objstore.ErrExists) && !errors.Is(err, objstore.ErrUnknownOutcome) || errors.Is(err, objstore.ErrNotFinal) {
			return err
		}
		b, gerr := l.store.Get(ctx, commitName(0))
		switch {
		case gerr == nil:
			if c, perr := parseCommit(b, commitName(0)); perr == nil && c.info != nil && c.info.TxnID == id {
				return nil
			}
			return ErrTableExists
		case !errors.Is(gerr, objstore.ErrNotFound) || attempt >= l.cfg.MaxAttempts:
			return errors.Join(err, gerr)
		}
		if werr := sleep(ctx, l.cfg.pause(attempt)); werr != nil {
			return errors.Join(err, werr)
		}
	}
}

// Snapshot gives the newest version. When nothing changed since the last call it costs one short listing.
func (l *Log) Snapshot(ctx context.Context) (*Snapshot, error) {
	select {
	case l.io <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("snapshot: %w", ctx.Err())
	}
	defer func() { <-l.io }()
	return l.refresh(ctx)
}

// current gives the snapshot of the state, nil while there is none.
func (l *Log) current() (snap *Snapshot, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snap, l.closed
}

func (l *Log) setCurrent(snap *Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snap = snap
}

// refresh brings the state to the newest version. The caller holds l.io.
func (l *Log) refresh(ctx context.Context) (*Snapshot, error) {
	if _, closed := l.current(); closed {
		return nil, ErrClosed
	}
	if l.state != nil {
		err := l.advance(ctx)
		if err == nil {
			return l.cut(), nil
		}
		var u *UnsupportedError
		if l.drop(); ctx.Err() != nil || errors.As(err, &u) {
			return nil, err
		}
	}
	changed, err := l.changed(ctx)
	if err != nil {
		return nil, err
	}
	s, err := load(ctx, l.store, -1, l.cfg.NoFiles)
	if err != nil {
		return nil, err
	}
	replaced := replacedOf(changed, s)
	l.sawCheckpoint(s.base)
	l.state, l.suspects = s, nil
	if replaced != nil { // once: whoever asks again goes on with what is there now
		l.cfg.Logger.Error("a version of the table was replaced", "table", l.store.URL(), "error", replaced)
		l.owe(replaced)
		return nil, replaced
	}
	return l.cut(), nil
}

// drop forgets a state that may have stopped half-way, or be that of a table which is gone, with all that was
// known of its versions, but for what shows whether the newest of them was replaced. The caller holds l.io.
func (l *Log) drop() {
	if l.state != nil {
		l.doubt(suspectOf(l.state))
	}
	l.state = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snap, l.recent, l.checkpointed, l.covered = nil, recentCommits{}, -1, 0
}

// sawCheckpoint counts the checkpoints of other writers, so that the work is not done twice. The caller holds l.io.
func (l *Log) sawCheckpoint(v Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v > l.checkpointed {
		l.checkpointed = v
		if l.state != nil {
			l.covered = l.state.pending
		}
	}
}

// errMoved says that the version of the state is not in the log any more.
var errMoved = errors.New("the log does not hold the last version any more, or another one in its place")

// advance replays the commits that came since the last refresh.
func (l *Log) advance(ctx context.Context) error {
	s := l.state
	found, err := l.look(ctx) // errMoved: cleaned up, or the table was made anew, and ours must not go on
	if err != nil {
		return err
	}
	if len(found.checkpoints) > 0 {
		l.sawCheckpoint(found.checkpoints[0].version)
	}
	if found.newest <= s.version {
		return nil
	}
	files, err := found.commitsFrom(s.version, found.newest)
	if err != nil {
		return err // cleaned up behind our back, or broken: a full load tells which
	}
	l.setCurrent(nil)
	if err := s.replay(ctx, l.store, files, l.saw); err != nil {
		if p := newestProtocol(ctx, l.store, files); p != nil {
			err = errors.Join(checkRead(p), err)
		}
		return err
	}
	if err := s.complete(); err != nil {
		return err
	}
	return s.compact()
}

// saw remembers what a commit did.
func (l *Log) saw(f logFile, w *summary) {
	if f.kind == kindCommit {
		l.remember(f.version, w)
	}
}

// applyNext moves the state over one more commit. The caller holds l.io.
func (l *Log) applyNext(f logFile, a *actions) error {
	l.setCurrent(nil)
	if err := l.state.applyCommit(f, a); err != nil {
		return err
	}
	l.saw(f, summarize(a))
	if a.protocol != nil || a.metadata != nil {
		if err := l.state.complete(); err != nil {
			return err
		}
	}
	return l.state.compact()
}

// cut gives the snapshot of the state. The caller holds l.io.
func (l *Log) cut() *Snapshot {
	snap, _ := l.current()
	if snap == nil {
		l.state.dropExpired(l.cfg.Clock().UnixMilli())
		snap = l.state.snapshot()
		l.setCurrent(snap)
	}
	return snap
}

// SnapshotAt gives an older version. ErrVersionNotFound when the log cannot give it any more.
func (l *Log) SnapshotAt(ctx context.Context, v Version) (*Snapshot, error) {
	if v < 0 {
		return nil, fmt.Errorf("%w: %d", ErrVersionNotFound, v)
	}
	snap, closed := l.current()
	if closed {
		return nil, ErrClosed
	}
	if snap != nil && snap.version == v && !snap.light {
		return snap, nil
	}
	s, err := load(ctx, l.store, v, false)
	if err != nil {
		return nil, err
	}
	return s.snapshot(), nil
}

// FullSnapshot gives the newest version with its files, also when Config.NoFiles is set: it is then read from the
// store each time.
func (l *Log) FullSnapshot(ctx context.Context) (*Snapshot, error) {
	snap, err := l.Snapshot(ctx)
	if err != nil || !snap.light {
		return snap, err
	}
	return l.SnapshotAt(ctx, snap.version)
}

// Close waits for the work in the background. The Log cannot be used afterwards.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
	l.cancel()
	return nil
}
