package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
)

// OptimizeOptions are the settings of Optimize. The zero value is ready for use.
type OptimizeOptions struct {
	// TargetSize of new files; files below half of it are small. Default 256 MiB.
	TargetSize int64
	// MinFiles is how many small files are worth a rewrite. Default 2.
	MinFiles int
	// Gradual leaves a file alone until the smaller ones beside it amount to its size, so that each row is
	// written again a few times only however often Optimize runs: for a table that grows all the time.
	Gradual bool
	// MaxBytes ends the run when files of this size were read. 0: no limit.
	MaxBytes int64
	// DryRun plans and changes nothing.
	DryRun bool
	// Commit puts the new files in place of the old ones, such as through a group of committers. Its conflicts are those of
	// the default, the table's own Log.Commit.
	Commit func(ctx context.Context, c deltalog.Commit) (deltalog.Version, error)
	// Clock gives the times of commits. Default time.Now.
	Clock func() time.Time
	// Logger gets a line for each commit. Default: discarded.
	Logger *slog.Logger

	commitFiles int // that end a commit; default commitFiles
}

func (o OptimizeOptions) withDefaults() OptimizeOptions {
	if o.TargetSize == 0 {
		o.TargetSize = 256 << 20
	}
	if o.MinFiles == 0 {
		o.MinFiles = 2
	}
	if o.commitFiles == 0 {
		o.commitFiles = commitFiles
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o OptimizeOptions) validate() error {
	if o.TargetSize < 1024 || o.TargetSize > 64<<30 {
		return fmt.Errorf("optimize: the target size is %d bytes, want 1024 to 64 GiB", o.TargetSize)
	}
	if o.MinFiles < 2 || o.MaxBytes < 0 {
		return fmt.Errorf("optimize: want MinFiles >= 2 and MaxBytes >= 0, got %d and %d", o.MinFiles, o.MaxBytes)
	}
	return nil
}

// Files counts files and their bytes.
type Files struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (f *Files) add(n int, bytes int64) { f.Files, f.Bytes = f.Files+n, f.Bytes+bytes }

// OptimizeReport says what Optimize did, or would do.
type OptimizeReport struct {
	DryRun    bool             `json:"dryRun"`
	Version   deltalog.Version `json:"version"` // newest one after the run
	Before    Files            `json:"before"`
	After     Files            `json:"after"`   // not known of a dry run: as before
	Removed   Files            `json:"removed"` // of a dry run: that would be rewritten
	Added     Files            `json:"added"`
	Rows      int64            `json:"rows"`    // in new files
	Deleted   int64            `json:"deleted"` // rows that deletion vectors had deleted and that are gone now
	Commits   int              `json:"commits"`
	Conflicts int              `json:"conflicts"` // plans given up because another writer removed their files
	Foreign   int              `json:"foreign"`   // files left alone: others appended them, and their rows have no offset
}

// String gives the report as a person reads it.
func (r OptimizeReport) String() string {
	if r.Removed.Files == 0 {
		return fmt.Sprintf("nothing to do: %d files, %s, version %d", r.Before.Files, size(r.Before.Bytes), r.Version)
	}
	foreign := ""
	if r.Foreign > 0 {
		foreign = fmt.Sprintf("\n%d files are left alone: others appended them, and their rows have no offset to sort by", r.Foreign)
	}
	if r.DryRun {
		return fmt.Sprintf("would rewrite %d of %d files, %s of %s", r.Removed.Files, r.Before.Files, size(r.Removed.Bytes), size(r.Before.Bytes)) + foreign
	}
	s := fmt.Sprintf("%d files of %s became %d of %s, %d rows, in %d commits\nthe table has %d files now, %d before; version %d",
		r.Removed.Files, size(r.Removed.Bytes), r.Added.Files, size(r.Added.Bytes), r.Rows, r.Commits, r.After.Files, r.Before.Files, r.Version)
	if r.Deleted > 0 {
		s += fmt.Sprintf("\n%d rows that were deleted by deletion vectors are no longer stored", r.Deleted)
	}
	return s + foreign
}

func size(n int64) string {
	const units = "KMGTP"
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	v, i := float64(n)/1024, 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

const (
	maxPasses    = 16 // over a table whose files are merged in several steps
	maxConflicts = 5
)

// Optimize merges small files into files of the target size, in commits of a few such files each
// (and of a few thousand old ones), without changing a row: rows, their order by offset and their positions are the same before
// and after, which is checked before each commit (I3). Readers of older versions go on reading the old files until Vacuum
// takes them (I4, I6). Rows that deletion vectors delete are left out of the new files.
//
// It goes on when others append. When another writer removes one of its files it plans anew, and gives up with
// the conflict's error after several times. After a crash the table is as it was, or has the new files.
func Optimize(ctx context.Context, t *table.Table, opts OptimizeOptions) (OptimizeReport, error) {
	opts = opts.withDefaults()
	if opts.Commit == nil {
		opts.Commit = t.Log.Commit
	}
	o := &optimizer{t: t, opts: opts, foreign: map[string]bool{}}
	o.report.DryRun = opts.DryRun
	err := opts.validate()
	if err == nil {
		err = o.run(ctx)
	}
	if err != nil {
		return o.report, fmt.Errorf("optimize %s: %w", t.Store.URL(), err)
	}
	return o.report, nil
}

type optimizer struct {
	t      *table.Table
	opts   OptimizeOptions
	report OptimizeReport

	foreign map[string]bool // paths of files with rows that have no offset
}

func (o *optimizer) run(ctx context.Context) error {
	snap, err := newest(ctx, o.t)
	if err != nil {
		return err
	}
	o.report.Before = filesOf(snap)
	for pass := 0; pass < maxPasses; pass++ {
		bins, err := plan(o.t, snap, o.opts, o.foreign)
		if err != nil {
			return err
		}
		o.report.Foreign = len(o.foreign)
		o.report.Version, o.report.After = snap.Version(), filesOf(snap)
		if o.opts.DryRun {
			for _, b := range bins {
				o.report.Removed.add(len(b.files), b.bytes)
			}
			return nil
		}
		before := snap.NumFiles()
		conflicts, foreign := o.report.Conflicts, len(o.foreign)
		if err := o.pass(ctx, snap, bins); err != nil {
			return err
		}
		if snap, err = newest(ctx, o.t); err != nil {
			return err
		}
		o.report.Version, o.report.After = snap.Version(), filesOf(snap)
		done := len(bins) == 0 || o.opts.Gradual || o.spent() || snap.NumFiles() >= before
		o.report.Foreign = len(o.foreign)
		if done && conflicts == o.report.Conflicts && foreign == len(o.foreign) {
			return nil
		}
	}
	return nil
}

func filesOf(snap *deltalog.Snapshot) Files { return Files{snap.NumFiles(), snap.SizeBytes()} }

func (o *optimizer) spent() bool {
	return o.opts.MaxBytes > 0 && o.report.Removed.Bytes >= o.opts.MaxBytes
}

// pass rewrites the bins of one plan; after a conflict the rest is planned anew. Small bins share a commit, so that
// a table of many partition values does not get a version for each.
func (o *optimizer) pass(ctx context.Context, snap *deltalog.Snapshot, bins []*bin) error {
	var batch []*rewrite
	bytes, weight := int64(0), actions{}
	for i, b := range bins {
		r, err := o.rewrite(ctx, snap, b)
		if errors.Is(err, table.ErrNoPosition) && o.leave(b) {
			err = nil
		}
		if err != nil {
			o.discard(ctx, batch...)
			return err
		}
		if r != nil {
			batch = append(batch, r)
			bytes += b.bytes
			weight.plus(b.actions)
		}
		enough := o.opts.MaxBytes > 0 && o.report.Removed.Bytes+bytes >= o.opts.MaxBytes
		full := bytes >= binTargets*o.opts.TargetSize || weight.full(o.opts.commitFiles)
		if len(batch) == 0 || !full && i < len(bins)-1 && !enough {
			continue
		}
		again, err := o.commit(ctx, snap, batch)
		if err != nil || again || enough {
			return err
		}
		batch, bytes, weight = nil, 0, actions{}
	}
	return nil
}

// leave notes the files of a bin that do not say their offsets: one has rows without. It is false when there is
// none, so that a run comes to an end.
func (o *optimizer) leave(b *bin) bool {
	before := len(o.foreign)
	for _, f := range b.files {
		if !f.Exact {
			o.foreign[f.Add.Path] = true
		}
	}
	return len(o.foreign) > before
}

// conflicts says whether another writer changed what the plan stands on; the commit is then not in the log.
func conflicts(err error) bool {
	for _, c := range []error{deltalog.ErrConcurrentDelete, deltalog.ErrConcurrentDeleteRead, deltalog.ErrMetadataChanged, deltalog.ErrProtocolChanged} {
		if errors.Is(err, c) && !errors.Is(err, objstore.ErrUnknownOutcome) {
			return true
		}
	}
	return false
}

// rewrite is a bin and its new files, not committed yet.
type rewrite struct {
	*bin
	adds []deltalog.Add
	rows int64
}

// rewrite makes one bin's files anew. It gives nil when nothing is won by it.
func (o *optimizer) rewrite(ctx context.Context, snap *deltalog.Snapshot, b *bin) (*rewrite, error) {
	r := &rewrite{bin: b}
	var err error
	if r.adds, err = o.write(ctx, snap, b); err == nil {
		r.rows, err = o.verify(ctx, snap, b, r.adds)
	}
	// Sizes are estimates: where they were wrong, the next run would do the same again.
	if useless := len(r.adds) >= len(b.files) && !b.vectors; err != nil || useless {
		o.discard(ctx, r)
		return nil, err
	}
	return r, nil
}

// commit makes a version of some rewrites. again says that it was refused because another writer removed or changed
// what they stand on.
func (o *optimizer) commit(ctx context.Context, snap *deltalog.Snapshot, batch []*rewrite) (again bool, err error) {
	now := o.opts.Clock().UnixMilli()
	c := deltalog.Commit{ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "OPTIMIZE",
		Parameters: map[string]string{"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": strconv.FormatBool(o.opts.Gradual)}}
	var removed, added Files
	vectors := 0
	for _, r := range batch {
		for _, a := range r.adds {
			a.DataChange = false
			c.Adds = append(c.Adds, a)
			added.add(1, a.Size)
		}
		for _, f := range r.files {
			c.Removes = append(c.Removes, deltalog.RemoveOf(f.Add, now, false))
			if f.Add.DeletionVector != nil {
				vectors++
			}
		}
		removed.add(len(r.files), r.bytes)
	}
	c.Metrics = map[string]string{
		"numAddedFiles": strconv.Itoa(added.Files), "numAddedBytes": strconv.FormatInt(added.Bytes, 10),
		"numRemovedFiles": strconv.Itoa(removed.Files), "numRemovedBytes": strconv.FormatInt(removed.Bytes, 10),
		"numDeletionVectorsRemoved": strconv.Itoa(vectors),
	}
	v, err := o.opts.Commit(ctx, c)
	if err != nil {
		if !errors.Is(err, objstore.ErrUnknownOutcome) {
			o.discard(ctx, batch...)
		}
		if !conflicts(err) {
			return false, err
		}
		if o.report.Conflicts++; o.report.Conflicts >= maxConflicts {
			return false, err
		}
		return true, nil
	}
	o.opts.Logger.Info("optimized", "table", o.t.Store.URL(), "version", v, "files", removed.Files, "bytes", removed.Bytes, "into", added.Files)
	for _, r := range batch {
		o.report.Rows += r.rows
		o.report.Deleted += r.deleted
	}
	o.report.Commits++
	o.report.Removed.add(removed.Files, removed.Bytes)
	o.report.Added.add(added.Files, added.Bytes)
	return false, nil
}

// discard deletes files that no commit names and none can: the commit was refused or never tried. What it cannot
// delete, Vacuum will.
func (o *optimizer) discard(ctx context.Context, rewrites ...*rewrite) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, r := range rewrites {
		for i := range r.adds {
			if err := o.t.Store.Delete(ctx, r.adds[i].DecodedPath()); err != nil {
				o.opts.Logger.Warn("an unused file stays for vacuum", "file", r.adds[i].Path, "error", err)
				return
			}
		}
	}
}
