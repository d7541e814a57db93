package reprocess

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

var (
	// ErrNotShadow means that the new table does not lie where the old one's log can name its files.
	ErrNotShadow = errors.New(`the new table is not in the old one's folder: only a job with "sink: shadow" can be swapped`)
	// ErrNotSwappable is wrapped by errors about tables that cannot be swapped as they are.
	ErrNotSwappable = errors.New("the tables cannot be swapped")
	// ErrSwapped means that the new table was swapped in already.
	ErrSwapped = errors.New("the new table was swapped in already")
	// ErrMoving means that the old table grew faster than the new one caught up.
	ErrMoving = errors.New("the old table grows faster than the new one catches up: stop what fills it, and try again")
)

// SwapReport says what Swap did, or would do.
type SwapReport struct {
	DryRun    bool             `json:"dryRun"`
	From      deltalog.Version `json:"from"`    // of the old table, before
	Version   deltalog.Version `json:"version"` // after; -1 with DryRun
	Removed   int              `json:"removed"` // files of the old content
	Added     int              `json:"added"`
	Positions map[string]int64 `json:"positions"` // the first offset of each partition that is not in the table
	FilledBy  string           `json:"filledBy"`  // who fills the table from now on: the topic's tiering, or the job
}

// String gives the report as a person reads it.
func (r SwapReport) String() string {
	verb := "swapped in"
	if r.DryRun {
		verb = "would swap in"
	}
	s := fmt.Sprintf("%s %d files for %d; the table goes on at offsets %v, filled by %s", verb, r.Added, r.Removed, r.Positions, r.FilledBy)
	if !r.DryRun {
		s += fmt.Sprintf("\nversion %d has the new content; version %d is the old one, and `ledgerlake restore --to-version %d` brings it back", r.Version, r.From, r.From)
	}
	return s
}

// Swap makes the new table's content that of the old one, in one commit of the old one's log: a reader of any make
// sees all old rows or all new ones. Before it the new table catches up with the old one, and the commit is made
// only if both stand at the same offsets: what fills the old table may go on meanwhile, and goes on behind the swap
// without a gap or a double (I3).
//
// The old table is one that another job made, or that of the topic itself. In the first case the new job fills it
// from then on (Run with Follow, and the table as its sink), and the old job ends with a clear error. The table of a
// topic is the history that its consumers read, so only a job that changes no values, but the columns they are
// decoded into, may replace it; the topic's tiering goes on with it.
func (j *Job) Swap(ctx context.Context, old *table.Table, dryRun bool) (SwapReport, error) {
	if j.cfg.Outlet != nil {
		return SwapReport{}, errNoTable
	}
	if j.sink.Store.URL() != ShadowPath(old.Store.URL(), j.plan.Job) {
		return SwapReport{}, ErrNotShadow
	}
	const tries = 10
	for range tries {
		done, err := j.finish(ctx)
		if err == nil && !done {
			err = ErrUnfinished
		}
		if err != nil {
			return SwapReport{}, err
		}
		r, commit, behind, err := j.planSwap(ctx, old, dryRun)
		if err != nil {
			return r, err
		}
		if len(behind) > 0 {
			if err := j.catchUp(ctx, behind); err != nil {
				return r, fmt.Errorf("catch up with the old table: %w", err)
			}
			continue
		}
		if dryRun {
			return r, nil
		}
		r.Version, err = j.commitTo(ctx, old, commit)
		var moved *deltalog.TxnConflictError
		again := errors.As(err, &moved) || errors.Is(err, deltalog.ErrConcurrentAppend) || errors.Is(err, deltalog.ErrConcurrentDelete) ||
			errors.Is(err, deltalog.ErrConcurrentDeleteRead) || errors.Is(err, deltalog.ErrMetadataChanged)
		if !again {
			return r, err
		}
	}
	return SwapReport{}, ErrMoving
}

func (j *Job) commitTo(ctx context.Context, t *table.Table, c deltalog.Commit) (deltalog.Version, error) {
	if j.cfg.Change == nil {
		return t.Log.Commit(ctx, c)
	}
	return j.cfg.Change(ctx, t, c)
}

// planSwap builds the commit. behind are the spans that the new table lacks, by partition; there is no commit then.
func (j *Job) planSwap(ctx context.Context, old *table.Table, dryRun bool) (r SwapReport, c deltalog.Commit, behind map[int32]span, err error) {
	snapOld, err := old.Log.Snapshot(ctx)
	if err != nil {
		return r, c, nil, err
	}
	snapNew, err := j.sink.Log.Snapshot(ctx)
	if err != nil {
		return r, c, nil, err
	}
	if old.Names.Topic != "" {
		return r, c, nil, fmt.Errorf("%w: the old table has rows of several topics, and a swap would replace all of them by those of %s", ErrNotSwappable, j.cfg.Topic)
	}
	if err := swappable(snapOld, snapNew); err != nil {
		return r, c, nil, err
	}
	if _, done := snapOld.Metadata().Configuration[table.SwappedProperty(j.plan.Job)]; done {
		return r, c, nil, ErrSwapped
	}
	filler, ofJob := snapOld.Metadata().Configuration[committer.FilledByProperty]
	if !ofJob {
		filler = j.cfg.Topic
	}
	if !ofJob && (j.cfg.Spec.Changes() || j.cfg.Transform != nil) {
		return r, c, nil, fmt.Errorf("%w: the old table is the history of topic %s, and a job that changes values would change what its consumers read: "+
			"let the job fill a table of its own, or replace one that a job fills", ErrNotSwappable, j.cfg.Topic)
	}
	r = SwapReport{DryRun: dryRun, From: snapOld.Version(), Version: -1, Positions: map[string]int64{}, FilledBy: "tiering of topic " + j.cfg.Topic}
	if ofJob {
		r.FilledBy = "job " + j.plan.Job
	}
	behind = map[int32]span{}
	c = deltalog.Commit{ReadVersion: snapOld.Version(), Incarnation: snapOld.Metadata().ID, Operation: "REPLACE TABLE", ReadAll: true,
		Parameters: map[string]string{"job": j.plan.Job}}
	next := j.plan.Job
	if !ofJob {
		next = filler
	}
	for _, p := range j.partitions(snapOld, snapNew, filler) {
		oldEnd, known := table.LakeEnd(snapOld, filler, p)
		newEnd, err := j.newEnd(old, snapOld, snapNew, p)
		switch {
		case err != nil:
			return r, c, nil, err
		case newEnd < oldEnd:
			behind[p] = span{newEnd, oldEnd}
			continue
		case !ofJob && (newEnd > oldEnd || !known):
			return r, c, nil, fmt.Errorf("%w: the new table is %d offsets ahead in partition %d: wait until tiering of the topic has committed them", ErrNotSwappable, newEnd-oldEnd, p)
		}
		c.Txns = append(c.Txns, deltalog.Txn{AppID: table.AppID(next, p), Version: int64(newEnd) - 1})
		r.Positions[fmt.Sprint(p)] = int64(newEnd)
	}
	if len(behind) > 0 {
		return r, c, behind, nil
	}
	if !ofJob {
		if err := sameRows(snapOld, snapNew); err != nil {
			return r, c, nil, err
		}
	}
	now := time.Now().UnixMilli()
	for add := range snapOld.Files() {
		c.Removes = append(c.Removes, deltalog.RemoveOf(add, now, true))
	}
	for add := range snapNew.Files() {
		a := *add
		a.Path, a.DataChange = table.ShadowFolder(j.plan.Job)+"/"+add.Path, true
		c.Adds = append(c.Adds, a)
	}
	if c.Metadata, err = j.swappedMetadata(snapOld.Metadata(), snapNew.Metadata(), ofJob); err != nil {
		return r, c, nil, err
	}
	if err := addFeatures(&c, snapOld, snapNew); err != nil {
		return r, c, nil, err
	}
	r.Removed, r.Added = len(c.Removes), len(c.Adds)
	return r, c, nil, nil
}

// partitions are all that one of the two tables knows.
func (j *Job) partitions(old, new *deltalog.Snapshot, filler string) []int32 {
	all := append(table.Partitions(old, filler), table.Partitions(new, j.plan.Job)...)
	for _, r := range j.plan.Ranges {
		if r.To > r.From {
			all = append(all, r.Partition)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// newEnd gives the first offset of a partition that the new table has not decided, if it has everything before it.
func (j *Job) newEnd(old *table.Table, snapOld, snapNew *deltalog.Snapshot, p int32) (record.Offset, error) {
	end, ok := table.LakeEnd(snapNew, j.plan.Job, p)
	i := slices.IndexFunc(j.plan.Ranges, func(r Split) bool { return r.Partition == p })
	if i < 0 {
		if !ok {
			return 0, fmt.Errorf("%w: the job does not have partition %d", ErrNotSwappable, p)
		}
		return end, nil // a partition that came later: the job follows it from its first record
	}
	planned := j.plan.Ranges[i]
	first, err := firstOffset(old, snapOld, p)
	if err != nil {
		return 0, err
	}
	if planned.From > first {
		return 0, fmt.Errorf("%w: the job begins at offset %d of partition %d, and the old table has rows from %d on", ErrNotSwappable, planned.From, p, first)
	}
	return max(end, planned.To), nil
}

// sameRows refuses a swap after which the history of a topic would have fewer records, because they became dead letters
// of the job or because others had appended rows, or more.
func sameRows(old, new *deltalog.Snapshot) error {
	a, okA := old.NumRows()
	b, okB := new.NumRows()
	if !okA || !okB {
		return fmt.Errorf("%w: a file does not say how many rows it has, so nothing says that none is lost; optimize the table first", ErrNotSwappable)
	}
	if a != b {
		return fmt.Errorf("%w: the old table has %d rows and the new one %d at the same offsets; verify names them, the job's dead letters say why", ErrNotSwappable, a, b)
	}
	return nil
}

// swappedMetadata is the old table's identity with the new table's columns, and with its job if the old one had one.
func (j *Job) swappedMetadata(old, new *deltalog.Metadata, ofJob bool) (*deltalog.Metadata, error) {
	m := *old
	m.SchemaString = new.SchemaString
	m.Configuration = maps.Clone(old.Configuration)
	if m.Configuration == nil {
		m.Configuration = map[string]string{}
	}
	m.Configuration[table.SwappedProperty(j.plan.Job)] = "true"
	if ofJob {
		plan := *j.plan
		plan.Swapped = true // its splits are done, and their positions stay behind
		raw, err := json.Marshal(plan)
		if err != nil {
			return nil, err
		}
		for key, v := range j.fill.properties(j.plan.Job) { // for who reads the log under the job's name before it follows
			if v != "" {
				m.Configuration[key] = v
			}
		}
		m.Configuration[planProperty], m.Configuration[committer.FilledByProperty] = string(raw), j.plan.Job
	}
	return &m, nil
}

// swappable refuses what one commit cannot express.
func swappable(old, new *deltalog.Snapshot) error {
	for _, s := range []*deltalog.Snapshot{old, new} {
		if mode := s.Metadata().Configuration["delta.columnMapping.mode"]; mode != "" && mode != "none" {
			return fmt.Errorf("%w: column mapping (mode %s)", ErrNotSwappable, mode)
		}
	}
	if !slices.Equal(old.Metadata().PartitionColumns, new.Metadata().PartitionColumns) {
		return fmt.Errorf("%w: partition columns %v and %v", ErrNotSwappable, old.Metadata().PartitionColumns, new.Metadata().PartitionColumns)
	}
	for add := range new.Files() {
		if add.DeletionVector != nil {
			return fmt.Errorf("%w: file %s of the new one has a deletion vector; optimize it first", ErrNotSwappable, add.Path)
		}
	}
	return nil
}

// firstOffset is the first offset of a partition that the table may have rows of.
func firstOffset(t *table.Table, snap *deltalog.Snapshot, p int32) (record.Offset, error) {
	first := record.Offset(1 << 62) // when it has none
	files, err := t.FilesFor(snap, []table.Range{{Partition: p, From: 0, To: 1 << 62}})
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		if f.Ranges == nil {
			return 0, nil
		}
		for _, r := range f.Ranges {
			if r.Partition == p {
				first = min(first, r.From)
			}
		}
	}
	return first, nil
}

// catchUp brings the new table to where the old one stands, under the job's own position.
func (j *Job) catchUp(ctx context.Context, behind map[int32]span) error {
	if j.stream.table != nil {
		if err := j.stream.look(ctx); err != nil {
			return err
		}
	}
	a := &applied{stream: j.stream, pool: j.pool, seen: &j.seen, filter: j.filter, only: behind}
	cfg := j.tiering(a, j.plan.Job)
	cfg.UntilEnd = true
	for p := range behind {
		cfg.Partitions = append(cfg.Partitions, p)
	}
	slices.Sort(cfg.Partitions)
	return j.tier(ctx, cfg)
}

// Retire deletes the log of a job's new table that was swapped in: its files belong to the old table from then on, and
// stay. With discard it deletes a new table that was not swapped in, files and all. It may be called again after it
// was stopped. shadow is the store at ShadowPath.
func Retire(ctx context.Context, old *table.Table, shadow objstore.Store, job string, discard bool) (deleted int, err error) {
	if shadow.URL() != ShadowPath(old.Store.URL(), job) {
		return 0, ErrNotShadow
	}
	snap, err := old.Log.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	_, swapped := snap.Metadata().Configuration[table.SwappedProperty(job)]
	for add := range snap.Files() {
		if strings.HasPrefix(add.Path, table.ShadowFolder(job)+"/") {
			swapped = true
			break
		}
	}
	list := objstore.ListOptions{}
	switch {
	case swapped:
		list.Prefix = "_delta_log/"
	case !discard:
		return 0, fmt.Errorf("job %s is not swapped in; with discard its new table is deleted", job)
	}
	var keys []string
	for info, err := range shadow.List(ctx, list) {
		if err != nil {
			return 0, fmt.Errorf("list the new table: %w", err)
		}
		keys = append(keys, info.Key)
	}
	slices.SortFunc(keys, retireOrder)
	for _, key := range keys {
		if err := shadow.Delete(ctx, key); err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return deleted, fmt.Errorf("delete %s: %w", key, err)
		}
		deleted++
	}
	return deleted, nil
}

// retireOrder has the log of a table before what it names, and its newest version first: wherever a delete is cut off, what
// is left is an older version of the table, whole, or none.
func retireOrder(a, b string) int {
	named := func(key string) int {
		if strings.HasPrefix(key, "_delta_log/") && !strings.HasPrefix(key, "_delta_log/_sidecars/") {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(named(a), named(b)), cmp.Compare(b, a))
}

// addFeatures lets the old table have the features that the new one's columns and files need.
func addFeatures(c *deltalog.Commit, old, new *deltalog.Snapshot) error {
	was, is := old.Protocol(), new.Protocol()
	have := was.Features()
	need := slices.DeleteFunc(is.Features(), func(f string) bool { return slices.Contains(have, f) })
	if len(need) == 0 {
		return nil
	}
	raised, err := old.Alter(deltalog.Change{Features: need})
	if err != nil {
		return fmt.Errorf("%w: the new one has features of Delta that the old one lacks: %w", ErrNotSwappable, err)
	}
	c.Protocol = raised.Protocol
	return nil
}
