package seam

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// The embedded log: `serve` is killed, its segments go as soon as they are in the table, and plain Kafka clients read
// history at its port beside the readers of table and log.
func TestEmbeddedLog(t *testing.T) {
	r := newRig(t, "events")
	dir, addr := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	flags := append(r.storeFlags(), "--lake", r.table[:len(r.table)-len("/events")], "--topic", "events:3", "--format", "json", "--schema", harness.WriteEventSchema(t),
		"--flush-age", "300ms", "--segment-bytes", "131072", "--retention-bytes", "131072", "--retention-interval", "100ms",
		"--optimize-interval", "0", "--vacuum-interval", "0", "--log-level", "error")
	s := harness.Serve(t, dir, addr, flags...)
	load := harness.StartLoad(t, harness.LoadConfig{Addr: addr, Topic: r.topic, Seed: r.seed, Producers: 2, Transactions: true, Rate: 300})
	r.kafka, r.source = addr, kafkaSource(addr)
	r.awaitTable()
	r.start(6)
	r.play(harness.Kills(t, 2), func(int) {
		s.Kill()
		s = harness.Serve(t, dir, addr, flags...)
	})
	acked := load.Stop(t)
	r.rest()
	s.Stop(t) // which moves the rest into the table
	r.settle(load, acked)
}

// kafkaSource opens a log that a Kafka port serves.
func kafkaSource(addr string) func(context.Context, *table.Table) (broker.Source, func() error, error) {
	return func(ctx context.Context, _ *table.Table) (broker.Source, func() error, error) {
		src, err := kafka.Open(ctx, kafka.Config{Brokers: []string{addr}, RetryTimeout: 5 * time.Second, DialTimeout: 2 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		return src, src.Close, nil
	}
}

// awaitTable waits until the table has rows.
func (r *rig) awaitTable() {
	r.t.Helper()
	harness.Eventually(r.t, 2*time.Minute, func() error {
		t, err := r.openTable(r.t.Context())
		if err != nil {
			return err
		}
		defer t.Close()
		snap, err := t.Log.Snapshot(r.t.Context())
		if err == nil && snap.NumFiles() == 0 {
			err = fmt.Errorf("version %d of the table has no files", snap.Version())
		}
		return err
	})
}

// settle compares the table, which has all of the log now, and every read with what the producers were told (I1, I3, I4).
func (r *rig) settle(load *harness.Load, acked map[int]harness.Position) {
	r.t.Helper()
	args := append([]string{"read", r.table, "--output", "ndjson"}, r.storeFlags()...)
	there := map[harness.Position]bool{}
	for row := range harness.Rows(r.t, append(slices.Clone(args), "--columns", "_partition,_offset")...) {
		there[harness.PositionOf(r.t, row)] = true
	}
	load.Settle(r.t, func(p harness.Position) bool { return there[p] })
	known := truth{}
	for n, at := range acked {
		known[at] = sum(harness.NewEvent(r.seed, n).Value)
	}
	r.judge(known)
	harness.WantAcked(r.t, "the table", harness.Rows(r.t, args...), r.seed, acked)
	harness.Run(r.t, nil, append([]string{"check", r.table}, r.storeFlags()...)...)
}
