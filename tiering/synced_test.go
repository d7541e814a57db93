package tiering_test

import (
	"context"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// lazyLog is a log that has to be told to sync, and a committer that looks whether it was.
type lazyLog struct {
	*fakeLog
	committer.Committer
	t      *testing.T
	synced map[int32]record.Offset
}

func (l *lazyLog) Sync(_ context.Context, tp record.TopicPartition) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced[tp.Partition] = l.parts[tp.Partition].bounds.End
	return nil
}

func (l *lazyLog) Commit(ctx context.Context, req committer.Request) (deltalog.Version, error) {
	l.mu.Lock()
	for _, r := range req.Ranges {
		if l.synced[r.Partition] < r.To {
			l.t.Errorf("partition %d is synced up to %d, and committed up to %d", r.Partition, l.synced[r.Partition], r.To)
		}
	}
	l.mu.Unlock()
	return l.Committer.Commit(ctx, req)
}

// I2: what a table takes is durable in its log before, also where the log acknowledges what is not.
func TestLogIsSyncedFirst(t *testing.T) {
	r := newRig(t, 3)
	r.fill(100, 7)
	tab, err := table.Open(t.Context(), r.store, tableConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	l := &lazyLog{fakeLog: r.log, Committer: committer.NewDirect(tab.Log), t: t, synced: map[int32]record.Offset{}}
	r.cfg.Source, r.cfg.Committer, r.cfg.MaxRows = l, l, 40
	r.mustRun()
	if len(l.synced) != 3 {
		t.Errorf("synced: %v", l.synced)
	}
}

var _ broker.Syncer = (*lazyLog)(nil)
