package reprocess

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// amid is a log that something happens to right before it is asked for a time.
type amid struct {
	broker.Source
	happens func()
}

func (a amid) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	a.happens()
	return a.Source.OffsetForTime(ctx, tp, ms)
}

// A job from a time begins at the first record at or after it, also when that is tiered, and leaves the log, between the look
// into the table and the one into the log (I4).
func TestTimeOfAJobIsFoundWhileItIsTiered(t *testing.T) {
	seedtest.Each(t, 20, func(t *testing.T, seed uint64) {
		ctx, rng := t.Context(), rand.New(rand.NewPCG(seed, 0))
		tp := record.TopicPartition{Topic: "events"}
		log, err := local.Open(ctx, local.Config{Dir: "/log", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		if _, err := log.CreateTopic(ctx, tp.Topic, broker.TopicConfig{Partitions: 1, Tiered: true}); err != nil {
			t.Fatal(err)
		}
		payload := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
		live, err := table.OpenOrCreate(ctx, mem.New(), payload, table.Config{Topic: tp.Topic})
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		var times []int64
		send := func() {
			for range 1 + rng.IntN(20) {
				b := record.NewBuilder(record.None)
				for range 1 + rng.IntN(5) {
					times = append(times, 1000+rng.Int64N(20)+int64(len(times)))
					b.Append(times[len(times)-1], nil, fmt.Appendf(nil, `{"n":%d}`, len(times)), nil)
				}
				raw, err := b.Build(0)
				if err == nil {
					_, err = log.Append(ctx, tp, raw)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		tier := func() {
			tr, err := tiering.Open(ctx, tiering.Config{Source: log, Topic: tp.Topic, Table: live, Format: tiering.FormatJSON, UntilEnd: true, DeadLetters: live /* none is bad */})
			if err == nil {
				err = tr.Run(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		send()
		if rng.IntN(3) > 0 {
			tier()
		}
		s, err := openStream(ctx, tp.Topic, live, amid{log, func() {
			tier()
			if _, err := log.DeleteRecords(ctx, tp, -1); err != nil { // all that is tiered
				t.Fatal(err)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		send()
		at := 1000 + rng.Int64N(int64(len(times))+25)
		want := record.Offset(len(times))
		for i, ms := range times {
			if ms >= at {
				want = record.Offset(i)
				break
			}
		}
		if got, err := s.OffsetForTime(ctx, tp, at); err != nil || got != want {
			t.Errorf("time %d is found at offset %d, want %d of %d (%v)", at, got, want, len(times), err)
		}
	})
}
