package seam

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

const pulsarPartitions = 3

// A real Pulsar: `ingest` and the broker are killed, topics are unloaded, and ledgers go once they are in the table.
// The truth is what Pulsar's own Java reader gives, taken again and again before the ledgers go.
func TestRealPulsar(t *testing.T) {
	p := harness.Pulsar(t, 50, "retentionCheckIntervalInSeconds=2")
	r := newRig(t, "public/default/events")
	p.Admin(t, "PUT", "persistent/"+r.topic+"/partitions", pulsarPartitions)
	o := newOracle(r, p)
	ingest := append([]string{"ingest", p.URL() + "/" + r.topic, r.table, "--format", "raw", "--log-level", "error"}, r.storeFlags()...)
	running := append(append([]string{}, ingest...), "--flush-age", "300ms")
	tier := harness.Start(t, running...)
	load := o.produce()
	r.source = r.pulsarSource(p.Addr)
	r.awaitTable()
	r.start(4)
	kills, rng := harness.Kills(t, 3), rand.New(rand.NewPCG(r.seed, 6))
	r.play(kills, func(n int) {
		switch {
		case n == kills/2:
			p.Kill(t)
			p.Start(t)
		case rng.IntN(3) == 0:
			p.Admin(t, "PUT", fmt.Sprintf("persistent/%s-partition-%d/unload", r.topic, rng.IntN(pulsarPartitions)), nil)
		default:
			tier.Kill()
			tier = harness.Start(t, running...)
		}
		o.look()
	})
	load()
	r.rest()
	tier.Kill()
	harness.Run(t, nil, append(ingest, "--until-latest")...)
	o.look()
	if o.trimmed == 0 {
		t.Error("no ledger went: the readers' tables had nothing that Pulsar had not")
	}
	t.Logf("%d messages were gone from Pulsar at the last look, and were read from the table alone", o.trimmed)
	r.judge(o.known())
	harness.Run(t, nil, append([]string{"check", r.table}, r.storeFlags()...)...)
}

// oracle keeps what Pulsar's own reader gave of each partition, in its order. A durable subscription of its own keeps
// the messages that it has not seen yet.
type oracle struct {
	r        *rig
	p        *harness.RealPulsar
	messages [pulsarPartitions][]harness.PulsarMessage
	trimmed  int // messages that were seen once and are gone
}

func newOracle(r *rig, p *harness.RealPulsar) *oracle {
	o := &oracle{r: r, p: p}
	for n := range pulsarPartitions {
		p.Admin(r.t, "PUT", "persistent/"+o.partition(n)+"/subscription/oracle", map[string]int{"ledgerId": -1, "entryId": -1})
	}
	return o
}

func (o *oracle) partition(n int) string { return fmt.Sprintf("%s-partition-%d", o.r.topic, n) }

// look reads all that Pulsar has, and lets go of what it has seen.
func (o *oracle) look() {
	o.r.t.Helper()
	topics := make([]string, pulsarPartitions)
	for n := range topics {
		topics[n] = o.partition(n)
	}
	o.trimmed = 0
	for n, all := range o.p.ReadPartitions(o.r.t, topics...) {
		have := o.messages[n]
		at := 0 // where what Pulsar still has begins
		if len(all) > 0 {
			for at < len(have) && have[at].ID() != all[0].ID() {
				at++
			}
		}
		if o.trimmed += at; at == len(have) && at > 0 && len(all) > 0 {
			o.r.t.Fatalf("partition %d: Pulsar begins at %v, and the last look ended at %v: the oracle has lost messages", n, all[0].ID(), have[at-1].ID())
		}
		o.messages[n] = append(have[:at:at], all...)
		if len(all) > 1 { // the last one stays: the next look begins there
			id := all[len(all)-2].ID()
			o.p.Admin(o.r.t, "POST", "persistent/"+o.partition(n)+"/subscription/oracle/resetcursor",
				map[string]any{"ledgerId": id[0], "entryId": id[1], "partitionIndex": -1})
		}
	}
}

// known counts the messages, as our offsets do.
func (o *oracle) known() truth {
	t := truth{}
	for n, all := range o.messages {
		for i := range all {
			value := []byte("null")
			if all[i].Value != "null" {
				var err error
				if value, err = base64.StdEncoding.DecodeString(all[i].Value); err != nil {
					o.r.t.Fatal(err)
				}
			}
			t[harness.Position{Partition: int32(n), Offset: int64(i)}] = sum(value)
		}
	}
	return t
}

// produce writes messages of all kinds from Pulsar's Java client until the function that it gives is called.
func (o *oracle) produce() (stop func()) {
	kinds := []string{"batch=20", "keys=50", "batch=20", "txn=30", "chunk=2000", "batch=50"}
	options := map[string][]string{"batch=20": {"codec=ZSTD", "nulls=11"}, "keys=50": {"nulls=7"}, "txn=30": {"batch=10"}, "chunk=2000": {"size=7000"}, "batch=50": {"codec=LZ4"}}
	end := make(chan struct{})
	var done sync.WaitGroup
	var failed error
	done.Go(func() {
		for i := 0; failed == nil; i++ {
			select {
			case <-end:
				return
			default:
			}
			kind := kinds[i%len(kinds)]
			count, rate := 3000, "rate=400"
			if kind == "chunk=2000" {
				count, rate = 200, "rate=50"
			}
			args := append([]string{o.r.topic, fmt.Sprint(i * 10000), fmt.Sprint(count), rate, kind}, options[kind]...)
			failed = o.p.StartTool(o.r.t, "produce", args...)()
		}
	})
	return func() {
		o.r.t.Helper()
		close(end)
		done.Wait()
		if failed != nil {
			o.r.t.Fatalf("a producer: %v", failed)
		}
	}
}

// pulsarSource opens the topic as the program does: offsets are counted on from the table.
func (r *rig) pulsarSource(addr string) func(context.Context, *table.Table) (broker.Source, func() error, error) {
	return func(ctx context.Context, t *table.Table) (broker.Source, func() error, error) {
		x := &tableIndex{reader.Places{Table: t, App: r.topic, Dead: func(ctx context.Context) (*table.Table, error) {
			store, err := r.openStore(ctx, r.table+"_dead_letters")
			if err != nil {
				return nil, err
			}
			dead, err := table.Open(ctx, store, table.Config{})
			if errors.Is(err, deltalog.ErrNotTable) {
				return nil, nil
			}
			return dead, err
		}}}
		src, err := pulsar.Open(ctx, pulsar.Config{Service: addr, Index: x, RetryTimeout: 5 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		return src, src.Close, nil
	}
}

// tableIndex says by a table which message has which offset.
type tableIndex struct{ places reader.Places }

func (x *tableIndex) Before(ctx context.Context, tp record.TopicPartition, limit record.Offset) (pulsar.Place, bool, error) {
	at, ok, err := x.places.Before(ctx, tp.Partition, limit)
	o := at.Origin
	out := pulsar.Place{Offset: at.Offset, Lost: at.Lost, Index: o.Index, ID: pulsar.MessageID{Ledger: o.Ledger, Entry: o.Entry, Batch: o.Batch}}
	out.First = out.ID
	if o.FirstLedger >= 0 {
		out.First = pulsar.MessageID{Ledger: o.FirstLedger, Entry: o.FirstEntry, Batch: -1}
	}
	return out, ok, err
}

func (x *tableIndex) End(ctx context.Context, tp record.TopicPartition) (record.Offset, bool, error) {
	return x.places.End(ctx, tp.Partition)
}
