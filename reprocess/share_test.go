package reprocess

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// asked is a log that notes what it was asked.
type asked struct {
	*local.Log
	opts broker.FetchOptions
	tail []broker.FetchRange
}

func (a *asked) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	a.opts, a.tail = opts, ranges
	return a.Log.Fetch(ctx, ranges, opts)
}

// A job that follows many partitions has one answer of all of them: each that is still in the table gets its share of the bytes,
// not all of them, and the log is not waited for while there is something in the table (I8).
func TestShareOfAFetch(t *testing.T) {
	log, err := local.Open(t.Context(), local.Config{Dir: "/log", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.CreateTopic(t.Context(), "t", broker.TopicConfig{Partitions: 3, Tiered: true}); err != nil {
		t.Fatal(err)
	}
	send := func(p int32) {
		t.Helper()
		b := record.NewBuilder(record.None)
		for i := range 500 {
			b.Append(int64(1000+i), nil, fmt.Appendf(nil, `{"n":%d,"p":"%s"}`, i, strings.Repeat("x", 1000)), nil)
		}
		raw, err := b.Build(0)
		if err == nil {
			_, err = log.Append(t.Context(), record.TopicPartition{Topic: "t", Partition: p}, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	send(0)
	send(1)
	payload := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	tab, err := table.OpenOrCreate(t.Context(), mem.New(), payload, table.Config{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := tiering.Open(t.Context(), tiering.Config{Source: log, Topic: "t", Table: tab, Format: tiering.FormatJSON, UntilEnd: true, Partitions: []int32{0, 1},
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return mem.New(), nil }})
	if err == nil {
		err = tr.Run(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	send(2) // in the log alone
	a := &asked{Log: log}
	s, err := openStream(t.Context(), "t", tab, a)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const most = 3 * leastShare
	var ranges []broker.FetchRange
	for p := range int32(3) {
		ranges = append(ranges, broker.FetchRange{TP: record.TopicPartition{Topic: "t", Partition: p}})
	}
	got, err := s.Fetch(t.Context(), ranges, broker.FetchOptions{Isolation: broker.ReadCommitted, MinBytes: 1, MaxWait: time.Minute, MaxBytes: most})
	if err != nil {
		t.Fatal(err)
	}
	for p, f := range got {
		if n := len(f.Batches); f.Err != nil || n == 0 || p < 2 && n > leastShare*5/4 {
			t.Errorf("partition %d: %d bytes, %v; its share is %d", p, n, f.Err, leastShare)
		}
	}
	if len(a.tail) != 1 || a.tail[0].TP.Partition != 2 || a.opts.MaxWait != 0 {
		t.Errorf("the log was asked for %v, and may wait for %s", a.tail, a.opts.MaxWait)
	}
}
