package committer

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// Direct commits by the store alone: optimistic, with the store's put-if-absent as the judge.
type Direct struct{ log *deltalog.Log }

var _ Committer = (*Direct)(nil)

// NewDirect makes a committer of one table.
func NewDirect(log *deltalog.Log) *Direct { return &Direct{log: log} }

// conflictTries bounds how often a commit is planned anew because another writer moved one of its partitions,
// which the next look at the table nearly always turns into an answer.
const conflictTries = 8

// Commit checks the ranges against the newest version and commits. It holds no lock between the two: what a
// faster writer does in between is found by the log, and checked again here.
func (d *Direct) Commit(ctx context.Context, req Request) (deltalog.Version, error) {
	if err := req.validate(); err != nil {
		return -1, err
	}
	var err error
	for range conflictTries {
		var snap *deltalog.Snapshot
		snap, err = d.log.Snapshot(ctx)
		if err != nil {
			return -1, fmt.Errorf("read table: %w", err)
		}
		if err := check(snap, req); err != nil {
			return -1, err
		}
		var v deltalog.Version
		v, err = d.log.Commit(ctx, plan(snap, req))
		if err == nil {
			return v, nil
		}
		var conflict *deltalog.TxnConflictError
		again := errors.As(err, &conflict) || errors.Is(err, deltalog.ErrMetadataChanged) || errors.Is(err, deltalog.ErrProtocolChanged)
		if !again {
			return -1, err
		}
	}
	return -1, err
}

// check refuses what does not continue where the table stands.
func check(snap *deltalog.Snapshot, req Request) error {
	meta := snap.Metadata()
	if req.Incarnation != "" && meta.ID != req.Incarnation {
		return fmt.Errorf("%w (id %s, now %s)", ErrIncarnation, req.Incarnation, meta.ID)
	}
	if err := CheckFiller(meta, req.App); err != nil {
		return err
	}
	var fenced error
	for _, r := range req.Ranges {
		at, ok := position(snap, req.App, r.Partition)
		switch {
		case !ok || at == r.From: // a partition that the table does not know may begin anywhere
		case at >= r.To:
			fenced = &FencedError{Range: r, Committed: at}
		default:
			return &RangeError{Partition: r.Partition, Want: at, Got: r.From}
		}
	}
	if fenced != nil {
		return fenced
	}
	if req.Schema != "" && meta.SchemaString != req.Schema {
		return ErrSchemaChanged
	}
	return nil
}

func plan(snap *deltalog.Snapshot, req Request) deltalog.Commit {
	c := deltalog.Commit{
		ReadVersion: snap.Version(), Incarnation: req.Incarnation, Operation: "STREAMING UPDATE", Adds: req.Adds, BlindAppend: true, RowRules: req.RowRules,
		Parameters: map[string]string{"outputMode": "Append", "queryId": req.App},
	}
	for k, v := range req.Parameters {
		c.Parameters[k] = v
	}
	c.Metadata = withProperties(snap.Metadata(), req.Properties)
	for _, r := range req.Ranges {
		c.Txns = append(c.Txns, deltalog.Txn{AppID: appID(req.App, r.Partition), Version: int64(r.To) - 1})
	}
	return c
}

// withProperties gives the metadata with the properties set; nil when they are already: a change of the metadata
// is a conflict for other writers, so it is made only when it has to be.
func withProperties(meta *deltalog.Metadata, props map[string]string) *deltalog.Metadata {
	all := maps.Clone(meta.Configuration)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, props)
	if maps.Equal(all, meta.Configuration) || len(props) == 0 {
		return nil
	}
	changed := *meta
	changed.Configuration = all
	return &changed
}

func appID(app string, partition int32) string { return fmt.Sprintf("%s-%d", app, partition) }

func position(snap *deltalog.Snapshot, app string, partition int32) (record.Offset, bool) {
	v, ok := snap.Txn(appID(app, partition))
	return record.Offset(v) + 1, ok
}
