package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
)

// fillerEvery is how often the table of a topic that a job fills is looked at.
const fillerEvery = 2 * time.Second

// errFillerLeft ends the watch of a table that nobody else fills any more: tiering takes it over again.
var errFillerLeft = errors.New("no job fills the table any more")

// besideFiller stands in for tiering where a job fills the topic's table: it moves the topic's hold to where that job has
// come, so that the log drops what is in the table (I6). It does so only when the job fills it from this very topic and
// changes no values: a row that a program made is not the record, so the log keeps that.
func (t *tierers) besideFiller(ctx context.Context, plan *topicPlan, tab *table.Table) error {
	snap, err := tab.Refresh(ctx)
	if err != nil {
		return err
	}
	var filled *committer.FilledByError
	if err := committer.CheckFiller(snap.Metadata(), plan.app); !errors.As(err, &filled) {
		return err
	}
	if why := keepsRecords(ctx, plan, snap); why != nil {
		return fmt.Errorf("%w; its log keeps everything: %w", filled, why)
	}
	t.log.Info("a job fills the table of this topic", "topic", plan.topic, "job", filled.FilledBy)
	kept := map[int32]bool{}
	tick := time.NewTicker(fillerEvery)
	defer tick.Stop()
	for {
		if err := t.holdBeside(ctx, plan, snap, kept); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if snap, err = tab.Refresh(ctx); err != nil {
			return err
		}
		if committer.CheckFiller(snap.Metadata(), plan.app) == nil {
			return errFillerLeft
		}
		if why := keepsRecords(ctx, plan, snap); why != nil {
			return why
		}
	}
}

// holdBeside moves the holds of the partitions to the positions of the job, but for those that it did not begin at the
// first record of: what is before its beginning is in no table, so the log keeps it (I6), which is said once, as kept notes.
func (t *tierers) holdBeside(ctx context.Context, plan *topicPlan, snap *deltalog.Snapshot, kept map[int32]bool) error {
	parts, err := plan.source.Partitions(ctx, plan.topic)
	if err != nil {
		return err
	}
	job, err := reprocess.PlanOf(snap)
	if err != nil {
		return err
	}
	filler := committer.PositionsOf(snap, plan.app)
	for _, p := range parts {
		end, known := table.LakeEnd(snap, filler, p)
		if !known {
			continue
		}
		tp := record.TopicPartition{Topic: plan.topic, Partition: p}
		first, begun, err := holeBefore(ctx, plan, snap, job, tp)
		switch {
		case err != nil:
			return fmt.Errorf("look for records of %s that are in no table: %w", tp, err)
		case first < begun && !kept[p]:
			t.log.Warn("the log keeps a partition: the job that fills its table began behind the first record, and what is before is in no table; delete these records if they are not wanted",
				"topic", plan.topic, "partition", p, "job", job.Job, "from", first, "to", begun)
			kept[p] = true
			fallthrough
		case first < begun:
			continue
		}
		if err := plan.source.Hold(ctx, tp, end); err != nil && !errors.Is(err, broker.ErrNoHold) {
			return fmt.Errorf("move the hold of partition %d: %w", p, err)
		}
	}
	return nil
}

// holeBefore gives the offsets before the beginning of a job that are in the log and in no table: none when first is not
// below begun. A partition that came behind the plan is read from its first record.
func holeBefore(ctx context.Context, plan *topicPlan, snap *deltalog.Snapshot, job *reprocess.Plan, tp record.TopicPartition) (first, begun record.Offset, err error) {
	for _, r := range job.Ranges {
		if r.Partition == tp.Partition {
			begun = r.From
		}
	}
	b, err := plan.source.Bounds(ctx, tp)
	if err != nil {
		return 0, 0, err
	}
	first = b.Start
	if own, ok := table.LakeEnd(snap, plan.app, tp.Partition); ok {
		first = max(first, own) // tiering was here before
	}
	return first, begun, nil
}

// keepsRecords says why the rows that a job makes are not the records of this topic; nil when they are.
func keepsRecords(ctx context.Context, plan *topicPlan, snap *deltalog.Snapshot) error {
	job, err := reprocess.PlanOf(snap)
	if err != nil {
		return err
	}
	if job.Changes {
		return errors.New("it changes values")
	}
	ids, ok := plan.source.(broker.TopicIdentifier)
	if !ok {
		return errors.New("the log's topics have no ids")
	}
	id, err := ids.TopicID(ctx, plan.topic)
	if err != nil {
		return err
	}
	if job.Topic != plan.topic || job.TopicID != table.FormatTopicID(id) {
		return fmt.Errorf("it reads topic %s, id %s", job.Topic, job.TopicID)
	}
	return nil
}
