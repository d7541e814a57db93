package tiering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
)

// result is the end of one flush.
type result struct {
	err    error
	ranges []committer.Range // committed
	parts  []int32           // partitions that were leaving when the flush began
	more   bool              // see output
}

// flush makes one commit of what the workers hand over.
func (s *session) flush(ctx context.Context, outs []*output) (ranges []committer.Range, err error) {
	all := merge(outs)
	defer func() {
		for _, r := range all.rest {
			if r.rows != nil {
				s.freeRows(r.rows)
			}
		}
	}()
	if len(all.ranges) == 0 {
		return nil, nil
	}
	trace := s.traced(all)
	if s.t.cfg.Trace != nil {
		defer func() {
			trace.Err = err
			s.t.cfg.Trace(trace)
		}()
	}
	start := time.Now()
	adds, err := s.upload(ctx, all)
	trace.Upload.add(start)
	if err != nil {
		return nil, err
	}
	trace.Files = len(adds)
	for i := range adds {
		trace.FileBytes += adds[i].Size
	}
	if len(adds) > 0 {
		s.t.stats.uploaded(time.Since(start))
	}
	if err = s.syncLog(ctx, all.ranges); err != nil {
		s.discard(ctx, adds)
		return nil, err
	}
	before := time.Now()
	err = s.bury(ctx, all)
	trace.Letters.add(before)
	if err != nil {
		s.discard(ctx, adds)
		return nil, err
	}
	before = time.Now()
	version, err := s.commit(ctx, all, adds)
	trace.Commit.add(before)
	if err != nil {
		if stale(err) {
			s.t.stats.conflicted()
		}
		return nil, err
	}
	trace.Version = version
	s.t.stats.committed(all, adds, version, time.Since(start), time.Since(before))
	s.anchored(all, version >= 0)
	for _, r := range all.ranges {
		s.hold(ctx, r.Partition, r.To)
	}
	s.t.cfg.Logger.Debug("committed", "topic", s.t.cfg.Topic, "version", version, "rows", all.rows,
		"files", len(adds), "dead_letters", len(all.dead), "took", time.Since(start))
	return all.ranges, nil
}

// syncLog sees that the log has for certain what the table is about to have: it must not end before the table does.
func (s *session) syncLog(ctx context.Context, ranges []committer.Range) error {
	src, ok := s.t.cfg.Source.(broker.Syncer)
	if !ok {
		return nil
	}
	for _, r := range ranges {
		if err := src.Sync(ctx, s.t.tp(r.Partition)); err != nil {
			return fmt.Errorf("sync the log before its records go into the table: %w", err)
		}
	}
	return nil
}

// merge puts what the workers gave together, in the order of partitions.
func merge(outs []*output) *output {
	all := newOutput()
	for _, o := range outs {
		all.ranges = append(all.ranges, o.ranges...)
		all.files = append(all.files, o.files...)
		all.rest = append(all.rest, o.rest...)
		all.dead = append(all.dead, o.dead...)
		all.passed = append(all.passed, o.passed...)
		maps.Copy(all.times, o.times) // a partition has one worker
		maps.Copy(all.trails, o.trails)
		all.rows += o.rows
		all.records += o.records
		all.bytes += o.bytes
		all.filtered += o.filtered
		all.steps.join(o.steps)
	}
	all.lost = all.passed
	slices.SortFunc(all.ranges, func(a, b committer.Range) int { return cmp.Compare(a.Partition, b.Partition) })
	slices.SortStableFunc(all.rest, func(a, b piece) int { return cmp.Compare(a.partition, b.partition) })
	slices.SortFunc(all.dead, func(a, b deadLetter) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
	})
	return all
}

// upload publishes the files and those of the partitions that are too small for one of their own. Such a file is
// closed while the next is written, so that few are in memory at a time.
func (s *session) upload(ctx context.Context, all *output) ([]deltalog.Add, error) {
	units, err := s.units(all.rest)
	if err != nil {
		abortAll(all.files)
		return nil, err
	}
	adds := make([]deltalog.Add, len(all.files)+len(units))
	var g errgroup.Group
	g.SetLimit(4)
	closeFile := func(i int, f *table.FileWriter) {
		g.Go(func() error {
			add, err := f.Close(ctx)
			if err != nil {
				return fmt.Errorf("publish data file: %w", err)
			}
			adds[i] = add
			return nil
		})
	}
	for i, f := range all.files {
		closeFile(i, f)
	}
	for i := range units {
		f, failed := s.shared(ctx, &units[i])
		if err = failed; err != nil {
			abortUnits(units[i+1:])
			break
		}
		closeFile(len(all.files)+i, f)
	}
	if err := errors.Join(err, g.Wait()); err != nil {
		s.discard(ctx, slices.DeleteFunc(adds, func(a deltalog.Add) bool { return a.Path == "" }))
		return nil, err
	}
	return adds, nil
}

// unit is what goes into one shared file: pieces in the order of partitions.
type unit struct {
	group  group // key and values
	pieces []piece
	groups []group // of the pieces that are columns
}

// units sorts pieces by the files that they go to.
func (s *session) units(rest []piece) ([]unit, error) {
	var out []unit
	at := map[string]int{}
	put := func(p piece, g group) {
		i, ok := at[g.key]
		if !ok {
			i = len(out)
			at[g.key] = i
			out = append(out, unit{group: group{key: g.key, values: g.values}})
		}
		out[i].pieces, out[i].groups = append(out[i].pieces, p), append(out[i].groups, g)
	}
	for i, p := range rest {
		if p.file != nil {
			put(p, p.file.group)
			continue
		}
		groups, err := s.split(p.rows)
		if err != nil {
			abortUnits(append(out, unit{pieces: rest[i:]}))
			return nil, err
		}
		for _, g := range groups {
			put(p, g)
		}
	}
	return out, nil
}

// shared writes the file of a unit. After an error nothing is left of it.
func (s *session) shared(ctx context.Context, u *unit) (*table.FileWriter, error) {
	if len(u.pieces) == 1 && u.pieces[0].file != nil {
		return u.pieces[0].file.FileWriter, nil
	}
	f, err := s.newFile(ctx, u.group.values)
	if err != nil {
		abortUnits([]unit{*u})
		return nil, fmt.Errorf("create data file: %w", err)
	}
	for i, p := range u.pieces {
		if p.file != nil {
			err = f.Adopt(p.file.FileWriter)
		} else {
			rb := s.batch(p.rows)
			err = u.groups[i].write(ctx, f, rb)
			rb.Release()
		}
		if err != nil {
			abortUnits([]unit{*u})
			return nil, errors.Join(err, f.Abort())
		}
	}
	return f, nil
}

func abortUnits(units []unit) {
	for _, u := range units {
		for _, p := range u.pieces {
			if p.file != nil {
				_ = p.file.Abort() // best effort: a leftover is no part of the table
			}
		}
	}
}

func abortAll(files []*table.FileWriter) {
	for _, f := range files {
		_ = f.Abort() // best effort: a leftover is no part of the table
	}
}

// discard removes files that no commit refers to and none can. It is best effort: what stays is found by vacuum.
func (s *session) discard(ctx context.Context, adds []deltalog.Add) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for i := range adds {
		key, err := deltalog.DecodePath(adds[i].Path)
		if err == nil {
			err = s.t.cfg.Table.Store.Delete(ctx, key)
		}
		if err != nil {
			s.t.stats.unused(i, len(adds)-i)
			s.t.cfg.Logger.Warn("could not remove an unused data file", "file", adds[i].Path, "error", err)
			return
		}
	}
	s.t.stats.unused(len(adds), 0)
}

// commit sends the request until the answer is clear or ctx ends. It may be sent again after any failure: a
// first one that got in makes the second one stale, never a duplicate (I3).
func (s *session) commit(ctx context.Context, all *output, adds []deltalog.Add) (deltalog.Version, error) {
	props, err := s.properties(ctx, all)
	if err != nil {
		s.discard(ctx, adds)
		return -1, err
	}
	req := committer.Request{
		App: s.t.cfg.App, Ranges: all.ranges, Adds: adds, Incarnation: s.incarnation, Schema: s.schemaString,
		RowRules: s.snap.RowRules(), Parameters: lostParameters(all.lost), Properties: props,
	}
	unclear := false // an earlier try may have got in
	var refused refusals
	for try := 1; ; try++ {
		v, err := s.t.cfg.Committer.Commit(ctx, req)
		if err == nil {
			s.topicID = ""
			return v, nil
		}
		unclear = unclear || errors.Is(err, objstore.ErrUnknownOutcome)
		err, final := s.t.cfg.final(err, &refused)
		if stale(err) || final {
			if unclear && s.covered(ctx, all.ranges) {
				return -1, nil // which version it was does not matter
			}
			if !unclear {
				s.discard(ctx, adds)
			} else {
				s.t.stats.unused(0, len(adds))
			}
			return -1, err
		}
		unclear = unclear || ctx.Err() != nil
		if ctx.Err() != nil {
			s.t.stats.unused(0, len(adds))
			return -1, err
		}
		s.t.stats.retried()
		s.t.cfg.Logger.Warn("commit failed, will be tried again", "topic", s.t.cfg.Topic, "try", try, "error", err)
		sleep(ctx, s.t.cfg.pause(try))
	}
}

// covered says whether all ranges are in the table. Each was committed by our own lost try or by a writer that
// read the same records: the rows are there once.
func (s *session) covered(ctx context.Context, ranges []committer.Range) bool {
	snap, err := s.t.cfg.Table.Log.Snapshot(ctx)
	if err != nil {
		return false
	}
	for _, r := range ranges {
		if at, ok := table.LakeEnd(snap, s.t.cfg.App, r.Partition); !ok || at != r.To {
			return false
		}
	}
	return true
}

// changed gives the properties that are not what they should be. One that should be empty need not be there.
func changed(have, want map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range want {
		if have[key] != value {
			out[key] = value
		}
	}
	return out
}

// properties are what the table is to record about the log. Only the owner of a partition adds to its lost
// offsets, and a commit of another owner in between makes ours stale, so what was read here still stands then.
func (s *session) properties(ctx context.Context, all *output) (map[string]string, error) {
	props, err := s.places(all)
	if err != nil {
		return nil, err
	}
	if s.topicID == "" && len(all.lost) == 0 {
		return props, nil
	}
	snap, err := s.t.cfg.Table.Log.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	if s.topicID != "" {
		if err := s.checkAlone(snap, [16]byte{}); err != nil { // another topic may have begun since we did
			return nil, err
		}
		props[table.TopicProperty(s.t.cfg.App)] = s.topicID
	}
	byPartition := map[int32][]table.Range{}
	for _, l := range all.lost {
		byPartition[l.Partition] = append(byPartition[l.Partition], table.Range(l))
	}
	for p, ranges := range byPartition {
		value, err := table.AddLost(snap, s.t.cfg.App, p, ranges)
		if err != nil {
			return nil, err
		}
		props[table.LostProperty(s.t.cfg.App, p)] = value
	}
	return props, nil
}

// lostParameters puts what retention took into the history of the table.
func lostParameters(lost []committer.Range) map[string]string {
	if len(lost) == 0 {
		return nil
	}
	var text []string
	for _, l := range lost {
		text = append(text, fmt.Sprintf("%d:[%d,%d)", l.Partition, l.From, l.To))
	}
	return map[string]string{"ledgerlake.lost": strings.Join(text, " ")}
}

// checkTable makes sure, before dead letters are committed, that the main commit has a chance: else a record
// that is bad under the old schema and good under the new one, or bad for this application and good for the one
// that fills the table in its place, would be in both tables (I3, I7).
func (s *session) checkTable(ctx context.Context, ranges []committer.Range) error {
	snap, err := s.t.cfg.Table.Log.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	if err := committer.CheckFiller(snap.Metadata(), s.t.cfg.App); err != nil {
		return err
	}
	if err := s.checkAlone(snap, [16]byte{}); err != nil {
		return err
	}
	if snap.Metadata().SchemaString != s.schemaString {
		return committer.ErrSchemaChanged
	}
	for _, r := range ranges {
		if at, ok := table.LakeEnd(snap, s.t.cfg.App, r.Partition); ok && at != r.From {
			return &committer.RangeError{Partition: r.Partition, Want: at, Got: r.From}
		}
	}
	return nil
}
