package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// ledgers is a Pulsar whose topics t0, t1 and t2 stand for the partitions of the model's topic.
type ledgers struct {
	w      *world
	broker *pulsartest.Broker
	src    *pulsar.Source
	sent   int64
	// leaves says how many of ten values the filter leaves out; 0: there is none.
	leaves int
}

var _ broker.Source = (*ledgers)(nil)

const holder = "hold"

func (l *ledgers) theirs(tp record.TopicPartition) record.TopicPartition {
	return record.TopicPartition{Topic: fmt.Sprint("a/b/t", tp.Partition)}
}

// ours is the partition that a topic of theirs stands for.
func (l *ledgers) ours(theirs record.TopicPartition) int32 {
	return int32(theirs.Topic[len(theirs.Topic)-1] - '0')
}

func (l *ledgers) full(p int32) string { return "persistent://" + l.theirs(tp(p)).Topic }

func (l *ledgers) Partitions(context.Context, string) ([]int32, error) { return []int32{0, 1, 2}, nil }
func (l *ledgers) Bounds(ctx context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	return l.src.Bounds(ctx, l.theirs(tp))
}
func (l *ledgers) CountEnd(ctx context.Context, tp record.TopicPartition) (record.Offset, error) {
	return l.src.CountEnd(ctx, l.theirs(tp))
}
func (l *ledgers) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	return l.src.OffsetForTime(ctx, l.theirs(tp), ms)
}
func (l *ledgers) Hold(ctx context.Context, tp record.TopicPartition, o record.Offset) error {
	return l.src.Hold(ctx, l.theirs(tp), o)
}
func (l *ledgers) Fetch(ctx context.Context, r []broker.FetchRange, o broker.FetchOptions) ([]broker.Fetched, error) {
	asked := append([]broker.FetchRange(nil), r...)
	for i := range asked {
		asked[i].TP = l.theirs(r[i].TP)
	}
	got, err := l.src.Fetch(ctx, asked, o)
	for i := range got {
		got[i].TP = tp(l.ours(got[i].TP))
	}
	return got, err
}

// Close does nothing: the source is the model's.
func (l *ledgers) Close() error { return nil }

// Before and End are what the table says of messages that it has.
func (l *ledgers) Before(ctx context.Context, theirs record.TopicPartition, limit record.Offset) (pulsar.Place, bool, error) {
	at, ok, err := l.places().Before(ctx, l.ours(theirs), limit)
	o := at.Origin
	out := pulsar.Place{Offset: at.Offset, Lost: at.Lost, Index: o.Index, ID: pulsar.MessageID{Ledger: o.Ledger, Entry: o.Entry, Batch: o.Batch}}
	out.First = out.ID
	if o.FirstLedger >= 0 {
		out.First = pulsar.MessageID{Ledger: o.FirstLedger, Entry: o.FirstEntry, Batch: -1}
	}
	return out, ok, err
}

func (l *ledgers) End(ctx context.Context, theirs record.TopicPartition) (record.Offset, bool, error) {
	return l.places().End(ctx, l.ours(theirs))
}

func (l *ledgers) places() *reader.Places {
	return &reader.Places{Table: l.w.table, App: topic, Dead: func(ctx context.Context) (*table.Table, error) {
		dead, err := tiering.OpenDeadLetters(ctx, l.w.dead, tiering.LetterConfig{})
		if errors.Is(err, deltalog.ErrNotTable) {
			return nil, nil
		}
		return dead, err
	}}
}

// produce writes an entry, of one message, a batch, or three chunks of one message, and now and then seals the ledger.
func (l *ledgers) produce() {
	w := l.w
	p := int32(w.rng.IntN(partitions))
	value := func() entry {
		if w.rng.IntN(10) == 0 {
			return entry{value: `{"n":"not a number"}`, bad: true}
		}
		if l.leaves > 0 && w.rng.IntN(10) < l.leaves {
			return entry{value: fmt.Sprintf(`{"n":%d,"noise":true}`, w.rng.IntN(1000)), filtered: true}
		}
		return entry{value: fmt.Sprintf(`{"n":%d}`, w.rng.IntN(1000))}
	}
	l.sent++
	switch w.rng.IntN(6) {
	case 0, 1:
		e := value()
		l.broker.Append(l.full(p), 1, pulsartest.Message(l.sent, e.value))
		w.want[p] = append(w.want[p], e)
	case 2, 3:
		added := make([]entry, 1+w.rng.IntN(20))
		texts := make([]string, len(added))
		for i := range added {
			added[i] = value()
			texts[i] = added[i].value
		}
		l.broker.Append(l.full(p), len(added), pulsartest.Batch(l.sent, texts...))
		w.want[p] = append(w.want[p], added...)
	case 4:
		e := entry{value: fmt.Sprintf(`{"n":%d,"pad":%q}`, w.rng.IntN(1000), strings.Repeat("x", 30))}
		at := 0
		for i := range 3 {
			to := len(e.value) * (i + 1) / 3
			l.broker.Append(l.full(p), 1, pulsartest.Chunk(fmt.Sprint("u", l.sent), l.sent, i, 3, len(e.value), e.value[at:to]))
			at = to
		}
		w.want[p] = append(w.want[p], e)
	case 5:
		l.broker.Roll(l.full(p), 1+w.rng.Int64N(3))
	}
	w.did("partition %d has %d messages", p, len(w.want[p]))
}

// roll seals a ledger.
func (l *ledgers) roll() {
	p := int32(l.w.rng.IntN(partitions))
	l.broker.Roll(l.full(p), 1)
	l.w.did("roll partition %d", p)
}

// trim drops the ledgers that the table has.
func (l *ledgers) trim() {
	p := int32(l.w.rng.IntN(partitions))
	l.broker.TrimAcked(l.full(p), holder)
	l.w.did("trim partition %d", p)
}

// reopen cuts all connections, or is another process: it knows only what the table says.
func (l *ledgers) reopen() {
	if l.w.rng.IntN(2) == 0 {
		l.broker.Disconnect()
		l.w.did("cut the connections")
		return
	}
	if l.src != nil {
		if err := l.src.Close(); err != nil {
			l.w.fail("close: %v", err)
		}
	}
	src, err := pulsar.Open(l.w.t.Context(), pulsar.Config{Service: l.broker.Addr(), Index: l, Subscription: holder, RetryTimeout: 10 * time.Second})
	if err != nil {
		l.w.fail("open: %v", err)
	}
	l.src = src
	l.w.did("another process")
}

// newLedgers makes a world over a Pulsar.
func newLedgers(t *testing.T, seed uint64) *ledgers {
	w := newWorldOf(t, rand.New(rand.NewPCG(seed, 0)), table.DefaultNames().WithOrigin())
	l := &ledgers{w: w, broker: pulsartest.Start(t)}
	for p := range int32(partitions) {
		l.broker.Create(l.full(p))
	}
	for l.src == nil {
		l.reopen()
	}
	w.source = l
	return l
}

// lives takes random steps until the end.
func (l *ledgers) lives(more ...func()) *world {
	w := l.w
	w.live(append(more, l.produce, l.produce, l.produce, l.produce, w.tier, w.tier, l.trim, l.reopen, w.read, w.read, w.read, w.optimize, w.vacuum, w.readAmid))
	if err := errors.Join(l.src.Close(), w.log.Close()); err != nil {
		w.t.Fatal(err)
	}
	return w
}

// The same over a Pulsar: offsets are counted from the table, messages come alone, in batches and in chunks, ledgers go
// as soon as the table has them, and connections break (I3, I4, I6).
func TestStreamOverPulsar(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 4
	}
	overSeeds(t, seeds, func(t *testing.T, seed uint64) *world { return newLedgers(t, seed).lives() })
}

// The same with a filter that leaves out some of the messages, most, or nearly all: these have offsets, and the table has
// nothing of them (I2, I4).
func TestFilteredStreamOverPulsar(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 4
	}
	overSeeds(t, seeds, func(t *testing.T, seed uint64) *world {
		l := newLedgers(t, seed)
		l.leaves = []int{3, 8, 10}[l.w.rng.IntN(3)]
		l.w.heldBack = record.Offset(1 + l.w.rng.IntN(60))
		l.w.filter(transform.Spec{Where: "noise != `true`"})
		return l.lives(l.produce, l.produce, l.roll, l.w.tier, l.trim, l.trim, l.reopen)
	})
}
