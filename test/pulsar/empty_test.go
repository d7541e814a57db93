package pulsar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// emptied has Pulsar drop all that a topic has.
func emptied(t *testing.T, p *harness.RealPulsar, topic string) {
	t.Helper()
	p.Admin(t, "PUT", "persistent/"+topic+"/unload", nil)
	harness.Eventually(t, harness.Patience, func() error {
		p.Admin(t, "POST", "persistent/"+topic+"/trim", nil)
		var stats struct {
			Ledgers []struct{ Entries int64 }
			Current int64 `json:"currentLedgerEntries"`
		}
		raw := p.Admin(t, "GET", "persistent/"+topic+"/internalStats", nil)
		if err := json.Unmarshal(raw, &stats); err != nil {
			return err
		}
		if len(stats.Ledgers) > 1 || stats.Current > 0 {
			return fmt.Errorf("the topic has %s", raw)
		}
		return nil
	})
}

// compacted has Pulsar compact a topic.
func compacted(t *testing.T, p *harness.RealPulsar, topic string) {
	t.Helper()
	p.Admin(t, "PUT", "persistent/"+topic+"/compaction", nil)
	harness.Eventually(t, harness.Patience, func() error {
		var status struct{ Status, LastError string }
		if err := json.Unmarshal(p.Admin(t, "GET", "persistent/"+topic+"/compaction", nil), &status); err != nil {
			return err
		}
		if status.Status != "SUCCESS" {
			return fmt.Errorf("compaction: %+v", status)
		}
		return nil
	})
}

// boundedRun reads from offset 0 to the end that was marked, and gives what came and where it ended.
func boundedRun(t *testing.T, src *pulsar.Source, tp record.TopicPartition, mark broker.EndMark) (records int, end record.Offset, err error) {
	t.Helper()
	for from := record.Offset(0); ; {
		end, reached, err := mark(t.Context(), from)
		if reached || err != nil {
			return records, end, err
		}
		got, err := src.Fetch(t.Context(), []broker.FetchRange{{TP: tp, From: from}}, broker.FetchOptions{MinBytes: 1, MaxWait: 200 * time.Millisecond})
		if err = errors.Join(err, got[0].Err); err != nil {
			t.Fatal(err)
		}
		for rest := got[0].Batches; len(rest) > 0; {
			b, err := record.ReadBatch(rest)
			if err != nil {
				t.Fatal(err)
			}
			records, from, rest = records+int(b.Count), b.LastOffset()+1, rest[b.Size():]
		}
	}
}

// TestTopicsOfWhichNothingIsLeft: retention took all of a topic, also behind a compaction, and all that came then was aborted. A
// bounded run ends there with nothing; this broker names no last message that nobody gets. The next message has the offset of its
// index for him who waited and for him who looks later (I2, I4).
func TestTopicsOfWhichNothingIsLeft(t *testing.T) {
	p := harness.Pulsar(t, 20)
	client, err := wire.New(wire.Config{Service: p.Addr, Timeout: time.Minute, Window: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, kind := range []string{"trimmed", "aborted", "compacted"} {
		topic := "public/default/" + kind
		p.Tool(t, "produce", topic, "0", "100", "batch=10", "keys=5")
		if kind == "compacted" {
			compacted(t, p, topic)
		}
		emptied(t, p, topic)
		if kind == "aborted" {
			p.Tool(t, "produce", topic, "0", "30", "txn=10", "abort=all")
		}
		k, err := client.Subscribe(t.Context(), wire.Subscription{Topic: "persistent://" + topic, Name: "look", Start: wire.Earliest})
		if err != nil {
			t.Fatal(err)
		}
		last, any, err1 := k.Last(t.Context())
		acked, known, err2 := k.Acked(t.Context())
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		k.Close()
		t.Logf("%s: the broker names %v as the last message (%v), and has acknowledged %v for a reader (%v)", kind, last, any, acked, known)
		if any {
			t.Errorf("%s: the broker names %v as the last message, which nobody gets: this is another case now", kind, last)
		}
		lake := filepath.Join(t.TempDir(), kind)
		ingest := func() {
			harness.Run(t, nil, "ingest", p.URL()+"/"+topic, lake, "--until-latest", "--format", "raw", "--log-level", "warn")
		}
		ingest()
		waits, tp := open(t, p, pulsar.Config{}), record.TopicPartition{Topic: topic}
		mark, err := waits.MarkEnd(t.Context(), tp)
		if err != nil {
			t.Fatal(err)
		}
		if n, end, err := boundedRun(t, waits, tp, mark); n != 0 || end != 0 || err != nil {
			t.Errorf("%s: a bounded run has %d records and ends at %d, %v", kind, n, end, err)
		}
		p.Tool(t, "produce", topic, "100", "20", "batch=10", "keys=5")
		want := p.ReadPulsar(t, topic)
		later := open(t, p, pulsar.Config{})
		b, err := later.Bounds(t.Context(), tp)
		if err != nil || b.Start < 100 || kind != "aborted" && b.Start != 100 {
			t.Fatalf("%s: who looks later finds the bounds %+v, %v; 100 messages came before", kind, b, err)
		}
		sameAsJava(t, readAll(t, later, tp, b.Start), want, b.Start)
		sameAsJava(t, readAll(t, waits, tp, 0), want, b.Start)
		ingest()
		next := b.Start
		for row := range harness.Rows(t, "read", p.URL()+"/"+topic, "--table", lake) {
			if o := number(t, row["_offset"]); o != int64(next) {
				t.Fatalf("%s: a row has offset %d, want %d", kind, o, next)
			}
			next++
		}
		if got := int(next - b.Start); got != len(want) {
			t.Errorf("%s: %d rows, Pulsar's reader has %d", kind, got, len(want))
		}
	}
}
