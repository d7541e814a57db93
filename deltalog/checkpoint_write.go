package deltalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"
)

// checkpointIfDue starts a checkpoint in the background when enough commits came since the last one.
func (l *Log) checkpointIfDue(v Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	snap := l.snap
	if l.closed || l.busy || snap == nil || snap.version < v {
		return
	}
	if !l.cfg.due(snap, l.checkpointed, snap.pending-l.covered) {
		return
	}
	l.checkpointed, l.covered, l.busy = snap.version, snap.pending, true
	l.work.Add(1)
	go func() {
		defer l.work.Done()
		err := l.Checkpoint(l.ctx, snap)
		if err != nil {
			l.cfg.Logger.Warn("checkpoint failed; the table is sound without it", "table", l.store.URL(), "version", snap.version, "error", err)
		}
		l.mu.Lock()
		l.busy = false
		l.mu.Unlock()
	}()
}

// Checkpoint writes a checkpoint of the snapshot: published whole, read back, and then named by _last_checkpoint
// unless that names a newer one already.
func (l *Log) Checkpoint(ctx context.Context, snap *Snapshot) error {
	if err := snap.CheckRewritable(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := checkProtected(snap); err != nil {
		return err
	}
	if snap.light {
		full, err := l.SnapshotAt(ctx, snap.version)
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		snap = full
	}
	key := checkpointName(snap.version)
	data, n, err := encodeCheckpoint(snap, l.cfg.Clock())
	if err != nil {
		return fmt.Errorf("write checkpoint %d: %w", snap.version, err)
	}
	if err := l.store.Put(ctx, key, data); err != nil {
		return fmt.Errorf("write checkpoint %d: %w", snap.version, err)
	}
	if err := l.verifyCheckpoint(ctx, key, int64(len(data)), n.size); err != nil {
		return fmt.Errorf("verify checkpoint %d: %w", snap.version, err)
	}
	if last, err := readHint(ctx, l.store); err != nil || last > snap.version {
		return err
	}
	hint, err := json.Marshal(map[string]any{"version": snap.version, "size": n.size, "sizeInBytes": len(data), "numOfAddFiles": n.adds})
	if err != nil {
		return err
	}
	if err := l.store.Put(ctx, lastCheckpoint, hint); err != nil {
		return fmt.Errorf("write _last_checkpoint: %w", err)
	}
	return nil
}

// checkProtected keeps the promise of the checkpointProtection feature: no new checkpoints of old versions.
func checkProtected(snap *Snapshot) error {
	const setting = "delta.requireCheckpointProtectionBeforeVersion"
	text, ok := snap.metadata.Configuration[setting]
	if !ok {
		return nil
	}
	if v, err := strconv.ParseInt(text, 10, 64); err != nil || int64(snap.version) < v {
		return fmt.Errorf("checkpoint of version %d: the table forbids it (%s=%s)", snap.version, setting, text)
	}
	return nil
}

// verifyCheckpoint reads the published footer back: other engines refuse a table whose hint names a broken file.
func (l *Log) verifyCheckpoint(ctx context.Context, key string, size, rows int64) error {
	info, err := l.store.Head(ctx, key)
	if err != nil {
		return err
	}
	if info.Size != size {
		return fmt.Errorf("stored %d bytes, wrote %d: another writer's checkpoint or a broken store", info.Size, size)
	}
	f, err := file.NewParquetReader(&checkpointSource{size: size, read: func(off, n int64) ([]byte, error) {
		return l.store.GetRange(ctx, key, off, n)
	}})
	if err != nil {
		return err
	}
	defer f.Close()
	if f.NumRows() != rows {
		return fmt.Errorf("stored %d rows, wrote %d", f.NumRows(), rows)
	}
	return nil
}

type checkpointCounts struct{ size, adds int64 }

// encodeCheckpoint writes the snapshot as a classic checkpoint. Rows become columns a row group at a time; the
// compressed result is held whole, because a checkpoint must be published in one step.
func encodeCheckpoint(snap *Snapshot, now time.Time) ([]byte, checkpointCounts, error) {
	var out bytes.Buffer
	w, err := newColumnWriter(&out)
	if err != nil {
		return nil, checkpointCounts{}, err
	}
	n, err := w.snapshot(snap, now.UnixMilli())
	if cerr := w.close(); err == nil {
		err = cerr
	}
	n.size = w.total
	return out.Bytes(), n, err
}

func (c *columnWriter) snapshot(snap *Snapshot, now int64) (n checkpointCounts, err error) {
	if err := c.protocol(snap.protocol); err != nil {
		return n, err
	}
	if err := c.metadata(snap.metadata); err != nil {
		return n, err
	}
	for _, id := range sortedKeys(snap.txns) {
		t := snap.txns[id]
		if err := c.txn(&t); err != nil {
			return n, err
		}
	}
	for _, name := range sortedKeys(snap.domains) {
		d := snap.domains[name]
		if err := c.domain(&d); err != nil {
			return n, err
		}
	}
	keep := now - tombstoneRetention(snap.metadata).Milliseconds()
	var x Remove
	for b, i := range snap.graves.each() {
		if b.flags[i]&flagTime == 0 || b.time[i] <= keep {
			continue // expired
		}
		b.removeAt(i, &x)
		if err := c.remove(&x); err != nil {
			return n, err
		}
	}
	var a Add
	for b, i := range snap.files.each() {
		n.adds++
		b.addAt(i, &a)
		if err := c.add(&a); err != nil {
			return n, err
		}
	}
	return n, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

const week = 7 * 24 * time.Hour

// tombstoneRetention is how long tombstones stay in checkpoints. A setting that cannot be read keeps them for
// the longest time: too long costs bytes, too short breaks vacuum.
func tombstoneRetention(m *Metadata) time.Duration {
	s, ok := m.Configuration["delta.deletedFileRetentionDuration"]
	if !ok {
		return week
	}
	d, err := ParseInterval(s)
	if err != nil {
		return 10 * 365 * 24 * time.Hour
	}
	return d
}

// ParseInterval reads a duration setting of a table, such as "interval 30 days" or "interval 1 week 2 hours".
func ParseInterval(s string) (time.Duration, error) {
	words := strings.Fields(strings.ToLower(s))
	if len(words) > 0 && words[0] == "interval" {
		words = words[1:]
	}
	if len(words) == 0 || len(words)%2 != 0 {
		return 0, fmt.Errorf("interval %q: want pairs of number and unit", s)
	}
	var sum time.Duration
	for i := 0; i < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i], 10, 32)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("interval %q: %q is not a number", s, words[i])
		}
		unit, ok := intervalUnits(strings.TrimSuffix(words[i+1], "s"))
		if !ok {
			return 0, fmt.Errorf("interval %q: unknown unit %q", s, words[i+1])
		}
		sum += min(time.Duration(n), 1<<62/unit) * unit
		if sum < 0 {
			return 0, errors.New("interval is too long")
		}
	}
	return sum, nil
}

func intervalUnits(name string) (time.Duration, bool) {
	switch name {
	case "week":
		return week, true
	case "day":
		return 24 * time.Hour, true
	case "hour":
		return time.Hour, true
	case "minute":
		return time.Minute, true
	case "second":
		return time.Second, true
	case "millisecond":
		return time.Millisecond, true
	case "microsecond":
		return time.Microsecond, true
	}
	return 0, false
}
