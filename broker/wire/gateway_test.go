package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/record"
)

// fakeLake has the first records of every partition of topic t, as send makes them.
type fakeLake struct {
	end    atomic.Int64
	broken atomic.Bool
}

var errLake = errors.New("the lake is away")

func (l *fakeLake) Start(_ context.Context, tp record.TopicPartition) (record.Offset, bool) {
	return 0, tp.Topic == "t"
}

func (l *fakeLake) End(_ context.Context, tp record.TopicPartition, id [16]byte, _ record.Offset) (record.Offset, bool, error) {
	if l.broken.Load() {
		return 0, false, errLake
	}
	return record.Offset(l.end.Load()), tp.Topic == "t" && id != [16]byte{}, nil
}

func (l *fakeLake) Fetch(_ context.Context, tp record.TopicPartition, from record.Offset, _ int) ([]byte, record.Offset, error) {
	if l.broken.Load() {
		return nil, from, errLake
	}
	end := record.Offset(l.end.Load())
	if from >= end {
		return nil, from, nil
	}
	b := record.NewBuilder(record.Zstd)
	at := from
	for ; at < min(from+5, end); at++ {
		b.AppendAt(at, 1000+int64(at), nil, fmt.Appendf(nil, "%d/%d", tp.Partition, at), nil)
	}
	raw, err := b.Build(from)
	return raw, at, err
}

func (l *fakeLake) OffsetForTime(_ context.Context, _ record.TopicPartition, ms int64) (record.Offset, bool, error) {
	return record.Offset(ms - 1000), ms >= 1000 && ms < 1000+l.end.Load(), nil
}

// throughGateway starts a cluster of three nodes with topic t, and a gateway in front of it.
func throughGateway(t *testing.T, lake Lake, edit func(*Config)) (*kfake.Cluster, *Server) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := start(t, nil, func(cfg *Config) {
		cfg.Upstream = &Upstream{Seeds: c.ListenAddrs(), Lake: lake, Dial: dialPlain}
		if edit != nil {
			edit(cfg)
		}
	})
	return c, s
}

func dialPlain(ctx context.Context, addr string) (net.Conn, time.Time, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	return nc, time.Time{}, err
}

// onlyOurs is a dialer for clients that fails the test when they go anywhere but to the gateway.
func onlyOurs(t *testing.T, c *kfake.Cluster) kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if slices.Contains(c.ListenAddrs(), addr) {
			t.Errorf("a client of the gateway was led to the cluster's own address %s", addr)
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	})
}

// sendEach sends records [from, to) to each of the three partitions, with times 1000 + offset.
func sendEach(t *testing.T, ctx context.Context, cl *kgo.Client, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		for p := range int32(3) {
			r := &kgo.Record{Topic: "t", Partition: p, Value: fmt.Appendf(nil, "%d/%d", p, i), Timestamp: time.UnixMilli(int64(1000 + i))}
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if r.Offset != int64(i) {
				t.Fatalf("record %d of partition %d has offset %d", i, p, r.Offset)
			}
		}
	}
}

func cutAt(t *testing.T, ctx context.Context, cl *kgo.Client, at int64) {
	t.Helper()
	o := kadm.Offsets{}
	for p := range int32(3) {
		o.AddOffset("t", p, at, -1)
	}
	if got, err := kadm.NewClient(cl).DeleteRecords(ctx, o); err != nil || got.Error() != nil {
		t.Fatal(err, got.Error())
	}
}

// wantEach reads records [0, n) of each partition, in order and with their values (I4).
func wantEach(t *testing.T, ctx context.Context, cl *kgo.Client, n int) {
	t.Helper()
	next := map[int32]int64{}
	for _, r := range consume(t, ctx, cl, 3*n) {
		if r.Offset != next[r.Partition] || string(r.Value) != fmt.Sprintf("%d/%d", r.Partition, r.Offset) {
			t.Fatalf("partition %d: offset %d with value %s, want offset %d", r.Partition, r.Offset, r.Value, next[r.Partition])
		}
		next[r.Partition]++
	}
}

// The cluster's own log is cut, and a client that knows the gateway alone reads all from offset 0, over the seam and
// the three nodes, and goes on with what is produced meanwhile (I4).
func TestGatewayReadsHistoryAndTail(t *testing.T) {
	lake := &fakeLake{}
	c, s := throughGateway(t, lake, nil)
	ctx := within(t, 60*time.Second)
	cl := client(t, s, kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()), onlyOurs(t, c))
	sendEach(t, ctx, cl, 0, 30)
	lake.end.Store(25)
	cutAt(t, ctx, cl, 20)

	reader := client(t, s, onlyOurs(t, c), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	sendEach(t, ctx, cl, 30, 35)
	wantEach(t, ctx, reader, 35)

	adm := kadm.NewClient(cl)
	for ms, want := range map[int64]int64{1000: 0, 1007: 7, 1019: 19, 1020: 20, 1034: 34} {
		got, err := adm.ListOffsetsAfterMilli(ctx, ms, "t")
		if err != nil || got.Error() != nil {
			t.Fatal(err, got.Error())
		}
		got.Each(func(o kadm.ListedOffset) {
			if o.Offset != want || o.Timestamp != 1000+want {
				t.Errorf("the first record at %d in partition %d is at offset %d, time %d; want %d", ms, o.Partition, o.Offset, o.Timestamp, want)
			}
		})
	}
	starts, err := adm.ListStartOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	starts.Each(func(o kadm.ListedOffset) {
		if o.Offset != 0 || o.Err != nil {
			t.Errorf("partition %d starts at %d (%v), want 0", o.Partition, o.Offset, o.Err)
		}
	})
}

// What the cluster dropped before it was tiered is lost, and a reader is told, not led past it or around for ever (I4).
func TestGatewayTellsAHole(t *testing.T) {
	lake := &fakeLake{}
	_, s := throughGateway(t, lake, nil)
	ctx := within(t, 60*time.Second)
	cl := client(t, s, kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	sendEach(t, ctx, cl, 0, 20)
	lake.end.Store(10)
	cutAt(t, ctx, cl, 15)
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	starts.Each(func(o kadm.ListedOffset) {
		if o.Offset != 15 {
			t.Errorf("partition %d starts at %d, want 15: what is before is not whole", o.Partition, o.Offset)
		}
	})
	at := map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(8)}}
	reader := client(t, s, kgo.ConsumePartitions(at), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	var seen []int64
	for {
		fs := reader.PollFetches(ctx)
		fs.EachRecord(func(r *kgo.Record) { seen = append(seen, r.Offset) })
		if err := fs.Err(); err != nil {
			if !errors.Is(err, kerr.OffsetOutOfRange) {
				t.Fatal(err)
			}
			break
		}
	}
	if !slices.Equal(seen, []int64{8, 9}) {
		t.Errorf("read %v before the hole, want 8 and 9", seen)
	}
}

// A lake that cannot be read is said: the log's start must not be taken for the beginning of all (I4).
func TestGatewayTellsThatTheLakeIsAway(t *testing.T) {
	lake := &fakeLake{}
	_, s := throughGateway(t, lake, nil)
	ctx := within(t, 60*time.Second)
	cl := client(t, s, kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	sendEach(t, ctx, cl, 0, 4)
	lake.broken.Store(true)
	cutAt(t, ctx, cl, 2)
	req, p := kmsg.NewPtrListOffsetsRequest(), kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = offsetEarliest
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
	req.ReplicaID, req.Topics = -1, append(req.Topics, topic)
	resp := cl.RequestSharded(ctx, req)
	if len(resp) != 1 || resp[0].Err != nil {
		t.Fatalf("%+v", resp)
	}
	if code := resp[0].Resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode; code != codeStorageError {
		t.Errorf("the earliest offset is answered with code %d, want %d", code, codeStorageError)
	}
}

// Groups, transactions and positions are the cluster's: two members share a topic through the gateway, one leaves, and a
// transaction's records come with their positions or not at all.
func TestGatewayGroupsAndTransactions(t *testing.T) {
	c, s := throughGateway(t, &fakeLake{}, nil)
	ctx := within(t, 60*time.Second)
	sendEach(t, ctx, client(t, s, kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner())), 0, 10)
	member := func() *kgo.GroupTransactSession {
		g, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(s.Addr().String()), onlyOurs(t, c), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"),
			kgo.TransactionalID(t.Name()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for round, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		g := member()
		if err := g.Begin(); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < 30; {
			fs := g.PollFetches(ctx)
			if err := fs.Err(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			fs.EachRecord(func(r *kgo.Record) {
				n++
				g.Produce(ctx, &kgo.Record{Topic: "t", Partition: r.Partition, Value: []byte("copy")}, nil)
			})
		}
		if err := txnend.Known(ctx, g.Client(), "t"); err != nil {
			t.Fatal(err)
		}
		if done, err := g.End(ctx, commit); err != nil || done != bool(commit) {
			t.Fatalf("round %d: ended with %v, %v", round, done, err)
		}
		g.Close()
	}
	direct, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	got, err := kadm.NewClient(direct).FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(3) {
		if o, ok := got.Lookup("t", p); !ok || o.At < 10 {
			t.Errorf("the cluster has position %d of partition %d, want 10 or more", o.At, p)
		}
	}
}
