package deltalog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Commit is a change of the table, to be made as one version.
type Commit struct {
	// ReadVersion is the snapshot that the change was planned on. Versions after it are checked for conflicts.
	// For a blind append without txns it may be any version whose schema the files were written for.
	ReadVersion Version
	// Incarnation is the metaData.id that the change was planned on: ErrMetadataChanged when the table was dropped
	// and made again. Empty: not checked.
	Incarnation string
	Operation   string            // commitInfo.operation, such as WRITE or STREAMING UPDATE
	Parameters  map[string]string // commitInfo.operationParameters: plain strings, quoted here as Spark does
	Metrics     map[string]string // commitInfo.operationMetrics
	Adds        []Add
	Removes     []Remove
	Txns        []Txn
	Domains     []DomainMetadata
	Metadata    *Metadata
	Protocol    *Protocol
	// BlindAppend says that nothing was read. It is believed only for commits that do nothing but add files.
	BlindAppend bool
	// RowRules are those of Snapshot.RowRules that every row of Adds was seen to keep. A table that has other ones refuses
	// rows that are new, whatever the version was that they were written for.
	RowRules []RowRule
	// ReadFiles are the (URI-encoded) paths of files that the change depends on, besides the removed ones: another
	// writer's removal of one of them is a conflict.
	ReadFiles []string
	// ReadAll says that the change depends on the whole table, as an overwrite or a restore does: any removed file
	// is a conflict, and new data is unless it was a blind append (all new data under delta.isolationLevel =
	// Serializable). A commit that changes no data (all DataChange false) does not mind new data.
	ReadAll bool
}

// Commit adds the change to the log, after whatever other writers committed in the meantime unless that is a
// conflict, and gives its version. On an error that wraps objstore.ErrUnknownOutcome the commit may be in the
// log or may get there; every other error means that it is not.
func (l *Log) Commit(ctx context.Context, c Commit) (Version, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return -1, fmt.Errorf("commit: %w", ctx.Err())
	}
	defer func() { <-l.turn }()
	t := &transaction{log: l, c: c, id: uuid.NewString(), checked: c.ReadVersion}
	v, err := t.run(ctx)
	if err != nil {
		l.told(err)
		return -1, fmt.Errorf("commit to %s: %w", l.store.URL(), err)
	}
	l.writeChecksum(ctx, v, t.id)
	l.checkpointIfDue(v)
	return v, nil
}

// transaction is one Commit call.
type transaction struct {
	log     *Log
	c       Commit
	id      string
	checked Version // newest version known not to conflict
	pending error   // an outcome that the store did not tell
}

func (t *transaction) run(ctx context.Context) (Version, error) {
	l := t.log
	for attempt := 1; ; attempt++ {
		v, err := t.attempt(ctx)
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, objstore.ErrNotFinal):
			return -1, err // ours may be there now and replaced later: finding it proves nothing
		case errors.Is(err, objstore.ErrUnknownOutcome):
			t.pending = err
		case !errors.Is(err, objstore.ErrExists):
			if t.pending == nil || isConflict(err) {
				return -1, err // a conflict is found by reading all versions where ours could be
			}
			return t.giveUp(ctx, err)
		}
		if attempt >= l.cfg.MaxAttempts {
			return t.giveUp(ctx, fmt.Errorf("%w: %d", ErrTooManyAttempts, attempt))
		}
		if err := sleep(ctx, l.cfg.pause(attempt)); err != nil {
			return t.giveUp(ctx, err)
		}
	}
}

// giveUp looks once more whether our commit is in the log, on its own short time when the caller's is over.
func (t *transaction) giveUp(ctx context.Context, cause error) (Version, error) {
	if t.pending == nil {
		return -1, cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if v, found, err := t.findOwn(ctx); err == nil && found {
		return v, nil
	}
	return -1, errors.Join(cause, t.pending)
}

// attempt refreshes, checks the winners since the last check, and tries to put the next version.
func (t *transaction) attempt(ctx context.Context) (Version, error) {
	l := t.log
	snap, err := l.Snapshot(ctx)
	if err == nil {
		err = l.owed()
	}
	if err != nil {
		return -1, err
	}
	if id := t.c.Incarnation; id != "" && id != snap.metadata.ID {
		return -1, fmt.Errorf("%w: the table was made again (id %s, now %s)", ErrMetadataChanged, id, snap.metadata.ID)
	}
	if v, found, err := t.rebase(ctx, snap); err != nil || found {
		return v, err
	}
	now := l.cfg.Clock().UnixMilli()
	ict := max(now, snap.timestamp+1) // in-commit timestamps grow with the version
	a, err := t.actions(snap, ict)
	if err != nil {
		return -1, err
	}
	conf := snap.metadata.Configuration
	if a.metadata != nil {
		conf = a.metadata.Configuration
	}
	info := l.info(t.c, t.id, now, ict, conf)
	data, err := encodeCommit(info, a)
	if err != nil {
		return -1, err
	}
	v := snap.version + 1
	if err := l.store.PutIfAbsent(ctx, commitName(v), data); err != nil {
		if ctx.Err() != nil && !errors.Is(err, objstore.ErrExists) {
			err = errors.Join(err, objstore.ErrUnknownOutcome) // cut off under way
		}
		return -1, err
	}
	l.applyOwn(v, data, t.id, snap.metadata.ID)
	return v, nil
}

// rebase checks every version after the last checked one; it reports our own commit when an answer was lost.
func (t *transaction) rebase(ctx context.Context, snap *Snapshot) (Version, bool, error) {
	if t.c.ReadVersion > snap.version {
		return -1, false, fmt.Errorf("%w: read version %d is newer than the table's %d", ErrInvalidCommit, t.c.ReadVersion, snap.version)
	}
	for v := t.checked + 1; v <= snap.version; v++ {
		w, err := t.log.summary(ctx, v)
		if err != nil {
			return -1, false, err
		}
		if w.txnID == t.id {
			return v, true, nil
		}
		if err := t.c.conflict(w, snap); err != nil {
			return -1, false, fmt.Errorf("version %d: %w", v, err)
		}
		t.checked = v
	}
	return -1, false, nil
}

func (t *transaction) findOwn(ctx context.Context) (Version, bool, error) {
	found, err := list(ctx, t.log.store, t.checked+1)
	if err != nil {
		return -1, false, err
	}
	for v := t.checked + 1; v <= found.newest; v++ {
		w, err := t.log.summary(ctx, v)
		if err != nil {
			return -1, false, err
		}
		if w.txnID == t.id {
			return v, true, nil
		}
	}
	return -1, false, nil
}

// applyOwn moves the state over our own commit, whose txnId is id, without reading it back. Where the state is not where the
// commit was put on, or cannot take it, and does not show that the version is what was put there, the state is dropped, and the
// next look at the table makes sure of that (I5), unless table, the metaData.id that the commit is of, is empty.
func (l *Log) applyOwn(v Version, data []byte, id, table string) {
	l.io <- struct{}{}
	defer func() { <-l.io }()
	own := suspect{version: v, table: table, head: head{key: commitName(v), size: int64(len(data)), sum: sha256.Sum256(data)}}
	switch s := l.state; {
	case s == nil:
	case s.version == v && s.head.sum == own.head.sum, s.version > v && l.saidBy(v, id):
		return
	case s.version == v-1:
		a, err := parseCommit(data, own.head.key)
		if err == nil {
			a.sum = own.head.sum
			err = l.applyNext(logFile{kind: kindCommit, key: own.head.key, version: v, size: own.head.size}, a)
		}
		if err == nil {
			l.cut()
			return
		} // the next refresh reads it from the store and reports what is wrong
	case table == "" && (s.version != v || s.head.sum == [sha256.Size]byte{}):
		return // nothing to make sure of: the next look catches up
	}
	l.drop()
	l.doubt(own)
}

// info makes the commitInfo action: now is the clock's time, ict the commit's where the settings ask for it.
func (l *Log) info(c Commit, id string, now, ict int64, conf map[string]string) map[string]any {
	info := map[string]any{"timestamp": now, "operation": c.Operation, "engineInfo": l.cfg.Engine, "txnId": id,
		"isBlindAppend": c.blind()}
	params := make(map[string]string, len(c.Parameters))
	for k, v := range c.Parameters {
		params[k] = quoteParameter(v)
	}
	info["operationParameters"] = params
	if len(c.Metrics) > 0 {
		info["operationMetrics"] = c.Metrics
	}
	if c.ReadVersion >= 0 {
		info["readVersion"] = c.ReadVersion
	}
	if isOn(conf, ictSetting) {
		info["inCommitTimestamp"] = ict
	}
	return info
}

// quoteParameter gives a value as JSON text, which is what operationParameters hold: JSON stays, the rest
// becomes a JSON string.
func quoteParameter(v string) string {
	if v != "" && strings.IndexByte(`[{"`, v[0]) >= 0 && json.Valid([]byte(v)) || v == "true" || v == "false" {
		return v
	}
	return string(appendString(nil, v))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
