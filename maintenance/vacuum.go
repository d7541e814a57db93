package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
)

// ErrRetention means that a vacuum would delete files that readers and writers at work may still need.
var ErrRetention = errors.New("the retention time is too short")

// defaultRetention is what a table without a setting of its own keeps.
const defaultRetention = 7 * 24 * time.Hour

// VacuumOptions are the settings of Vacuum. The zero value is ready for use.
type VacuumOptions struct {
	// Retention is the age from which files go that are no longer in the table. Default: the table's
	// delta.deletedFileRetentionDuration, else 7 days. A shorter one needs Force.
	Retention time.Duration
	// Zero takes a Retention of 0 for what it says, not for the default.
	Zero  bool
	Force bool
	// OrphanAge is the age from which files go that no commit ever named: a writer may be about to commit them.
	// Default: the retention, at least an hour.
	OrphanAge time.Duration
	// Lite takes candidates from the log alone and lists nothing: fast, but it finds no files that were never
	// committed, and none whose removal the log has forgotten.
	Lite bool
	// DryRun finds and deletes nothing.
	DryRun bool
	// Clock gives the time that ages are measured by. Default time.Now.
	Clock func() time.Time
	// Logger gets what happens. Default: discarded.
	Logger *slog.Logger
}

func (o VacuumOptions) withDefaults() VacuumOptions {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// VacuumReport says what Vacuum deleted, or would delete.
type VacuumReport struct {
	DryRun  bool              `json:"dryRun"`
	Lite    bool              `json:"lite"`
	Seconds int64             `json:"retentionSeconds"`
	Found   Files             `json:"found"`   // to delete
	Deleted Files             `json:"deleted"` // gone now
	Leased  int               `json:"leased"`  // files kept for leases alone
	Leases  []table.LeaseInfo `json:"leases,omitempty"`
	Paths   []string          `json:"paths,omitempty"` // the first ones found, decoded
}

// maxPaths is how many paths a report names.
const maxPaths = 1000

// String gives the report as a person reads it.
func (r VacuumReport) String() string {
	var s strings.Builder
	verb := "deleted"
	if r.DryRun {
		verb = "would delete"
		for _, p := range r.Paths {
			fmt.Fprintln(&s, p)
		}
		if n := r.Found.Files - len(r.Paths); n > 0 {
			fmt.Fprintf(&s, "... and %d more\n", n)
		}
	}
	files := r.Deleted
	if r.DryRun {
		files = r.Found
	}
	fmt.Fprintf(&s, "%s %d files of %s that have not been in the table for %v", verb, files.Files, size(files.Bytes), time.Duration(r.Seconds)*time.Second)
	if r.Leased > 0 {
		fmt.Fprintf(&s, "\n%d files are kept for readers:", r.Leased)
		for _, l := range r.Leases {
			fmt.Fprintf(&s, "\n  %s", l)
		}
	}
	return s.String()
}

// Vacuum deletes data files, deletion vectors and change data that neither the newest version, nor a version
// younger than the retention time, nor a lease needs (I6). It never touches the transaction log, hidden files and
// folders (but takes what a group of committers staged and left there), what links lead to, and files that are young, since a writer may be about to commit them. Time travel
// to versions older than the retention time ends with it.
func Vacuum(ctx context.Context, t *table.Table, opts VacuumOptions) (VacuumReport, error) {
	opts = opts.withDefaults()
	v := &vacuum{t: t, opts: opts, now: opts.Clock()}
	v.report.DryRun, v.report.Lite = opts.DryRun, opts.Lite
	if err := v.run(ctx); err != nil {
		return v.report, fmt.Errorf("vacuum %s: %w", t.Store.URL(), err)
	}
	return v.report, nil
}

// newest refreshes the table and gives its newest version with all files, also where its Log keeps none.
func newest(ctx context.Context, t *table.Table) (*deltalog.Snapshot, error) {
	snap, err := t.Refresh(ctx)
	if err != nil || snap.HasFiles() {
		return snap, err
	}
	return t.Log.FullSnapshot(ctx)
}

type vacuum struct {
	t      *table.Table
	opts   VacuumOptions
	now    time.Time
	report VacuumReport

	retention time.Duration
	live      deltalog.Version // of keep
	keep      fileSet          // what is in the table or was removed lately
	leased    fileSet          // what only leases need
	leases    []string         // ids of the leases in leased
	removed   map[string]int64 // keys of what was removed long ago, with sizes
	hidden    func(key string) bool

	afterwards func() // when everything found is deleted
}

type candidate struct {
	key  string
	size int64
}

func (v *vacuum) run(ctx context.Context) error {
	snap, err := newest(ctx, v.t)
	if err != nil {
		return err
	}
	if err := snap.CheckRewritable(); err != nil {
		return err
	}
	if err := v.setRetention(snap); err != nil {
		return err
	}
	v.removed = map[string]int64{}
	shadows, err := retiredShadows(ctx, v.t.Store, snap)
	if err != nil {
		return err
	}
	v.hidden = hiddenKeys(snap, shadows)
	if err := v.protect(snap); err != nil {
		return err
	}
	if err := v.protectLeased(ctx); err != nil {
		return err
	}
	find := v.list
	if v.opts.Lite {
		find = v.fromLog
	}
	found, err := find(ctx, snap)
	if err != nil {
		return err
	}
	for _, c := range found {
		v.report.Found.add(1, c.size)
		if len(v.report.Paths) < maxPaths {
			v.report.Paths = append(v.report.Paths, c.key)
		}
	}
	if v.opts.DryRun {
		return nil
	}
	if len(found) > 0 {
		err = v.deleteRecorded(ctx, found)
	}
	if err == nil && v.afterwards != nil {
		v.afterwards()
	}
	return err
}

func (v *vacuum) deleteRecorded(ctx context.Context, found []candidate) error {
	v.record(ctx, "VACUUM START", nil, map[string]string{
		"numFilesToDelete": strconv.Itoa(len(found)), "sizeOfDataToDelete": strconv.FormatInt(v.report.Found.Bytes, 10)})
	err := v.delete(ctx, found)
	status := "COMPLETED"
	if err != nil {
		status = "FAILED"
	}
	v.record(ctx, "VACUUM END", map[string]string{"status": status}, map[string]string{"numDeletedFiles": strconv.Itoa(v.report.Deleted.Files)})
	return err
}

func (v *vacuum) setRetention(snap *deltalog.Snapshot) error {
	floor := defaultRetention
	if text, ok := snap.Metadata().Configuration["delta.deletedFileRetentionDuration"]; ok {
		d, err := deltalog.ParseInterval(text)
		if err != nil {
			return fmt.Errorf("table property delta.deletedFileRetentionDuration: %w", err)
		}
		floor = d
	}
	v.retention = v.opts.Retention
	if v.retention == 0 && !v.opts.Zero {
		v.retention = floor
	}
	v.report.Seconds = int64(v.retention.Seconds())
	switch {
	case v.retention < 0:
		return fmt.Errorf("%w: %v", ErrRetention, v.retention)
	case v.retention < floor && !v.opts.Force:
		return fmt.Errorf("%w: %v, the table keeps removed files for %v; readers of older versions, and writers that have not committed yet, would lose their files. "+
			"Set the table property delta.deletedFileRetentionDuration, or force it when nothing reads and writes the table", ErrRetention, v.retention, floor)
	case v.retention > floor:
		// The log may have forgotten when a file was removed longer ago than this: it would look like one that
		// was never committed.
		return fmt.Errorf("cannot keep removed files for %v: the table's log remembers them for %v only. Set the table property delta.deletedFileRetentionDuration first", v.retention, floor)
	}
	if v.opts.OrphanAge == 0 {
		v.opts.OrphanAge = max(v.retention, time.Hour)
	}
	return nil
}

// protect collects what the newest version needs, and what left it lately.
func (v *vacuum) protect(snap *deltalog.Snapshot) error {
	v.live, v.keep = snap.Version(), newFileSet(snap.NumFiles())
	for f := range snap.Files() {
		if err := v.mark(f.Path, f.DeletionVector, v.keep); err != nil {
			return err
		}
	}
	cutoff := v.now.Add(-v.retention).UnixMilli()
	for r := range snap.Removed() {
		if r.DeletionTimestamp == nil {
			continue // nobody knows when: the file's age decides
		}
		if *r.DeletionTimestamp >= cutoff {
			if err := v.mark(r.Path, r.DeletionVector, v.keep); err != nil {
				return err
			}
			continue
		}
		v.bury(r)
	}
	return nil
}

// bury notes a file that was removed long ago: its own age does not matter.
func (v *vacuum) bury(r *deltalog.Remove) {
	bytes := int64(0)
	if r.Size != nil {
		bytes = *r.Size
	}
	// Files elsewhere are not ours to delete, and those in an odd spelling wait for their age.
	if key, err := v.t.ObjectKey(r.Path); err == nil && key == cleanKey(key) {
		v.removed[key] = bytes
	}
	if r.DeletionVector == nil {
		return
	}
	if p, err := table.VectorPath(r.DeletionVector); err == nil && p != "" {
		if key, err := v.t.ObjectKey(p); err == nil && key == cleanKey(key) {
			v.removed[key] = 0
		}
	}
}

// mark adds a file and its deletion vector to a set.
func (v *vacuum) mark(path string, dv *deltalog.DeletionVector, set fileSet) error {
	if err := set.add(v.t, path); err != nil || dv == nil {
		return err
	}
	p, err := table.VectorPath(dv)
	if err != nil {
		return fmt.Errorf("file %s: %w", path, err)
	}
	if p == "" {
		return nil
	}
	return set.add(v.t, p)
}

// protectLeased looks at the leases, and at the versions of those that it does not know yet (I6).
func (v *vacuum) protectLeased(ctx context.Context) error {
	leases, err := v.t.Leases(ctx, v.now)
	if err != nil {
		return err
	}
	if v.leased.keys == nil {
		v.leased = newFileSet(0)
	}
	for _, l := range leases {
		if slices.Contains(v.leases, l.ID) {
			continue
		}
		// Many readers hold the same version, which is replayed once.
		if !slices.ContainsFunc(v.report.Leases, func(known table.LeaseInfo) bool { return known.Version == l.Version }) {
			if err := v.protectVersion(ctx, l); err != nil {
				return err
			}
		}
		v.leases, v.report.Leases = append(v.leases, l.ID), append(v.report.Leases, l)
	}
	return nil
}

// protectVersion adds the files of a lease's version.
func (v *vacuum) protectVersion(ctx context.Context, l table.LeaseInfo) error {
	snap, err := v.t.Log.SnapshotAt(ctx, l.Version)
	if err != nil {
		return fmt.Errorf("%s: its files are not known, so nothing is deleted; remove the lease if its reader is gone: %w", l, err)
	}
	for f := range snap.Files() {
		if err := v.mark(f.Path, f.DeletionVector, v.leased); err != nil {
			return err
		}
	}
	return nil
}

// kept says whether a file stays; one that only a lease keeps is counted.
func (v *vacuum) kept(key string) bool {
	if v.keep.has(key) || v.hidden(key) {
		return true
	}
	if v.leased.has(key) {
		v.report.Leased++
		return true
	}
	return false
}

// list finds candidates among all files of the store.
func (v *vacuum) list(ctx context.Context, _ *deltalog.Snapshot) ([]candidate, error) {
	var out []candidate
	orphan, old := v.now.Add(-v.opts.OrphanAge), v.now.Add(-v.retention)
	for info, err := range v.t.Store.List(ctx, objstore.ListOptions{NoLinks: true}) {
		if err != nil {
			return nil, fmt.Errorf("list the table's files: %w", err)
		}
		limit := orphan
		if _, ok := v.removed[info.Key]; ok {
			limit = v.now // the log says when it was removed
		} else if strings.HasPrefix(info.Key, changeData) {
			limit = old // no action of a snapshot names it: its age is all there is
		} else if strings.HasPrefix(info.Key, stagedData) && v.now.Sub(info.ModTime) < stagedAge {
			continue
		}
		if info.ModTime.Before(limit) && !v.kept(info.Key) {
			out = append(out, candidate{info.Key, info.Size})
		}
	}
	return out, nil
}

const (
	deleteBatch    = 500
	deleteParallel = 8
)

// delete removes files in batches. Before each it looks at leases and at what other writers brought back, while
// new leases wait (I6).
func (v *vacuum) delete(ctx context.Context, found []candidate) error {
	for batch := range slices.Chunk(found, deleteBatch) {
		err := v.t.Deleting(ctx, "vacuum", func(ctx context.Context) error {
			if err := v.lookAgain(ctx); err != nil {
				return err
			}
			return v.deleteBatch(ctx, batch)
		})
		if err != nil {
			return fmt.Errorf("delete unused files (the next run goes on): %w", err)
		}
		v.opts.Logger.Info("vacuum", "table", v.t.Store.URL(), "deleted", v.report.Deleted.Files, "of", len(found))
	}
	return nil
}

// lookAgain finds what came since: leases first, since a restore releases its lease after its commit.
func (v *vacuum) lookAgain(ctx context.Context) error {
	if err := v.protectLeased(ctx); err != nil {
		return err
	}
	snap, err := v.t.Refresh(ctx)
	if err != nil || snap.Version() == v.live {
		return err
	}
	if snap, err = newest(ctx, v.t); err != nil {
		return err
	}
	return v.protect(snap)
}

func (v *vacuum) deleteBatch(ctx context.Context, batch []candidate) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(deleteParallel)
	gone := make([]bool, len(batch))
	for i, c := range batch {
		if v.kept(c.key) {
			continue
		}
		g.Go(func() error {
			err := v.t.Store.Delete(gctx, c.key)
			gone[i] = err == nil
			return err
		})
	}
	err := g.Wait()
	for i, c := range batch {
		if gone[i] {
			v.report.Deleted.add(1, c.size)
		}
	}
	return err
}

// record leaves a commit without actions in the history, as Spark does. It is for people: failing costs nothing.
func (v *vacuum) record(ctx context.Context, operation string, params, metrics map[string]string) {
	c := deltalog.Commit{ReadVersion: v.live, Operation: operation, Parameters: params, Metrics: metrics}
	if params == nil {
		c.Parameters = map[string]string{"retentionCheckEnabled": strconv.FormatBool(!v.opts.Force),
			"specifiedRetentionMillis": strconv.FormatInt(v.retention.Milliseconds(), 10)}
	}
	if _, err := v.t.Log.Commit(ctx, c); err != nil {
		v.opts.Logger.Warn("vacuum is not in the table's history", "operation", operation, "error", err)
	}
}
