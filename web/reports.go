package web

import (
	"context"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

const (
	// freshFor is how long a look at a table holds, so that many watchers cost one listing of the store.
	freshFor = time.Second
	// countFiles is up to how many files rows are counted by their statistics.
	countFiles = 10_000
)

// reports remembers what tables looked like a moment ago, by their URL.
type reports struct {
	mu   sync.Mutex
	last map[string]report
}

type report struct {
	at    time.Time
	snap  *deltalog.Snapshot
	table *Table
}

func newReports() *reports { return &reports{last: map[string]report{}} }

// of gives the newest version of a table, or one that is a second old at most.
func (r *reports) of(ctx context.Context, t *table.Table) (*deltalog.Snapshot, *Table, error) {
	url := t.Store.URL()
	r.mu.Lock()
	before, ok := r.last[url]
	r.mu.Unlock()
	if ok && time.Since(before.at) < freshFor {
		return before.snap, before.table, nil
	}
	snap, err := t.Log.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	now := report{at: time.Now(), snap: snap, table: before.table}
	if before.snap != snap {
		now.table = &Table{URL: url, Version: int64(snap.Version()), Files: snap.NumFiles(), Bytes: snap.SizeBytes(), Rows: rowsOf(snap), Committed: snap.Timestamp()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[url] = now
	return now.snap, now.table, nil
}

// rowsOf is nil when the log does not say it, or only at a cost.
func rowsOf(snap *deltalog.Snapshot) *int64 {
	if snap.NumFiles() > countFiles {
		return nil
	}
	rows := int64(0)
	for add := range snap.Files() {
		n, ok := add.NumRecords()
		if !ok {
			return nil
		}
		rows += n
		if add.DeletionVector != nil {
			rows -= add.DeletionVector.Cardinality
		}
	}
	return &rows
}
