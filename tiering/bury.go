package tiering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Dead letters are committed before the rows around them, in a commit of another table. When the rows' commit
// does not follow (a crash, a refusal), the dead letter table holds letters of offsets that are not decided, and
// the next try may judge these records otherwise, by a new schema or format. So each commit first makes the dead
// letter table say of its ranges exactly what it says itself: letters that are missing are added, letters of
// records that are rows now are taken out. An offset is then never both, nor neither (I3, I7).
//
// The txn of the dead letter table is the last offset that ever had a letter. In the normal case it lies below
// the ranges and nothing is read. It also makes two writers of a partition meet: one of two commits is refused.

// place is where a record stands.
type place struct {
	partition int32
	offset    record.Offset
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
}

// bury brings the dead letters of a commit's ranges in line with it.
func (s *session) bury(ctx context.Context, all *output) error {
	var refused refusals
	for try := 1; ; try++ {
		err := s.tryBury(ctx, all)
		if err == nil || ctx.Err() != nil || stale(err) {
			return err
		}
		if err, final := s.t.cfg.final(err, &refused); final {
			return err
		}
		if !moved(err) {
			s.t.stats.retried()
			s.t.cfg.Logger.Warn("commit of dead letters failed, will be tried again", "topic", s.t.cfg.Topic, "try", try, "error", err)
		}
		sleep(ctx, s.t.cfg.pause(try))
	}
}

// moved says whether another writer of the dead letter table was faster.
func moved(err error) bool {
	var conflict *deltalog.TxnConflictError
	return errors.As(err, &conflict) || errors.Is(err, deltalog.ErrConcurrentDelete)
}

func (s *session) tryBury(ctx context.Context, all *output) error {
	tab, snap, err := s.t.deadTable(ctx, len(all.dead) > 0)
	if err != nil || tab == nil {
		return err
	}
	have, err := s.t.letters(ctx, tab, snap, all.ranges)
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	all.lost = withoutPlaces(all.passed, have) // a letter of a record that the log has lost since is all there is of it
	missing, gone := compareLetters(all, have)
	if len(missing) == 0 && len(gone) == 0 {
		return nil
	}
	if err := s.checkTable(ctx, all.ranges); err != nil {
		return err
	}
	c := deltalog.Commit{
		ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "STREAMING UPDATE", BlindAppend: len(gone) == 0,
		Parameters: map[string]string{"outputMode": "Append", "queryId": s.t.cfg.App}, Txns: s.t.deadTxns(snap, missing, gone),
	}
	if len(gone) > 0 {
		if err := s.t.exhume(ctx, tab, snap, gone, &c); err != nil {
			return fmt.Errorf("take out dead letters: %w", err)
		}
		s.t.cfg.Logger.Info("dead letters of records that fit now are taken out", "topic", s.t.cfg.Topic, "letters", len(gone))
	}
	if len(missing) > 0 {
		adds, err := s.t.writeDead(ctx, tab, snap, missing)
		if err != nil {
			return err
		}
		c.Adds = append(c.Adds, adds...)
	}
	if _, err := s.t.cfg.Change.of(ctx, tab, c); err != nil {
		return fmt.Errorf("commit dead letters: %w", err)
	}
	return nil
}

// deadTable gives the dead letter table with its newest snapshot; nil when there is none and none is to be made.
func (t *Tierer) deadTable(ctx context.Context, create bool) (*table.Table, *deltalog.Snapshot, error) {
	t.mu.Lock()
	tab, store, own := t.dead, t.deadStore, t.ownDead
	t.mu.Unlock()
	if tab != nil {
		snap, err := tab.Refresh(ctx)
		if err == nil || !errors.Is(err, deltalog.ErrNotTable) || !own {
			return tab, snap, err
		}
		if err := t.setDead(store, nil); err != nil { // somebody has dropped it
			return nil, nil, err
		}
	}
	var err error
	if store == nil {
		if store, err = t.cfg.DeadLetterStore(ctx); err != nil {
			return nil, nil, fmt.Errorf("open store of dead letters: %w", err)
		}
	}
	if create {
		tab, err = OpenDeadLetters(ctx, store, LetterConfig{Topic: t.cfg.Topic, Shared: t.cfg.SharedLetters || t.cfg.Table.Names.Topic != "", Transform: t.cfg.LetterTransform})
	} else {
		tab, err = table.Open(ctx, store, table.Config{Topic: t.cfg.Topic})
		if errors.Is(err, deltalog.ErrNotTable) {
			return nil, nil, t.setDead(store, nil)
		}
		if err == nil && !tab.Names.Ordered() { // somebody else's, with no letter of ours yet
			return nil, nil, errors.Join(tab.Close(), t.setDead(store, nil))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if err := t.setDead(store, tab); err != nil {
		return nil, nil, err
	}
	snap, err := tab.Refresh(ctx)
	return tab, snap, err
}

// setDead remembers the dead letter table, and closes one that was opened here before.
func (t *Tierer) setDead(store objstore.Store, tab *table.Table) error {
	t.mu.Lock()
	old := t.dead
	t.dead, t.deadStore, t.ownDead = tab, store, tab != nil
	t.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// letters gives the places in the ranges that have a dead letter of the topic, sorted.
func (t *Tierer) letters(ctx context.Context, tab *table.Table, snap *deltalog.Snapshot, ranges []committer.Range) ([]place, error) {
	var look []table.Range
	for _, r := range ranges {
		if end, ok := table.LakeEnd(snap, t.cfg.App, r.Partition); ok && end > r.From {
			look = append(look, table.Range{Partition: r.Partition, From: r.From, To: min(r.To, end)})
		}
	}
	if len(look) == 0 {
		return nil, nil
	}
	files, err := tab.FilesFor(snap, look)
	if err != nil {
		return nil, err
	}
	var out []place
	for _, f := range files {
		for rb, err := range tab.Scan(ctx, snap, table.ScanOptions{Files: []*deltalog.Add{f.Add}, Ranges: look, Columns: placeColumns(tab, snap)}) {
			if err != nil {
				return nil, err
			}
			at, err := t.ownPlaces(rb, tab.Names)
			rb.Release()
			if err != nil {
				return nil, err
			}
			out = append(out, slices.DeleteFunc(at, func(p place) bool { return p == nowhere })...)
		}
	}
	slices.SortFunc(out, comparePlaces)
	return slices.Compact(out), nil
}

// placeColumns are those that say which record a dead letter is of.
func placeColumns(tab *table.Table, snap *deltalog.Snapshot) []string {
	out := []string{tab.Names.Partition, tab.Names.Offset}
	if _, ok := snap.Schema().Field(table.TopicColumn); ok {
		out = append(out, table.TopicColumn)
	}
	return out
}

// nowhere is the place of a row that is none of ours.
var nowhere = place{-1, -1}

// ownPlaces reads the coordinates of dead letters. The table may be that of several topics, which have the same offsets: what
// is of another one, or was put there by somebody else, is nowhere.
func (t *Tierer) ownPlaces(rb arrow.RecordBatch, names table.Names) ([]place, error) {
	at, err := places(rb, names)
	if err != nil {
		return nil, err
	}
	if i := rb.Schema().FieldIndices(table.TopicColumn); len(i) == 1 {
		topics, ok := rb.Column(i[0]).(*array.String)
		for row := range at {
			if ok && topics.IsValid(row) && topics.Value(row) != t.cfg.Topic {
				at[row] = nowhere
			}
		}
	}
	return at, nil
}

// places reads the coordinates of rows; those without are nowhere.
func places(rb arrow.RecordBatch, names table.Names) ([]place, error) {
	column := func(name string) arrow.Array {
		if i := rb.Schema().FieldIndices(name); len(i) == 1 {
			return rb.Column(i[0])
		}
		return nil
	}
	parts, ok1 := column(names.Partition).(*array.Int32)
	offsets, ok2 := column(names.Offset).(*array.Int64)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("columns %s and %s are not int and long", names.Partition, names.Offset)
	}
	out := make([]place, rb.NumRows())
	for i := range out {
		if out[i] = nowhere; parts.IsValid(i) && offsets.IsValid(i) {
			out[i] = place{parts.Value(i), record.Offset(offsets.Value(i))}
		}
	}
	return out, nil
}

// compareLetters gives the dead letters that the table lacks, and the places whose letters are none any more.
func compareLetters(all *output, have []place) (missing []deadLetter, gone []place) {
	want := make([]place, len(all.dead)) // sorted as all.dead is
	for i, d := range all.dead {
		want[i] = place{d.partition, d.offset}
		if _, ok := slices.BinarySearchFunc(have, want[i], comparePlaces); !ok {
			missing = append(missing, d)
		}
	}
	for _, p := range have {
		if _, ok := slices.BinarySearchFunc(want, p, comparePlaces); !ok && !all.overLost(p) {
			gone = append(gone, p)
		}
	}
	return missing, gone
}

// overLost says whether the log has lost the records around a place: there is no other word on it then.
func (o *output) overLost(p place) bool {
	return slices.ContainsFunc(o.passed, func(r committer.Range) bool {
		return r.Partition == p.partition && r.From <= p.offset && p.offset < r.To
	})
}

// withoutPlaces takes single offsets out of ranges.
func withoutPlaces(ranges []committer.Range, at []place) []committer.Range {
	for _, p := range at {
		i := slices.IndexFunc(ranges, func(r committer.Range) bool {
			return r.Partition == p.partition && r.From <= p.offset && p.offset < r.To
		})
		if i < 0 {
			continue
		}
		r := ranges[i]
		ranges = slices.Replace(slices.Clone(ranges), i, i+1,
			committer.Range{Partition: r.Partition, From: r.From, To: p.offset}, committer.Range{Partition: r.Partition, From: p.offset + 1, To: r.To})
	}
	return slices.DeleteFunc(slices.Clone(ranges), func(r committer.Range) bool { return r.From >= r.To })
}

// deadTxns moves the positions of the partitions that a commit of dead letters touches. They never go back.
func (t *Tierer) deadTxns(snap *deltalog.Snapshot, missing []deadLetter, gone []place) []deltalog.Txn {
	last := map[int32]record.Offset{}
	touch := func(p int32, o record.Offset) {
		if end, ok := table.LakeEnd(snap, t.cfg.App, p); ok {
			o = max(o, end-1)
		}
		last[p] = max(last[p], o)
	}
	for _, d := range missing {
		touch(d.partition, d.offset)
	}
	for _, p := range gone {
		touch(p.partition, p.offset)
	}
	var txns []deltalog.Txn
	for p, o := range last {
		txns = append(txns, deltalog.Txn{AppID: table.AppID(t.cfg.App, p), Version: int64(o)})
	}
	return txns
}

// exhume adds to a commit what takes dead letters out of the table: the files that hold them go, and what else
// they hold is written again. Files are looked at one by one: letters of several topics may have the same coordinates.
func (t *Tierer) exhume(ctx context.Context, tab *table.Table, snap *deltalog.Snapshot, gone []place, c *deltalog.Commit) error {
	ranges := make([]table.Range, len(gone))
	for i, p := range gone {
		ranges[i] = table.Range{Partition: p.partition, From: p.offset, To: p.offset + 1}
	}
	files, err := tab.FilesFor(snap, ranges)
	if err != nil {
		return err
	}
	now := t.cfg.Clock().UnixMilli()
	for _, f := range files {
		has, err := t.holdsLetters(ctx, tab, snap, f.Add, gone)
		if err != nil {
			return err
		}
		if !has {
			continue
		}
		adds, err := t.copyLetters(ctx, tab, snap, f.Add, gone)
		if err != nil {
			return err
		}
		c.Removes = append(c.Removes, deltalog.RemoveOf(f.Add, now, true))
		c.Adds = append(c.Adds, adds...)
	}
	return nil
}

// holdsLetters says whether a file has any of the letters.
func (t *Tierer) holdsLetters(ctx context.Context, tab *table.Table, snap *deltalog.Snapshot, f *deltalog.Add, gone []place) (bool, error) {
	for rb, err := range tab.Scan(ctx, snap, table.ScanOptions{Files: []*deltalog.Add{f}, Columns: placeColumns(tab, snap)}) {
		if err != nil {
			return false, err
		}
		at, err := t.ownPlaces(rb, tab.Names)
		rb.Release()
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(at, func(p place) bool { return isGone(gone, p) }) {
			return true, nil
		}
	}
	return false, nil
}

func isGone(gone []place, p place) bool {
	_, ok := slices.BinarySearchFunc(gone, p, comparePlaces)
	return ok
}

// copyLetters writes the rows of a file without those that are gone.
func (t *Tierer) copyLetters(ctx context.Context, tab *table.Table, snap *deltalog.Snapshot, f *deltalog.Add, gone []place) ([]deltalog.Add, error) {
	w, err := newLetterFiles(tab, snap)
	if err != nil {
		return nil, err
	}
	names := make([]string, w.schema.NumFields())
	for i := range names {
		names[i] = w.schema.Field(i).Name
	}
	for rb, err := range tab.Scan(ctx, snap, table.ScanOptions{Files: []*deltalog.Add{f}, Columns: names}) {
		if err == nil {
			err = t.writeWithout(ctx, w, rb, tab.Names, gone)
			rb.Release()
		}
		if err != nil {
			return nil, errors.Join(err, w.abort())
		}
	}
	return w.close(ctx)
}

// writeWithout writes the rows of a batch that are not gone.
func (t *Tierer) writeWithout(ctx context.Context, w *letterFiles, rb arrow.RecordBatch, names table.Names, gone []place) error {
	at, err := t.ownPlaces(rb, names)
	if err != nil {
		return err
	}
	from := 0
	for i := 0; i <= len(at); i++ {
		if i < len(at) && !isGone(gone, at[i]) {
			continue
		}
		if i > from {
			part := rb.NewSlice(int64(from), int64(i))
			err := w.write(ctx, part)
			part.Release()
			if err != nil {
				return err
			}
		}
		from = i + 1
	}
	return nil
}
