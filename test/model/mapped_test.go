package model

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Transactions of others that look like positions, also like those of the topic, take no row away from a table that is
// read by a mapping, and none is left out without a word where there is no mapping (I4).
func TestReaderAmongOthersTransactions(t *testing.T) {
	const n, tiered = 100, 60
	w := filled(t, n, tiered)
	snap, err := w.table.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Batches of a job, not offsets; the last stands where the topic's own position of another partition would.
	if _, err := w.table.Log.Commit(t.Context(), deltalog.Commit{ReadVersion: snap.Version(), Operation: "STREAMING UPDATE", Txns: []deltalog.Txn{
		{AppID: "orders-job-1", Version: 3}, {AppID: topic + "-1", Version: 7}}}); err != nil {
		t.Fatal(err)
	}
	mapped, err := table.Open(t.Context(), w.store, table.Config{Names: table.DefaultNames()})
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Log.Close()
	zero := reader.AtOffsets(map[int32]record.Offset{0: 0})
	for name, tc := range map[string]struct {
		cfg  reader.Config
		want int64
	}{
		"table alone":             {reader.Config{Table: mapped}, tiered},
		"table alone, at offsets": {reader.Config{Table: mapped, From: zero}, tiered},
		"with its log":            {reader.Config{Table: mapped, Source: w.log, Topic: topic}, n},
		"an app that is named":    {reader.Config{Table: mapped, App: topic, From: zero}, tiered},
	} {
		c := open(t, tc.cfg)
		if seam := c.Seam(); tc.cfg.Source != nil && (seam[0] != tiered || seam[1] != 0) {
			t.Errorf("%s: leaves the table at %v", name, seam)
		}
		if rows := countRows(t, c.Next); rows != tc.want {
			t.Errorf("%s: %d rows, want %d", name, rows, tc.want)
		}
	}
	b, err := reader.OpenByTime(t.Context(), reader.ByTimeConfig{Config: reader.Config{Table: mapped}})
	if err != nil {
		t.Fatal(err)
	}
	if rows := countRows(t, b.Next); rows != tiered {
		t.Errorf("by time: %d rows", rows)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for name, cfg := range map[string]reader.Config{
		"with a log": {Table: w.table, Source: w.log, Topic: topic, App: "nobody"},
		"alone":      {Table: w.table, App: "nobody"},
	} {
		c, err := reader.Open(t.Context(), cfg)
		if err == nil {
			t.Errorf("%s: a table that somebody else fills is %d rows", name, countRows(t, c.Next))
			_ = c.Close()
		} else if !strings.Contains(err.Error(), "--app") {
			t.Errorf("%s: %v names no remedy", name, err)
		}
	}
}

func countRows(t *testing.T, next func(context.Context) (arrow.RecordBatch, error)) (rows int64) {
	t.Helper()
	for {
		rb, err := next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		rows += rb.NumRows()
	}
}

// A read by the rows of a mapped table that has to go back to it, as the log was cut meanwhile, reads no file again that it had:
// of a large table that would take longer than the read (I4).
func TestMappedReplanReadsNewFilesOnly(t *testing.T) {
	const n = 300
	w := filled(t, n, 100)
	mapped, err := table.Open(t.Context(), w.store, table.Config{Names: table.DefaultNames()})
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Log.Close()
	c := open(t, reader.Config{Table: mapped, Source: w.log, Topic: topic, Partitions: []int32{0}, BatchRows: 30, MaxWait: time.Millisecond})
	if seam := c.Seam()[0]; seam != 100 {
		t.Fatalf("leaves the table at %d", seam)
	}
	old := map[string]bool{}
	snap, err := w.table.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for f := range snap.Files() {
		old[f.Path] = true
	}
	var rows int64
	for rows < 100 { // which is all of the table, and nothing of the log yet
		rb, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rows += rb.NumRows()
	}
	w.tierWith(0)
	w.cut(n)
	var mu sync.Mutex
	var fresh, again []string
	w.store.SetHook(func(_ context.Context, call mem.Call) mem.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !strings.HasSuffix(call.Key, ".parquet"):
		case old[call.Key]:
			again = append(again, call.Key)
		default:
			fresh = append(fresh, call.Key)
		}
		return mem.Fault{}
	})
	defer w.store.SetHook(nil)
	rows += countRows(t, c.Next)
	if seam := c.Seam()[0]; rows != n || seam != n || len(fresh) == 0 || len(again) > 0 {
		t.Errorf("%d rows up to the seam at %d, %d reads of new files, and of old ones %v", rows, seam, len(fresh), again)
	}
}
