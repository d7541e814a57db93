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
	tick := time.NewTicker(fillerEvery)
	defer tick.Stop()
	for {
		if err := holdBeside(ctx, plan, snap); err != nil {
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

// holdBeside moves the holds of all partitions to the positions of the job.
func holdBeside(ctx context.Context, plan *topicPlan, snap *deltalog.Snapshot) error {
	parts, err := plan.source.Partitions(ctx, plan.topic)
	if err != nil {
		return err
	}
	filler := committer.PositionsOf(snap, plan.app)
	for _, p := range parts {
		end, known := table.LakeEnd(snap, filler, p)
		if !known {
			continue
		}
		if err := plan.source.Hold(ctx, record.TopicPartition{Topic: plan.topic, Partition: p}, end); err != nil && !errors.Is(err, broker.ErrNoHold) {
			return fmt.Errorf("move the hold of partition %d: %w", p, err)
		}
	}
	return nil
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
