package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/record"
)

// fileLog is a log on the disk that counts the answers that stay in its files, and those that were released.
type fileLog struct {
	*local.Log
	left, released atomic.Int64
}

func newFileLog(t *testing.T) *fileLog {
	t.Helper()
	log, err := local.Open(t.Context(), local.Config{Dir: t.TempDir(), Durability: local.DurabilityNone})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fileLog{Log: log}
}

func (l *fileLog) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	got, err := l.Log.Fetch(ctx, ranges, opts)
	for i := range got {
		if f := got[i].File; f != nil {
			l.left.Add(1)
			release := f.Release
			f.Release = func() {
				release()
				l.released.Add(1)
			}
		}
	}
	return got, err
}

// settled waits until no file is in use for an answer any more.
func (l *fileLog) settled(t *testing.T) {
	t.Helper()
	until(t, within(t, patience), "every file is released", func() bool { return l.left.Load() == l.released.Load() })
	if l.left.Load() == 0 {
		t.Error("no answer was left in a file")
	}
}

// Consumers get each record once and as it was sent, over several segments, in the clear and by TLS, and those of
// read_committed without what was aborted (I4).
func TestFetchFromFiles(t *testing.T) {
	cert, pool := certificate(t)
	for name, c := range map[string]*tls.Config{"plain": nil, "TLS": {RootCAs: pool}} {
		t.Run(name, func(t *testing.T) {
			log := newFileLog(t)
			if _, err := log.CreateTopic(t.Context(), "t", broker.TopicConfig{Partitions: 2, SegmentBytes: 1 << 20}); err != nil {
				t.Fatal(err)
			}
			var opts []kgo.Opt
			s := start(t, log, func(cfg *Config) {
				if c != nil {
					cfg.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
					opts = append(opts, kgo.DialTLSConfig(c))
				}
			})
			ctx := within(t, patience)
			rnd := rand.New(rand.NewPCG(1, 2))
			producer := client(t, s, append(opts, kgo.TransactionalID("p"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
			sent := [2][][]byte{}
			aborted := 0
			for i := range 8 {
				if err := producer.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				commit := i%4 != 2
				for range 600 {
					p, v := rnd.IntN(2), make([]byte, 400+rnd.IntN(800))
					for j := range v {
						v[j] = byte(rnd.Uint32())
					}
					if commit {
						sent[p] = append(sent[p], v)
					} else {
						aborted++
					}
					producer.Produce(ctx, &kgo.Record{Topic: "t", Partition: int32(p), Value: v}, nil)
				}
				if err := producer.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				if err := txnend.End(ctx, producer, kgo.TransactionEndTry(commit), "t"); err != nil {
					t.Fatal(err)
				}
			}
			from := append(opts, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			got := [2][][]byte{}
			for _, r := range consume(t, ctx, client(t, s, append(from, kgo.FetchIsolationLevel(kgo.ReadCommitted()))...), len(sent[0])+len(sent[1])) {
				got[r.Partition] = append(got[r.Partition], r.Value)
			}
			for p := range sent {
				for i, v := range sent[p] {
					if i >= len(got[p]) || !bytes.Equal(got[p][i], v) {
						t.Fatalf("partition %d: record %d of %d is missing or another", p, i, len(sent[p]))
					}
				}
			}
			if all := consume(t, ctx, client(t, s, from...), len(sent[0])+len(sent[1])+aborted); len(all) != len(sent[0])+len(sent[1])+aborted {
				t.Errorf("%d records uncommitted", len(all))
			}
			log.settled(t)
		})
	}
}

// An answer on its way to a slow reader comes whole, though its topic is deleted, and with it the files; a reader that
// goes away leaves none of them open.
func TestFetchOutlivesTheFile(t *testing.T) {
	log := newFileLog(t)
	if _, err := log.CreateTopic(t.Context(), "t", broker.TopicConfig{MaxMessageBytes: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := range 40 { // more than sockets hold
		b := record.NewBuilder(record.None)
		v := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(v)
		b.Append(1, nil, v, nil)
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), record.TopicPartition{Topic: "t"}, raw); err != nil {
			t.Fatal(err)
		}
		want = append(want, raw...)
	}
	s := start(t, log, nil)
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 64 << 20
	ft, fp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	fp.PartitionMaxBytes = 64 << 20
	ft.Topic, ft.Partitions = "t", append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
	slow, gone := dial(t, s), dial(t, s)
	for _, nc := range []net.Conn{slow, gone} {
		if _, err := nc.Write(frameOf(req, 11, 7)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, within(t, patience), "both are answered", func() bool { return log.left.Load() == 2 })
	if err := log.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	corr, body := readAnswer(t, slow)
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 11
	if err := resp.ReadFrom(body); err != nil || corr != 7 {
		t.Fatal(corr, err)
	}
	if got := resp.Topics[0].Partitions[0].RecordBatches; !bytes.Equal(got, want) {
		t.Errorf("%d bytes of batches, want %d the same", len(got), len(want))
	}
	log.settled(t)
}

// countedLog counts what a log reads.
type countedLog struct {
	*local.Log
	read atomic.Int64 // bytes in memory
}

func (l *countedLog) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	got, err := l.Log.Fetch(ctx, ranges, opts)
	for _, f := range got {
		l.read.Add(int64(len(f.Batches)))
	}
	return got, err
}

// I8: what is read for a Fetch is answered, though it is less than the request waits for, when a limit keeps back the rest: that of
// the request, or of what the log reads into memory.
func TestFetchKeptBack(t *testing.T) {
	const partitions, pieces = 500, 28 << 10 // 13 MiB, none of it large enough to stay in its file
	log := &countedLog{Log: newFileLog(t).Log}
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(partitions)); err != nil {
		t.Fatal(err)
	}
	for p := range int32(partitions) {
		b := record.NewBuilder(record.None)
		b.Append(1, nil, make([]byte, pieces), nil)
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), record.TopicPartition{Topic: "t", Partition: p}, raw); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, log, nil)
	nc := dial(t, s)
	for _, c := range []struct {
		name        string
		bytes, want int
	}{{"memory of the log", 64 << 20, 8 << 20}, {"request", 2 << 20, 2 << 20}} {
		t.Run(c.name, func(t *testing.T) {
			log.read.Store(0)
			req := kmsg.NewPtrFetchRequest()
			req.MaxBytes, req.MinBytes, req.MaxWaitMillis = int32(c.bytes), 10<<20, int32(patience.Milliseconds())
			ft := kmsg.NewFetchRequestTopic()
			for p := range int32(partitions) {
				fp := kmsg.NewFetchRequestTopicPartition()
				fp.Partition, fp.PartitionMaxBytes = p, 1<<20
				ft.Partitions = append(ft.Partitions, fp)
			}
			ft.Topic = "t"
			req.Topics = append(req.Topics, ft)
			if _, err := nc.Write(frameOf(req, 11, 7)); err != nil {
				t.Fatal(err)
			}
			_, body := readAnswer(t, nc)
			resp := kmsg.NewPtrFetchResponse()
			resp.Version = 11
			if err := resp.ReadFrom(body); err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, p := range resp.Topics[0].Partitions {
				got += len(p.RecordBatches)
			}
			if read := int(log.read.Load()); read != got || got < c.want-2*pieces {
				t.Errorf("%d bytes are answered, %d were read", got, read)
			}
		})
	}
}
