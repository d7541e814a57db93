package pulsar_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// fetched is a record with its origin.
type fetched struct {
	offset record.Offset
	origin record.Origin
	record record.Record
	props  string
}

// readAll reads a partition from an offset to the end as it is now.
func readAll(t *testing.T, src *pulsar.Source, tp record.TopicPartition, from record.Offset) []fetched {
	t.Helper()
	end, err := src.CountEnd(t.Context(), tp)
	if err != nil {
		t.Fatal(err)
	}
	var out []fetched
	for from < end {
		got, err := src.Fetch(t.Context(), []broker.FetchRange{{TP: tp, From: from}}, broker.FetchOptions{MinBytes: 1, MaxWait: 10 * time.Second})
		if err != nil || got[0].Err != nil {
			t.Fatalf("at offset %d of %d: %v %v", from, end, err, got[0].Err)
		}
		if len(got[0].Batches) == 0 {
			t.Fatalf("nothing came for offset %d of %d", from, end)
		}
		for rest := got[0].Batches; len(rest) > 0; {
			b, err := record.ReadBatch(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[b.Size():]
			var it record.Iterator
			if err := it.Reset(b); err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				r := it.Record()
				f := fetched{offset: r.Offset, record: *r}
				if !record.OriginOf(r, &f.origin) {
					t.Fatalf("the record at offset %d has no origin", r.Offset)
				}
				for _, h := range r.Headers[1:] {
					f.props += string(h.Key) + "=" + string(h.Value) + ";"
				}
				f.record.Key, f.record.Value, f.origin.Producer = clone(r.Key), clone(r.Value), clone(f.origin.Producer)
				out = append(out, f)
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
			from = b.LastOffset() + 1
		}
	}
	return out
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// sameAsJava compares records with what Pulsar's own reader gave of the same partition (I2, I4).
func sameAsJava(t *testing.T, got []fetched, want []harness.PulsarMessage, first record.Offset) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d records, and Pulsar's reader has %d messages", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		g, w := &got[i], &want[i]
		value := "null"
		if g.record.Value != nil {
			value = base64.StdEncoding.EncodeToString(g.record.Value)
		}
		ours := fmt.Sprint(g.offset, g.origin.Ledger, g.origin.Entry, g.origin.Batch, g.origin.Sequence, g.record.Timestamp, g.origin.EventTime,
			string(g.origin.Producer), string(g.record.Key), g.props, value)
		theirs := fmt.Sprint(first+record.Offset(i), w.Ledger, w.Entry, w.Batch, w.Sequence, w.PublishTime, w.EventTime, w.Producer, w.Key, w.Properties, w.Value)
		if ours != theirs {
			t.Fatalf("record %d is\n%.300s\nPulsar's reader has\n%.300s", i, ours, theirs)
		}
	}
}

func open(t *testing.T, p *harness.RealPulsar, cfg pulsar.Config) *pulsar.Source {
	t.Helper()
	cfg.Service = p.Addr
	src, err := pulsar.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

// keepAll tells Pulsar to drop nothing.
func keepAll(t *testing.T, p *harness.RealPulsar) {
	p.Admin(t, "POST", "namespaces/public/default/retention", map[string]int{"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
}

// TestSourceGivesWhatPulsarsReaderGives: every kind of message, with ids, sequence, times, key, properties and value
// as Pulsar's own Java reader sees them; aborted transactions are left out, offsets are dense.
func TestSourceGivesWhatPulsarsReaderGives(t *testing.T) {
	p := harness.Pulsar(t, 50)
	keepAll(t, p)
	kinds := []struct {
		name, options string
		count         int
	}{
		{"plain", "keys=7 nulls=10", 330},
		{"batched", "batch=20 keys=5 nulls=7", 2000},
		{"lz4", "batch=50 codec=LZ4", 500},
		{"zlib", "codec=ZLIB", 100},
		{"zstd", "batch=50 codec=ZSTD", 500},
		{"snappy", "batch=50 codec=SNAPPY", 500},
		{"chunked", "chunk=1000 size=4500 codec=LZ4 keys=3", 60},
		{"txn", "txn=10 batch=4", 120},
		{"txnplain", "txn=5", 60},
	}
	src := open(t, p, pulsar.Config{})
	for _, k := range kinds {
		topic := "public/default/" + k.name
		p.Tool(t, "produce", append([]string{topic, "0", fmt.Sprint(k.count)}, strings.Fields(k.options)...)...)
		want := p.ReadPulsar(t, topic)
		tp := record.TopicPartition{Topic: topic}
		b, err := src.Bounds(t.Context(), tp)
		if err != nil {
			t.Fatal(err)
		}
		got := readAll(t, src, tp, b.Start)
		if len(got) == 0 {
			t.Fatalf("%s: nothing was read", k.name)
		}
		t.Logf("%s: %d messages from offset %d", k.name, len(got), got[0].offset)
		sameAsJava(t, got, want, b.Start)
	}
}
