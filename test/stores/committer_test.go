package stores

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/s3/dynamolog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Eight writers commit through a group of three whose leader is killed meanwhile, and which publishes through the lock
// table; delta-rs, which knows of the lock table alone, appends to the same table. All rows are there once, for delta-rs
// and for us, and every version went through the lock table (I3, I5).
func TestGroupBesideDeltaRSWithLockTable(t *testing.T) {
	python, s3 := harness.DynamoPython(t), harness.S3(t)
	lockTable(t)
	url := "s3://" + s3.Bucket + "/table"
	store := createTable(t, url)
	g := harness.Committers(t, 3, "--s3-endpoint", s3.Endpoint, "--dynamodb-endpoint", os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"))
	lead, _ := g.Leader(t)
	each := harness.Number(t, "LEDGERLAKE_COMMITS", 20)
	d := newTold()
	rival := startRival(t, d, python, url, 100, 0, each)
	<-rival.ready
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			tab := g.Client(t).Table(url)
			for n := range 4 * each {
				if err := commitRow(t.Context(), tab, store, w, n); err != nil {
					t.Errorf("writer %d, row %d: %v", w, n, err)
					return
				}
				if err := d.line(fmt.Sprintf("ack %d %d", w, n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := rival.begin.Close(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 2*time.Minute, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.acked) < each {
			return fmt.Errorf("%d rows", len(d.acked))
		}
		return nil
	})
	g.Nodes[lead].Kill()
	g.Start(t, lead)
	wg.Wait()
	rival.wait(t)

	rows := rivalRows(t, python, url)[url]
	d.check(t, "delta-rs", rows)
	_, l := openLog(t, url)
	snap, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if snap.NumFiles() != len(rows) || len(rows) != 8*4*each+each { // each file has one row
		t.Errorf("we see %d files, delta-rs %d rows, want %d", snap.NumFiles(), len(rows), 8*4*each+each)
	}
	lock, err := dynamolog.OpenDynamoDB(t.Context(), dynamolog.DynamoConfig{Table: "delta_log", Endpoint: os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"),
		Region: "us-east-1", AccessKey: "testkey", SecretKey: "testsecret"})
	if err != nil {
		t.Fatal(err)
	}
	for v := int64(1); v <= int64(snap.Version()); v++ {
		if e, ok, err := lock.Get(t.Context(), url, fmt.Sprintf("%020d.json", v)); err != nil || !ok || !e.Complete {
			t.Errorf("version %d in the lock table: %+v, %v, %v", v, e, ok, err)
		}
	}
	t.Logf("%d rows of 8 writers and %d of delta-rs in %d versions, all of them in the lock table", 8*4*each, each, snap.Version())
}

// commitRow puts a file of one row and commits it.
func commitRow(ctx context.Context, tab committer.Committer, store objstore.Store, w, n int) error {
	data, err := rowFile(int64(w), int64(n))
	if err != nil {
		return err
	}
	if err := store.Put(ctx, dataName(w, n), data); err != nil {
		return err
	}
	_, err = tab.Commit(ctx, committer.Request{App: "app", Ranges: []committer.Range{{Partition: int32(w), From: record.Offset(n), To: record.Offset(n) + 1}},
		Adds: []deltalog.Add{{Path: dataName(w, n), Size: int64(len(data)), ModificationTime: time.Now().UnixMilli(), DataChange: true,
			PartitionValues: map[string]*string{}, Stats: `{"numRecords":1}`}}})
	return err
}
