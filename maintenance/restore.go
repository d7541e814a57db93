package maintenance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// RestoreOptions say where to go back to: a version, or the newest one that was there at a time.
type RestoreOptions struct {
	Version    deltalog.Version
	HasVersion bool
	Time       time.Time
	// KeepPositions leaves the recorded positions where they are: the offsets between have no rows any more, and
	// are marked as lost. Without it positions go back with the rows, and whoever fills the table writes the
	// records after them again, as far as the log still has them (I3).
	KeepPositions bool
	// DryRun says what would be done.
	DryRun bool
	// Commit puts the older content in place, such as through a group of committers. Its conflicts are those of the default,
	// the table's own Log.Commit.
	Commit func(ctx context.Context, c deltalog.Commit) (deltalog.Version, error)
	// Clock gives the time of the commit. Default time.Now.
	Clock func() time.Time
}

// Move is the change of one recorded position. To is -1 for the position before offset 0.
type Move struct {
	App  string `json:"app"` // with the partition
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

// Span is offsets of a partition, To exclusive.
type Span struct {
	Partition int32 `json:"partition"`
	From      int64 `json:"from"`
	To        int64 `json:"to"`
}

// RestoreReport says what Restore changed, or would change.
type RestoreReport struct {
	DryRun    bool             `json:"dryRun"`
	From      deltalog.Version `json:"from"`    // newest version before
	To        deltalog.Version `json:"to"`      // version whose content is wanted
	Version   deltalog.Version `json:"version"` // newest version after: the same content as To has
	Added     Files            `json:"added"`
	Removed   Files            `json:"removed"`
	Files     Files            `json:"files"`
	Metadata  bool             `json:"metadata"` // schema or settings changed
	Positions []Move           `json:"positions,omitempty"`
	Lost      []Span           `json:"lost,omitempty"` // offsets without rows, with KeepPositions
}

// String gives the report as a person reads it.
func (r RestoreReport) String() string {
	if r.Version == r.From && !r.DryRun {
		return fmt.Sprintf("version %d has the content of version %d already", r.From, r.To)
	}
	verb := "brought back"
	if r.DryRun {
		verb = "would bring back"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s version %d: %d files of %s return, %d files of %s leave; the table then has %d files of %s",
		verb, r.To, r.Added.Files, size(r.Added.Bytes), r.Removed.Files, size(r.Removed.Bytes), r.Files.Files, size(r.Files.Bytes))
	if r.Metadata {
		s.WriteString("\nschema or settings go back too")
	}
	for _, m := range r.Positions {
		if m.To < 0 {
			fmt.Fprintf(&s, "\nposition %s: none, was %d", m.App, m.From)
			continue
		}
		fmt.Fprintf(&s, "\nposition %s: %d, was %d", m.App, m.To, m.From)
	}
	for _, l := range r.Lost {
		fmt.Fprintf(&s, "\npartition %d: offsets [%d,%d) have no rows any more, and the table says that they are lost", l.Partition, l.From, l.To)
	}
	if !r.DryRun {
		fmt.Fprintf(&s, "\nthis is version %d", r.Version)
	}
	return s.String()
}

// MissingFilesError names the files of an older version that are gone, decoded. Nothing was changed.
type MissingFilesError struct {
	Version deltalog.Version
	Paths   []string
}

func (e *MissingFilesError) Error() string {
	shown := e.Paths[:min(len(e.Paths), 10)]
	more := ""
	if n := len(e.Paths) - len(shown); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("version %d cannot be restored: %d of its files are gone, a vacuum has probably taken them: %s%s; choose a later version",
		e.Version, len(e.Paths), strings.Join(shown, ", "), more)
}

// ErrPositionMoved means that records were written into the table again and again while Restore tried to go back.
var ErrPositionMoved = errors.New("the table is being written to: stop what fills it, or try again")

// restoreTries bounds how often a restore is planned anew beside writers.
const restoreTries = 5

// restoreLease protects the files of the old version while they are being checked.
const restoreLease = time.Hour

// Restore makes the newest version have the content of an older one: rows, schema, settings and positions. It adds
// a version, so it can be undone by restoring the one before it. The protocol only ever goes up and stays. Data
// files are not copied: those that left the table since come back, and if one is gone nothing is changed and a
// *MissingFilesError names them. After a crash the table has the content of before or of after.
func Restore(ctx context.Context, t *table.Table, opts RestoreOptions) (RestoreReport, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.Commit == nil {
		opts.Commit = t.Log.Commit
	}
	r := &restorer{t: t, opts: opts}
	r.report.DryRun = opts.DryRun
	if err := r.run(ctx); err != nil {
		return r.report, fmt.Errorf("restore %s: %w", t.Store.URL(), err)
	}
	return r.report, nil
}

type restorer struct {
	t      *table.Table
	opts   RestoreOptions
	report RestoreReport
}

func (r *restorer) run(ctx context.Context) error {
	if r.opts.HasVersion == !r.opts.Time.IsZero() {
		return errors.New("give a version or a time to go back to, one of the two")
	}
	v := r.opts.Version
	if !r.opts.HasVersion {
		var err error
		if v, err = r.t.Log.VersionAt(ctx, r.opts.Time); err != nil {
			return err
		}
	}
	r.report.To = v
	if !r.opts.DryRun { // vacuums keep the files from here on (I6)
		lease, err := r.t.Lease(ctx, v, "restore", restoreLease)
		if err != nil {
			return err
		}
		defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }() // it runs out by itself
	}
	target, err := r.t.Log.SnapshotAt(ctx, v)
	if err != nil {
		return err
	}
	for range restoreTries {
		again, err := r.try(ctx, target)
		if err == nil || !again {
			return err
		}
	}
	return ErrPositionMoved
}

// try plans on the newest version and commits; again says that another writer came in between.
func (r *restorer) try(ctx context.Context, target *deltalog.Snapshot) (again bool, err error) {
	snap, err := newest(ctx, r.t)
	if err != nil {
		return false, err
	}
	if target.Version() > snap.Version() {
		return false, fmt.Errorf("version %d is newer than the table, which has %d", target.Version(), snap.Version())
	}
	c, err := r.plan(snap, target)
	if err != nil {
		return false, err
	}
	if err := r.checkFiles(ctx, c.Adds); err != nil {
		return false, err
	}
	if r.report.Version = snap.Version(); r.opts.DryRun || empty(c) {
		return false, nil
	}
	at, err := r.opts.Commit(ctx, c)
	if err == nil {
		r.report.Version = at
		_, err = r.t.Refresh(ctx)
		return false, err
	}
	var moved *deltalog.TxnConflictError
	again = !errors.Is(err, objstore.ErrUnknownOutcome) &&
		(conflicts(err) || errors.Is(err, deltalog.ErrConcurrentAppend) || errors.As(err, &moved))
	return again, err
}

func empty(c deltalog.Commit) bool {
	return len(c.Adds)+len(c.Removes)+len(c.Txns) == 0 && c.Metadata == nil
}

// fileID is what makes two actions name the same rows.
func fileID(a *deltalog.Add) string { return a.DecodedPath() + "\x00" + a.DeletionVector.UniqueID() }

// plan compares the two versions.
func (r *restorer) plan(snap, target *deltalog.Snapshot) (deltalog.Commit, error) {
	now := r.opts.Clock().UnixMilli()
	rep := &r.report
	*rep = RestoreReport{DryRun: r.opts.DryRun, From: snap.Version(), To: target.Version(), Files: filesOf(target)}
	c := deltalog.Commit{ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, ReadAll: true, Operation: "RESTORE",
		Parameters: map[string]string{"version": strconv.FormatInt(int64(target.Version()), 10)}}
	if !r.opts.HasVersion {
		c.Parameters = map[string]string{"timestamp": r.opts.Time.UTC().Format("2006-01-02 15:04:05.000")}
	}
	have := make(map[string]struct{}, snap.NumFiles())
	for f := range snap.Files() {
		have[fileID(f)] = struct{}{}
	}
	want := make(map[string]struct{}, target.NumFiles())
	for f := range target.Files() {
		id := fileID(f)
		want[id] = struct{}{}
		if _, ok := have[id]; !ok {
			add := *f
			add.DataChange = true
			c.Adds = append(c.Adds, add)
			rep.Added.add(1, f.Size)
		}
	}
	for f := range snap.Files() {
		if _, ok := want[fileID(f)]; !ok {
			c.Removes = append(c.Removes, deltalog.RemoveOf(f, now, true))
			rep.Removed.add(1, f.Size)
		}
	}
	c.Metrics = map[string]string{
		"numRestoredFiles": strconv.Itoa(rep.Added.Files), "restoredFilesSize": strconv.FormatInt(rep.Added.Bytes, 10),
		"numRemovedFiles": strconv.Itoa(rep.Removed.Files), "removedFilesSize": strconv.FormatInt(rep.Removed.Bytes, 10),
		"numOfFilesAfterRestore": strconv.Itoa(rep.Files.Files), "tableSizeAfterRestore": strconv.FormatInt(rep.Files.Bytes, 10),
	}
	meta := *target.Metadata()
	meta.Configuration = maps.Clone(meta.Configuration)
	if err := r.positions(&c, &meta, snap, target); err != nil {
		return c, err
	}
	if differ(&meta, snap.Metadata()) {
		c.Metadata, rep.Metadata = &meta, true
	}
	return c, nil
}

// differ compares what a restore takes back. The table's id and the time of its creation are what they are.
func differ(a, b *deltalog.Metadata) bool {
	return a.SchemaString != b.SchemaString || a.Name != b.Name || a.Description != b.Description ||
		!slices.Equal(a.PartitionColumns, b.PartitionColumns) || !maps.Equal(a.Configuration, b.Configuration)
}

// positions takes the recorded positions back with the rows (I3), or marks what is between as lost.
func (r *restorer) positions(c *deltalog.Commit, meta *deltalog.Metadata, snap, target *deltalog.Snapshot) error {
	if !r.t.Names.Ordered() && r.t.Spoilt() == nil {
		return nil // positions of other programs' streams mean nothing to us
	}
	ends := snap.Txns()
	for _, id := range slices.Sorted(maps.Keys(ends)) {
		app, partition, ok := table.SplitAppID(id)
		if !ok {
			continue
		}
		to, ok := target.Txn(id)
		if !ok && r.t.Names.Topic != "" { // where its topic began is not known: files do not say who wrote them
			return fmt.Errorf("the table has rows of several topics, and version %d is from before %s: restore a version that has positions of all", r.report.To, id)
		}
		if !ok {
			first, err := r.firstOffset(snap, partition)
			if err != nil {
				return err
			}
			to = first - 1
		}
		if to == ends[id] {
			continue
		}
		if !r.opts.KeepPositions || to > ends[id] { // rows that come back are decided
			c.Txns = append(c.Txns, deltalog.Txn{AppID: id, Version: to})
			r.report.Positions = append(r.report.Positions, Move{id, ends[id], to})
			continue
		}
		gone := table.Range{Partition: partition, From: record.Offset(max(to, -1) + 1), To: record.Offset(ends[id] + 1)}
		text, err := table.AddLost(snap, app, partition, []table.Range{gone})
		if err != nil {
			return err
		}
		meta.Configuration[table.LostProperty(app, partition)] = text
		r.report.Lost = append(r.report.Lost, Span{partition, int64(gone.From), int64(gone.To)})
	}
	return nil
}

// firstOffset is where the rows of a partition begin, 0 when that is not known.
func (r *restorer) firstOffset(snap *deltalog.Snapshot, partition int32) (int64, error) {
	first, any := int64(0), false
	files, err := r.t.FilesFor(snap, nil)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		for _, x := range f.Ranges {
			if x.Partition == partition && (!any || int64(x.From) < first) {
				first, any = int64(x.From), true
			}
		}
	}
	return max(first, 0), nil
}

// checkFiles makes sure that files which come back are there, with their size, and their deletion vectors.
func (r *restorer) checkFiles(ctx context.Context, adds []deltalog.Add) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	gone := make([]string, 2*len(adds))
	for i := range adds {
		g.Go(func() (err error) {
			a := &adds[i]
			if gone[2*i], err = r.missing(gctx, a.Path, a.Size); err != nil || a.DeletionVector == nil {
				return err
			}
			p, err := table.VectorPath(a.DeletionVector)
			if err == nil && p != "" {
				gone[2*i+1], err = r.missing(gctx, p, -1)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("check the files of version %d: %w", r.report.To, err)
	}
	gone = slices.DeleteFunc(gone, func(p string) bool { return p == "" })
	if len(gone) > 0 {
		return &MissingFilesError{Version: r.report.To, Paths: slices.Compact(slices.Sorted(slices.Values(gone)))}
	}
	return nil
}

// missing gives the key of a file that is not there, or has another size than the log says.
func (r *restorer) missing(ctx context.Context, path string, size int64) (string, error) {
	key, err := r.t.ObjectKey(path)
	if err != nil {
		return "", err
	}
	info, err := r.t.Store.Head(ctx, key)
	if errors.Is(err, objstore.ErrNotFound) || err == nil && size >= 0 && info.Size != size {
		return key, nil
	}
	return "", err
}
