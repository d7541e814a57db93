package tiering

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Two writers of a partition may judge a record differently, a moment from each other: one commits its letter, the other the row. And
// who has committed a row may stop before the letter of an earlier try is out. The rows decide. With its letters a session leaves a
// mark in their table: a number of its own, and the first offset that they were made for. Who commits rows of the partition next, and
// finds a mark of somebody else's, looks which of the letters from there on are rows, and takes these out. What is not decided
// yet needs no look: letters in the ranges of a commit are compared with it anyway. A mark is moved by those alone who have
// looked, so nothing is passed over.

// judgeID and judgedID are the transaction ids of the mark. They are no positions: table.SplitAppID does not know them.
func judgeID(app string, partition int32) string {
	return fmt.Sprintf("ledgerlake.judge:%s:%d", app, partition)
}
func judgedID(app string, partition int32) string {
	return fmt.Sprintf("ledgerlake.judged:%s:%d", app, partition)
}

// newJudge is the number of a session.
func newJudge() int64 { return 1 + rand.Int64N(1<<62) }

// judgeTxns are the marks of a commit of letters.
func (s *session) judgeTxns(missing []deadLetter, ranges []committer.Range) []deltalog.Txn {
	if s.bare {
		return nil
	}
	var out []deltalog.Txn
	for _, r := range ranges {
		if slices.ContainsFunc(missing, func(d deadLetter) bool { return d.partition == r.Partition }) {
			out = append(out, deltalog.Txn{AppID: judgeID(s.t.cfg.App, r.Partition), Version: s.judge},
				deltalog.Txn{AppID: judgedID(s.t.cfg.App, r.Partition), Version: int64(r.From)})
		}
	}
	return out
}

// settle takes out the letters below the ranges, of sessions that are not this one, whose records are rows. It gives the newest
// snapshot of the letters' table.
func (s *session) settle(ctx context.Context, tab *table.Table, snap *deltalog.Snapshot, ranges []committer.Range) (*deltalog.Snapshot, error) {
	if s.bare {
		return snap, nil
	}
	var look []committer.Range
	seen := map[int32]int64{}
	for _, r := range ranges {
		judge, ok := snap.Txn(judgeID(s.t.cfg.App, r.Partition))
		if !ok || judge == s.judge || judge == s.judges[r.Partition] {
			continue
		}
		seen[r.Partition] = judge
		if from, ok := snap.Txn(judgedID(s.t.cfg.App, r.Partition)); ok && from >= 0 && from < int64(r.From) {
			look = append(look, committer.Range{Partition: r.Partition, From: record.Offset(from), To: r.From})
		}
	}
	if len(look) > 0 {
		if err := s.byRows(ctx, tab, snap, look); err != nil {
			return nil, err
		}
		var err error
		if snap, err = tab.Refresh(ctx); err != nil {
			return nil, fmt.Errorf("read dead letters: %w", err)
		}
	}
	for p, judge := range seen {
		s.judges[p] = judge
	}
	return snap, nil
}

// byRows takes out the letters of decided ranges whose records are rows.
func (s *session) byRows(ctx context.Context, tab *table.Table, snap *deltalog.Snapshot, ranges []committer.Range) error {
	have, err := s.t.letters(ctx, tab, snap, ranges)
	if err != nil || len(have) == 0 {
		return err
	}
	full, err := s.t.cfg.Table.Log.FullSnapshot(ctx) // rare: the table may be open without its list of files
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	rows, err := rowsAt(ctx, s.t.cfg.Table, full, have)
	if err != nil {
		return fmt.Errorf("look for rows of dead letters: %w", err)
	}
	return s.takeOut(ctx, tab, rows)
}

// takeOut removes letters whose records are rows.
func (s *session) takeOut(ctx context.Context, tab *table.Table, gone []place) error {
	if len(gone) == 0 {
		return nil
	}
	if err := s.t.takeOut(ctx, tab, gone); err != nil {
		return err
	}
	s.t.cfg.Logger.Info("dead letters of records that are rows are taken out", "topic", s.t.cfg.Topic, "letters", len(gone))
	return nil
}

// buried is called when the rows of a commit are in: letters of records that are rows now go. Where it is not known whose commit
// that was, the rows tell.
func (s *session) buried(ctx context.Context, all *output, ours bool) error {
	if ours && len(all.gone) == 0 || s.bare {
		return nil
	}
	tab, snap, err := s.t.deadTable(ctx, false)
	switch {
	case err != nil || tab == nil:
		return err
	case ours:
		return s.takeOut(ctx, tab, all.gone)
	}
	return s.byRows(ctx, tab, snap, all.ranges)
}

// leaveTo takes the letters of a commit out that was refused since another application fills the table by now: it judges these
// records itself. If we stop before, they stay.
func (s *session) leaveTo(ctx context.Context, filler *committer.FilledByError, all *output) {
	gone := make([]place, len(all.dead)) // sorted as all.dead is
	for i, d := range all.dead {
		gone[i] = place{d.partition, d.offset}
	}
	tab, _, err := s.t.deadTable(ctx, false)
	if err == nil && tab != nil {
		err = s.t.takeOut(ctx, tab, gone)
	}
	if err != nil {
		s.t.cfg.Logger.Warn("dead letters are left of records that another application judges", "filler", filler.FilledBy, "error", err)
	}
}

// settleAll looks at all partitions when a session begins: it may have nothing to commit for long.
func (s *session) settleAll(ctx context.Context) error {
	if s.bare {
		return nil
	}
	var ranges []committer.Range
	for p := range s.parts {
		if end, ok := table.LakeEnd(s.snap, s.t.cfg.App, p); ok {
			ranges = append(ranges, committer.Range{Partition: p, From: end})
		}
	}
	if len(ranges) == 0 {
		return nil
	}
	tab, snap, err := s.t.deadTable(ctx, false)
	if err == nil && tab != nil {
		_, err = s.settle(ctx, tab, snap, ranges)
	}
	return err
}

// takeOut removes letters, in a commit of their table. It tries again when others are faster.
func (t *Tierer) takeOut(ctx context.Context, tab *table.Table, gone []place) error {
	if len(gone) == 0 {
		return nil
	}
	for try := 1; ; try++ {
		snap, err := tab.Refresh(ctx)
		if err != nil {
			return fmt.Errorf("take letters out: %w", err)
		}
		c := deltalog.Commit{ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "DELETE",
			Parameters: map[string]string{"replay": "dead letters"}, Txns: t.deadTxns(snap, nil, gone)}
		err = t.exhume(ctx, tab, snap, gone, &c)
		if err == nil && len(c.Removes) == 0 {
			return nil // somebody else has done it
		}
		if err == nil {
			_, err = t.cfg.Change.of(ctx, tab, c)
		}
		if err == nil || ctx.Err() != nil || try == 10 || !conflicts(err) {
			if err != nil {
				err = fmt.Errorf("take letters out: %w", err)
			}
			return err
		}
	}
}

// rowsAt gives those of the places that are rows of a table, sorted.
func rowsAt(ctx context.Context, tab *table.Table, snap *deltalog.Snapshot, at []place) ([]place, error) {
	ranges := make([]table.Range, len(at))
	for i, p := range at {
		ranges[i] = table.Range{Partition: p.partition, From: p.offset, To: p.offset + 1}
	}
	n := tab.Names
	var out []place
	for rb, err := range tab.Scan(ctx, snap, table.ScanOptions{Ranges: ranges, Columns: []string{n.Partition, n.Offset}}) {
		if err != nil {
			return nil, err
		}
		found, err := places(rb, n)
		rb.Release()
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, comparePlaces)
	return out, nil
}
