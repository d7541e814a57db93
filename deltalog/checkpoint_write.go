package deltalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
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
	write := l.writeClassic
	if snap.v2() {
		write = l.writeV2
	}
	hint, err := write(ctx, snap)
	if err != nil {
		return fmt.Errorf("write checkpoint %d: %w", snap.version, err)
	}
	if last, err := readHint(ctx, l.store); err != nil || last > snap.version {
		return err
	}
	raw, err := json.Marshal(hint)
	if err != nil {
		return err
	}
	if err := l.store.Put(ctx, lastCheckpoint, raw); err != nil {
		return fmt.Errorf("write _last_checkpoint: %w", err)
	}
	return nil
}

// newHint is what _last_checkpoint says about a checkpoint.
type newHint struct {
	Version     Version `json:"version"`
	Size        int64   `json:"size"` // actions
	SizeInBytes int64   `json:"sizeInBytes"`
	NumAdds     int64   `json:"numOfAddFiles"`
	V2          *hintV2 `json:"v2Checkpoint,omitempty"`
}

// hintV2 names the file of a V2 checkpoint, whose name cannot be guessed.
type hintV2 struct {
	Path             string `json:"path"`
	SizeInBytes      int64  `json:"sizeInBytes"`
	ModificationTime int64  `json:"modificationTime"`
}

// writeClassic writes all actions to one file.
func (l *Log) writeClassic(ctx context.Context, snap *Snapshot) (newHint, error) {
	var n checkpointCounts
	f, err := l.writePart(ctx, checkpointName(snap.version), classicColumns(), planStructs(snap.metadata, snap.schema), func(c *columnWriter) (err error) {
		n, err = c.snapshot(snap, l.cfg.Clock().UnixMilli())
		return err
	})
	return newHint{Version: snap.version, Size: f.rows, SizeInBytes: f.size, NumAdds: n.adds}, err
}

// part is a file of a checkpoint that was written and read back.
type part struct{ rows, size, modTime int64 }

// writePart streams one Parquet file into the store, where it appears whole, and verifies it.
func (l *Log) writePart(ctx context.Context, key string, columns []int, plan *structPlan, fill func(*columnWriter) error) (part, error) {
	w, err := l.store.Create(ctx, key)
	if err != nil {
		return part{}, err
	}
	out := &countingWriter{w: w}
	rows, err := encodePart(out, columns, plan, fill)
	if err != nil {
		return part{}, errors.Join(err, w.Abort())
	}
	if err := w.Close(); err != nil {
		return part{}, err
	}
	modTime, err := l.verifyPart(ctx, key, out.n, rows)
	if err != nil {
		return part{}, fmt.Errorf("verify %s: %w", key, err)
	}
	return part{rows: rows, size: out.n, modTime: modTime}, nil
}

func encodePart(out io.Writer, columns []int, plan *structPlan, fill func(*columnWriter) error) (rows int64, err error) {
	c, err := newColumnWriter(out, columns, plan)
	if err != nil {
		return 0, err
	}
	err = fill(c)
	if cerr := c.close(); err == nil {
		err = cerr
	}
	return c.total, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// checkProtected keeps the promise of the checkpointProtection feature: no new checkpoints of old versions.
func checkProtected(snap *Snapshot) error {
	if v, ok := protectedVersion(snap.metadata); ok && snap.version < v {
		return fmt.Errorf("checkpoint of version %d: the table forbids it (%s=%s)", snap.version, protectedBefore, snap.metadata.Configuration[protectedBefore])
	}
	return nil
}

// verifyPart reads the published footer back: other engines refuse a table whose hint names a broken file.
func (l *Log) verifyPart(ctx context.Context, key string, size, rows int64) (modTime int64, err error) {
	info, err := l.store.Head(ctx, key)
	if err != nil {
		return 0, err
	}
	if info.Size != size {
		return 0, fmt.Errorf("stored %d bytes, wrote %d: another writer's checkpoint or a broken store", info.Size, size)
	}
	n, err := footerRows(&checkpointSource{size: size, read: func(off, n int64) ([]byte, error) {
		return l.store.GetRange(ctx, key, off, n)
	}})
	if err == nil && n != rows {
		err = fmt.Errorf("stored %d rows, wrote %d", n, rows)
	}
	return info.ModTime.UnixMilli(), err
}

// footerRows reads only the end of a Parquet file.
func footerRows(src *checkpointSource) (rows int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("parquet decoder: %v", r)
		}
	}()
	f, err := file.NewParquetReader(src)
	if err != nil {
		return 0, err
	}
	return f.NumRows(), f.Close()
}

type checkpointCounts struct{ adds int64 }

// encodeCheckpoint gives the snapshot as a classic checkpoint in memory.
func encodeCheckpoint(snap *Snapshot, now time.Time) ([]byte, checkpointCounts, error) {
	var out bytes.Buffer
	var n checkpointCounts
	_, err := encodePart(&out, classicColumns(), planStructs(snap.metadata, snap.schema), func(c *columnWriter) (err error) {
		n, err = c.snapshot(snap, now.UnixMilli())
		return err
	})
	return out.Bytes(), n, err
}

func (c *columnWriter) snapshot(snap *Snapshot, now int64) (n checkpointCounts, err error) {
	if err := c.named(snap, now); err != nil {
		return n, err
	}
	for a, x := range snap.fileActions(now) {
		if a != nil {
			n.adds++
		}
		if err := c.file(a, x); err != nil {
			return n, err
		}
	}
	return n, nil
}

// file writes whichever of the two there is.
func (c *columnWriter) file(a *Add, x *Remove) error {
	if a != nil {
		return c.add(a)
	}
	return c.remove(x)
}

// named writes all but the files.
func (c *columnWriter) named(snap *Snapshot, now int64) error {
	if err := c.protocol(snap.protocol); err != nil {
		return err
	}
	if err := c.metadata(snap.metadata); err != nil {
		return err
	}
	expired := txnExpiry(snap.metadata, now)
	for _, id := range sortedKeys(snap.txns) {
		t := snap.txns[id]
		if t.LastUpdated != nil && *t.LastUpdated <= expired {
			continue
		}
		if err := c.txn(&t); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(snap.domains) {
		d := snap.domains[name]
		if err := c.domain(&d); err != nil {
			return err
		}
	}
	return nil
}

// fileActions gives the tombstones that are not expired and then the table's files, one of the two at a time. A
// value is good until the next.
func (s *Snapshot) fileActions(now int64) iter.Seq2[*Add, *Remove] {
	return func(yield func(*Add, *Remove) bool) {
		keep := now - tombstoneRetention(s.metadata).Milliseconds()
		var x Remove
		for b, i := range s.graves.each() {
			if b.flags[i]&flagTime == 0 || b.time[i] <= keep {
				continue // expired
			}
			if b.removeAt(i, &x); !yield(nil, &x) {
				return
			}
		}
		var a Add
		for b, i := range s.files.each() {
			if b.addAt(i, &a); !yield(&a, nil) {
				return
			}
		}
	}
}

// txnExpiry is the time up to which the table's settings let positions of applications expire; those without a
// time never do.
func txnExpiry(m *Metadata, now int64) int64 {
	d, err := ParseInterval(m.Configuration["delta.setTransactionRetentionDuration"])
	if err != nil {
		return math.MinInt64
	}
	return now - d.Milliseconds()
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
