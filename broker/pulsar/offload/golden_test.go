package offload

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestObjectsOfARealPulsar: testdata was offloaded by a real broker (4.0.7): package offload says by which code. *.messages
// is what Pulsar's own reader gave before that: ids and a digest of key, properties and value, a line each. test/pulsar
// says how it was made (LEDGERLAKE_KEEP).
func TestObjectsOfARealPulsar(t *testing.T) {
	store, err := dir.Open(dir.Config{Root: "testdata", FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	topics, err := filepath.Glob("testdata/*.messages")
	if err != nil || len(topics) < 4 {
		t.Fatalf("%v: the topics are not there: %v", topics, err)
	}
	for _, file := range topics {
		topic := "public/default/" + strings.TrimSuffix(filepath.Base(file), ".messages")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadFile(strings.TrimSuffix(file, ".messages") + ".ledgers.json")
		if err != nil {
			t.Fatal(err)
		}
		lists, err := ParseLists(topic, list)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
		for _, cfg := range []Config{{Store: store, Topic: topic}, {Store: store, Topic: topic, Lists: lists}} {
			f := open(t, cfg)
			got := messages(t, f)
			if !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Errorf("message %d is %s, want %s", i, got[i], want[i])
						break
					}
				}
				t.Errorf("%s, listed %v: %d messages, want %d", topic, cfg.Lists != nil, len(got), len(want))
			}
			for _, r := range f.Reports() {
				if r.Gap != nil || r.Hidden != nil || r.Unproven || r.Rest != 0 {
					t.Errorf("%s: %+v", topic, r)
				}
			}
		}
	}
}

// messages gives those of all partitions as the lines of *.messages.
func messages(t *testing.T, f *Feed) (out []string) {
	t.Helper()
	src := pulsar.OpenFeed(t.Context(), pulsar.Config{}, f)
	parts, err := src.Partitions(t.Context(), f.topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parts {
		tp := record.TopicPartition{Topic: f.topic, Partition: n}
		b, err := src.Bounds(t.Context(), tp)
		if err != nil {
			t.Fatal(err)
		}
		end, err := src.CountEnd(t.Context(), tp)
		if err != nil {
			t.Fatal(err)
		}
		for from := b.Start; from < end; {
			got, err := src.Fetch(t.Context(), []broker.FetchRange{{TP: tp, From: from}}, broker.FetchOptions{})
			if err != nil || got[0].Err != nil || len(got[0].Batches) == 0 {
				t.Fatalf("%s at %d of %d: %v %v", tp, from, end, err, got[0].Err)
			}
			for rest := got[0].Batches; len(rest) > 0; {
				b, err := record.ReadBatch(rest)
				if err != nil {
					t.Fatal(err)
				}
				rest, from = rest[b.Size():], b.LastOffset()+1
				out = append(out, lines(t, n, b)...)
			}
		}
	}
	return out
}

func lines(t *testing.T, partition int32, b record.Batch) (out []string) {
	t.Helper()
	var it record.Iterator
	if err := it.Reset(b); err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		r := it.Record()
		var o record.Origin
		if !record.OriginOf(r, &o) {
			t.Fatalf("the record at offset %d has no origin", r.Offset)
		}
		value, props := "null", ""
		if r.Value != nil {
			value = base64.StdEncoding.EncodeToString(r.Value)
		}
		for _, h := range r.Headers[1:] {
			props += string(h.Key) + "=" + string(h.Value) + ";"
		}
		out = append(out, fmt.Sprintf("%d %d:%d:%d %x", partition, o.Ledger, o.Entry, o.Batch, sha256.Sum256([]byte(string(r.Key)+" "+props+" "+value))))
	}
	return out
}
