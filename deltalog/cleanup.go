package deltalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// CleanupOptions choose what of the log is old.
type CleanupOptions struct {
	// DryRun only says what would go.
	DryRun bool
	// Retention overrides delta.logRetentionDuration (30 days). The cut is at the midnight (UTC) before.
	Retention *time.Duration
	// Force cleans up also when delta.enableExpiredLogCleanup is false.
	Force bool
	// KeepFrom keeps this version and all after it readable, for readers that still need it; negative: no wish.
	KeepFrom Version
}

// Cleanup is what a cleanup of the log did, or would do.
type Cleanup struct {
	// Earliest is the oldest version that can be read after it.
	Earliest Version
	// Why says why nothing is removed, when the log could not be cut.
	Why   string
	Files []string // removed objects, in the order of their removal
	Bytes int64
}

// Cleanup removes the part of the log that is older than the table's log retention. It cuts at the newest
// complete checkpoint at or below the newest commit of that age, reads that checkpoint to its end first, and
// keeps the checkpoint's own commit. A hint that names a checkpoint before the cut goes first. Without such a checkpoint it removes nothing, so every version that is
// younger stays readable. It goes from old to new: wherever it stops, the rest of the log is sound.
func (l *Log) Cleanup(ctx context.Context, opts CleanupOptions) (Cleanup, error) {
	c, err := l.cleanup(ctx, opts)
	if err != nil {
		return c, fmt.Errorf("clean up the log of %s: %w", l.store.URL(), err)
	}
	return c, nil
}

func (l *Log) cleanup(ctx context.Context, opts CleanupOptions) (Cleanup, error) {
	snap, err := l.Snapshot(ctx)
	if err != nil {
		return Cleanup{}, err
	}
	if err := checkCleanup(snap, opts); err != nil {
		return Cleanup{}, err
	}
	clock, err := l.clock(ctx)
	if err != nil {
		return Cleanup{}, err
	}
	found, err := list(ctx, l.store, 0)
	if err != nil {
		return Cleanup{}, err
	}
	c := Cleanup{Earliest: found.earliest()}
	cut, why, err := l.cutOff(ctx, clock, found, snap, opts)
	if err != nil || why != "" {
		c.Why = why
		return c, err
	}
	c.Earliest = cut.version
	old, err := oldFiles(ctx, l.store, cut.version)
	if err != nil {
		return c, err
	}
	if len(old) > 0 && !opts.DryRun {
		if err := l.dropHint(ctx, cut.version); err != nil {
			return c, err
		}
	}
	for _, f := range old {
		if err := l.discard(ctx, &c, f, opts.DryRun); err != nil {
			return c, err
		}
	}
	return c, l.cleanSidecars(ctx, &c, cut.version, opts.DryRun)
}

// checkCleanup refuses where the table's features or settings forbid it.
func checkCleanup(snap *Snapshot, opts CleanupOptions) error {
	if err := snap.CheckRewritable(); err != nil {
		return err
	}
	conf := snap.metadata.Configuration
	if text, ok := conf[protectedBefore]; ok && text != "0" {
		return &UnsupportedError{Write: true, Features: []string{"cleaning up a log under checkpointProtection (" + protectedBefore + "=" + text + ")"}}
	}
	if strings.EqualFold(conf["delta.enableExpiredLogCleanup"], "false") && !opts.Force {
		return fmt.Errorf("the table's settings forbid it (delta.enableExpiredLogCleanup=false)")
	}
	return nil
}

// cutOff finds the checkpoint that the log can begin with.
func (l *Log) cutOff(ctx context.Context, clock *commitClock, found *listing, snap *Snapshot, opts CleanupOptions) (checkpoint, string, error) {
	retention := logRetention(snap.metadata)
	if opts.Retention != nil {
		retention = *opts.Retention
	}
	cutoff := l.cfg.Clock().Add(-retention).UTC().Truncate(24 * time.Hour).UnixMilli()
	newest := Version(-1)
	for i, f := range clock.files {
		t, err := clock.at(ctx, i)
		if err != nil {
			return checkpoint{}, "", err
		}
		if t > cutoff {
			break
		}
		newest = f.version
	}
	if newest < 0 {
		return checkpoint{}, "no commit is older than the retention", nil
	}
	if opts.KeepFrom > 0 {
		newest = min(newest, opts.KeepFrom)
	}
	for _, c := range found.checkpoints { // newest first
		if c.version > newest {
			continue
		}
		// Readers of versions after it depend on it alone from now on: it must be whole, to its last sidecar.
		if err := readWhole(ctx, l.store, &c); err != nil {
			if ctx.Err() != nil {
				return checkpoint{}, "", err
			}
			l.cfg.Logger.Warn("a checkpoint cannot be read; the log is not cut there", "table", l.store.URL(), "version", c.version, "error", err)
			continue
		}
		return c, "", nil
	}
	return checkpoint{}, fmt.Sprintf("no complete checkpoint at or before version %d, the newest one older than the retention", newest), nil
}

// readWhole decodes every file of a checkpoint and keeps nothing.
func readWhole(ctx context.Context, store objstore.Store, c *checkpoint) error {
	s := newState(true)
	if err := s.applyCheckpoint(ctx, store, c); err != nil {
		return err
	}
	drop := func(*actions) error { return nil }
	for _, f := range c.files {
		if err := readPart(ctx, store, f, false, drop); err != nil {
			return err
		}
	}
	var errs []error
	err := eachSidecar(ctx, store, c, func(key string) {
		if len(errs) == 0 {
			if err := readPart(ctx, store, logFile{key: key, size: sourceWindow + 1}, false, drop); err != nil {
				errs = append(errs, err)
			}
		}
	})
	return errors.Join(append(errs, err)...)
}

const protectedBefore = "delta.requireCheckpointProtectionBeforeVersion"

func logRetention(m *Metadata) time.Duration {
	s, ok := m.Configuration["delta.logRetentionDuration"]
	if !ok {
		return 30 * 24 * time.Hour
	}
	d, err := ParseInterval(s)
	if err != nil {
		return 10 * 365 * 24 * time.Hour // kept too long costs bytes, too short loses versions
	}
	return d
}

// oldFiles gives the files of the log that a cut at a version leaves without a reader, oldest first: commits
// before it and their checksums and checkpoints, and compactions that begin at or before it.
func oldFiles(ctx context.Context, store objstore.Store, cut Version) ([]logFile, error) {
	var out []logFile
	for info, err := range store.List(ctx, objstore.ListOptions{Prefix: logDir, Flat: true}) {
		if err != nil {
			return nil, fmt.Errorf("list the Delta log: %w", err)
		}
		name := info.Key[min(len(logDir), len(info.Key)):]
		f, ok := parseName(name)
		if !ok {
			if f, ok = parseChecksumName(name); !ok {
				continue
			}
		}
		if f.version < cut || f.kind == kindCompacted && f.version <= cut {
			f.size = info.Size
			out = append(out, f)
		}
	}
	// A commit goes before the checkpoint of its version, so that no reader starts from a checkpoint and finds no commits after it.
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].version != out[j].version {
			return out[i].version < out[j].version
		}
		return out[i].kind == kindCommit && out[j].kind != kindCommit
	})
	return out, nil
}

// dropHint removes a _last_checkpoint that names a version before the cut, as a writer leaves it that died between
// its checkpoint and the hint: some engines cannot open a table whose hint leads nowhere. Without one all list.
func (l *Log) dropHint(ctx context.Context, cut Version) error {
	v, err := readHint(ctx, l.store)
	if err != nil || v < 0 || v >= cut {
		return err
	}
	if err := l.store.Delete(ctx, lastCheckpoint); err != nil {
		return fmt.Errorf("remove the stale _last_checkpoint: %w", err)
	}
	return nil
}

// parseChecksumName reads N.crc.
func parseChecksumName(name string) (logFile, bool) {
	text, ok := strings.CutSuffix(name, ".crc")
	if !ok {
		return logFile{}, false
	}
	v, ok := digits(text, 20)
	return logFile{version: Version(v), key: logDir + name}, ok
}

func (l *Log) discard(ctx context.Context, c *Cleanup, f logFile, dry bool) error {
	if !dry {
		if err := l.store.Delete(ctx, f.key); err != nil {
			return fmt.Errorf("remove %s: %w", f.key, err)
		}
	}
	c.Files = append(c.Files, f.key)
	c.Bytes += f.size
	return nil
}

// sidecarAge protects sidecars whose checkpoint is still being written.
const sidecarAge = 24 * time.Hour

// cleanSidecars removes sidecars that no checkpoint from version cut on names. When a checkpoint cannot be read
// it removes none: what that names is not known.
func (l *Log) cleanSidecars(ctx context.Context, c *Cleanup, cut Version, dry bool) error {
	var candidates []logFile
	limit := l.cfg.Clock().Add(-sidecarAge)
	for info, err := range l.store.List(ctx, objstore.ListOptions{Prefix: sidecarDir, Flat: true}) {
		if err != nil {
			return fmt.Errorf("list sidecars: %w", err)
		}
		if strings.HasSuffix(info.Key, ".parquet") && info.ModTime.Before(limit) {
			candidates = append(candidates, logFile{key: info.Key, size: info.Size})
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	found, err := list(ctx, l.store, 0)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, ck := range found.checkpoints {
		if ck.version < cut {
			continue
		}
		err := eachSidecar(ctx, l.store, &ck, func(key string) { named[key] = true })
		if err != nil {
			return fmt.Errorf("sidecars are kept, checkpoint %d cannot be read: %w", ck.version, err)
		}
	}
	for _, f := range candidates {
		if named[f.key] {
			continue
		}
		if err := l.discard(ctx, c, f, dry); err != nil {
			return err
		}
	}
	return nil
}

// eachSidecar gives the keys of the sidecars that a checkpoint names.
func eachSidecar(ctx context.Context, store objstore.Store, c *checkpoint, use func(key string)) error {
	for _, f := range c.files {
		err := readPart(ctx, store, f, true, func(a *actions) error {
			for _, s := range a.sidecars {
				key, err := sidecarKey(s.Path)
				if err != nil {
					return err
				}
				use(key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Sidecars gives the keys of all objects in the sidecar folder that a checkpoint of the log names, sorted: vacuum
// and cleanup of other kinds must leave them alone.
func (l *Log) Sidecars(ctx context.Context) ([]string, error) {
	found, err := list(ctx, l.store, 0)
	if err != nil {
		return nil, fmt.Errorf("sidecars: %w", err)
	}
	var out []string
	var errs []error
	for _, c := range found.checkpoints {
		errs = append(errs, eachSidecar(ctx, l.store, &c, func(key string) { out = append(out, key) }))
	}
	slices.Sort(out)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("sidecars: %w", err)
	}
	return slices.Compact(out), nil
}

// protectedVersion is the version below which checkpoints must not be made or removed.
func protectedVersion(m *Metadata) (Version, bool) {
	text, ok := m.Configuration[protectedBefore]
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 1 << 62, true // not readable: protect everything
	}
	return Version(v), true
}
