package rpc

import (
	"context"
	"fmt"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Change makes a version that does more than append: it removes files, changes metadata or protocol, sets positions, or
// stands on the whole table, as planned on c.ReadVersion. It is decided in one order with the appends of all writers, so
// neither makes the other try again. What took one of its files, moved one of its positions, changed the metadata, or
// (with c.ReadAll) did more than add files after that version is a conflict: deltalog.ErrConcurrentDelete or
// deltalog.ErrMetadataChanged, and the change is to be planned again. c.Incarnation says of which table that version
// was; committer.ErrIncarnation when it was dropped and made again. Errors are else those of deltalog.Log.Commit.
func (t *Table) Change(ctx context.Context, c deltalog.Commit) (deltalog.Version, error) {
	if c.Incarnation == "" {
		return -1, fmt.Errorf("change %s: %w: it does not say which table it was planned on (Incarnation): one that was made again has other files under the same versions",
			t.location, committer.ErrInvalidRequest)
	}
	if len(c.Domains) > 0 || len(c.ReadFiles) > 0 || c.Operation == "" || c.ReadVersion < 0 {
		return -1, fmt.Errorf("change %s: %w: the group takes changes of files, positions, metadata and protocol, with an operation and a version that they were planned on",
			t.location, committer.ErrInvalidRequest)
	}
	r := &CommitRequest{
		Table: t.location, Adds: c.Adds, Removes: c.Removes, Planned: true, Read: int64(c.ReadVersion), Incarnation: c.Incarnation,
		Operation: c.Operation, Parameters: c.Parameters, Metrics: c.Metrics, Metadata: c.Metadata, Protocol: c.Protocol, RowRules: c.RowRules,
	}
	for _, x := range c.Txns {
		if r.Moves == nil {
			r.Moves = map[string]int64{}
		}
		if _, twice := r.Moves[x.AppID]; twice || x.Version < -1 {
			return -1, fmt.Errorf("change %s: %w: position %d of %s, want one of at least -1", t.location, committer.ErrInvalidRequest, x.Version, x.AppID)
		}
		r.Moves[x.AppID] = x.Version + 1
	}
	if c.ReadAll {
		r.All = fsm.AllFiles
	}
	v, err := t.send(ctx, r, false)
	if err != nil {
		return -1, fmt.Errorf("change %s: %w", t.location, err)
	}
	return v, nil
}
