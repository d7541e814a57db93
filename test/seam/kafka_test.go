package seam

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A real Kafka: `ingest` and the broker are killed, and records are deleted from the log once they are in the table.
func TestRealKafka(t *testing.T) {
	r := newRig(t, "events")
	k := harness.Kafka(t)
	harness.CreateTopic(t, k.Addr, r.topic, 3)
	ingest := append([]string{"ingest", "--brokers", k.Addr, "--topic", r.topic, "--table", r.table, "--format", "json",
		"--schema", harness.WriteEventSchema(t), "--log-level", "error"}, r.storeFlags()...)
	running := append(slices.Clone(ingest), "--flush-age", "300ms")
	p := harness.Start(t, running...)
	load := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: r.topic, Seed: r.seed, Producers: 2, Transactions: true, Rate: 300})
	r.source = kafkaSource(k.Addr)
	r.awaitTable()
	r.start(6)
	kills, rng := harness.Kills(t, 2), rand.New(rand.NewPCG(r.seed, 5))
	r.play(kills, func(n int) {
		if n == kills/2 {
			load.BetweenEnds(t, func() { k.Kill(t) })
			k.Start(t)
		} else {
			p.Kill()
			p = harness.Start(t, running...)
		}
		r.retire(k.Addr, rng)
	})
	acked := load.Stop(t)
	r.rest()
	p.Kill()
	harness.Run(t, nil, append(ingest, "--until-latest")...)
	r.settle(load, acked)
}

// retire deletes records of the log that are in the table, as Kafka's retention does.
func (r *rig) retire(addr string, rng *rand.Rand) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	harness.Eventually(r.t, 2*time.Minute, func() error { // the store's weather, and a broker that has just started
		to, err := r.tiered(rng)
		if err != nil {
			return err
		}
		cut, err := kadm.NewClient(client).DeleteRecords(r.t.Context(), to)
		if err = errors.Join(err, cut.Error()); err != nil {
			return fmt.Errorf("delete records: %w", err)
		}
		for _, d := range cut.Sorted() {
			if d.LowWatermark == 0 {
				return fmt.Errorf("partition %d still begins at 0", d.Partition)
			}
		}
		return nil
	})
}

// tiered gives an offset of each partition up to which the log may be dropped.
func (r *rig) tiered(rng *rand.Rand) (kadm.Offsets, error) {
	t, err := r.openTable(r.t.Context())
	if err != nil {
		return nil, err
	}
	defer t.Close()
	snap, err := t.Log.Snapshot(r.t.Context())
	if err != nil {
		return nil, err
	}
	var to kadm.Offsets
	for p := range int32(3) {
		end, ok := table.LakeEnd(snap, r.topic, p)
		if !ok {
			return nil, fmt.Errorf("nothing of partition %d is in the table", p)
		}
		to.AddOffset(r.topic, p, int64(end)-rng.Int64N(int64(end)/8+1), -1)
	}
	return to, nil
}
