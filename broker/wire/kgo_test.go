package wire

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/broker"
)

// start opens a server over log and closes it with the test.
func start(t testing.TB, log broker.Log, edit func(*Config)) *Server {
	t.Helper()
	cfg := Config{
		Listen: "127.0.0.1:0", Log: log, NodeID: 1, AutoCreateTopics: true, DefaultPartitions: 3,
		GroupJoinDelay: 10 * time.Millisecond,
		Logger:         slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	}
	if edit != nil {
		edit(&cfg)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && err != ErrClosed {
			t.Error(err)
		}
	})
	return s
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	_, _ = fmt.Fprint(w.t.Output(), string(p))
	return len(p), nil
}

func client(t testing.TB, s *Server, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.Addr().String()), kgo.AllowAutoTopicCreation()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// patience is how long a test waits at least for what must come. No test says how fast something is to be.
const patience = 2 * time.Minute

// within bounds what a test waits for: at least patience, since a machine may be ten times slower than ours.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), max(d, patience))
	t.Cleanup(cancel)
	return ctx
}

// consume reads n records or fails.
func consume(t testing.TB, ctx context.Context, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	var out []*kgo.Record
	for len(out) < n {
		fs := cl.PollFetches(ctx)
		for _, e := range fs.Errors() {
			t.Fatalf("fetch %s-%d: %v (have %d of %d)", e.Topic, e.Partition, e.Err, len(out), n)
		}
		fs.EachRecord(func(r *kgo.Record) { out = append(out, r) })
	}
	return out
}

func produce(t testing.TB, ctx context.Context, cl *kgo.Client, topic string, n int) {
	t.Helper()
	for i := range n {
		r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d %s", i, strings.Repeat("x", 100))}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce %d: %v", i, err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// Every codec goes through byte for byte, with idempotent producers (the default of kgo).
func TestProduceConsumeCodecs(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			topic := "t-" + name
			produce(t, ctx, client(t, s, kgo.ProducerBatchCompression(codec)), topic, 500)
			got := consume(t, ctx, client(t, s, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 500)
			seen := map[string]bool{}
			next := map[int32]int64{}
			for _, r := range got {
				if r.Offset != next[r.Partition] { // I4
					t.Fatalf("partition %d: offset %d, want %d", r.Partition, r.Offset, next[r.Partition])
				}
				next[r.Partition]++
				if want := "v" + string(r.Key[1:]) + " "; !strings.HasPrefix(string(r.Value), want) {
					t.Fatalf("key %s has value %.10s", r.Key, r.Value)
				}
				seen[string(r.Key)] = true
			}
			if len(seen) != 500 {
				t.Fatalf("%d keys, want 500", len(seen))
			}
		})
	}
}
