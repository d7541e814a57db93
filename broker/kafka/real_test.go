package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// realTopic makes a topic of its own in the Kafka that LEDGERLAKE_KAFKA names, host:port[,host:port...].
func realTopic(t *testing.T) (*Source, []string, *kadm.Client, string) {
	t.Helper()
	env := os.Getenv("LEDGERLAKE_KAFKA")
	if env == "" {
		t.Skip("LEDGERLAKE_KAFKA is not set; it names a Kafka as host:port")
	}
	addrs := strings.Split(env, ",")
	s := open(t, Config{Brokers: addrs})
	adm := kadm.NewClient(newProducer(t, addrs))
	name := fmt.Sprintf("ledgerlake-test-%d", time.Now().UnixNano())
	if _, err := adm.CreateTopic(testCtx(t), 4, -1, nil, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if _, err := adm.DeleteTopic(ctx, name); err != nil {
			t.Error(err)
		}
	})
	ctx := testCtx(t)
	for { // the brokers learn of it one after another
		parts, err := s.Partitions(ctx, name)
		if err == nil && slices.Equal(parts, []int32{0, 1, 2, 3}) {
			return s, addrs, adm, name
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestRealTransactions(t *testing.T) {
	s, addrs, _, name := realTopic(t)
	checkTransactions(t, s, addrs, record.TopicPartition{Topic: name})
}

func TestRealBounds(t *testing.T) {
	s, addrs, adm, name := realTopic(t)
	one := record.TopicPartition{Topic: name, Partition: 1}
	produce(t, newProducer(t, addrs), name, 1, numbers(0, 20)...)
	if _, err := adm.DeleteRecords(testCtx(t), kadm.Offsets{name: {1: {Topic: name, Partition: 1, At: 12}}}); err != nil {
		t.Fatal(err)
	}
	bounds := broker.Bounds{Start: 12, Stable: 20, End: 20}
	for _, o := range []record.Offset{-1, 0, 11, 21, 1 << 40} {
		wantOutOfRange(t, fetchOf(t, s, one, o, broker.FetchOptions{MinBytes: 1, MaxWait: 10 * time.Second}).Err, o, bounds)
	}
	wantValues(t, drain(t, s, broker.ReadCommitted, 100, one)[one], numbers(12, 8))
	if o, err := s.OffsetForTime(testCtx(t), one, time.Now().Add(time.Hour).UnixMilli()); err != nil || o != 20 {
		t.Errorf("offset for the future: %d, %v", o, err)
	}
	if f := fetchOf(t, s, one, 20, broker.FetchOptions{MinBytes: 1, MaxWait: 50 * time.Millisecond}); f.Err != nil || f.Bounds != bounds {
		t.Errorf("at the end: %+v, %v", f.Bounds, f.Err)
	}
}

// Batches that the broker stored come as record reads them, with every codec.
func TestRealCodecs(t *testing.T) {
	s, addrs, _, name := realTopic(t)
	for i, c := range []kgo.CompressionCodec{kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		p := record.TopicPartition{Topic: name, Partition: int32(i)}
		cl := newProducer(t, addrs, kgo.ProducerBatchCompression(c), kgo.ProducerLinger(50*time.Millisecond))
		var batch []*kgo.Record
		want := numbers(i*10000, 3000)
		for _, v := range want {
			batch = append(batch, &kgo.Record{Topic: name, Partition: p.Partition, Value: []byte(v)})
		}
		if err := cl.ProduceSync(testCtx(t), batch...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		wantValues(t, drain(t, s, broker.ReadCommitted, 1000, p)[p], want)
	}
}

// I2: deletion and new making of a topic is seen.
func TestRealTopicMadeAgain(t *testing.T) {
	s, addrs, adm, name := realTopic(t)
	zero := record.TopicPartition{Topic: name}
	produce(t, newProducer(t, addrs), name, 0, "old")
	wantValues(t, drain(t, s, broker.ReadCommitted, 0, zero)[zero], []string{"old"})
	old, err := s.TopicID(testCtx(t), name)
	if err != nil || old == [16]byte{} {
		t.Fatalf("id % x, %v", old, err)
	}
	if _, err := adm.DeleteTopic(testCtx(t), name); err != nil {
		t.Fatal(err)
	}
	ctx := testCtx(t)
	for {
		if _, err = adm.CreateTopic(ctx, 4, -1, nil, name); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	f := fetchOf(t, s, zero, 0, broker.FetchOptions{})
	if !strings.Contains(fmt.Sprint(f.Err), "made again") {
		t.Fatalf("%d bytes, %v", len(f.Batches), f.Err)
	}
	s.Rebind(name)
	if f := fetchOf(t, s, zero, 0, broker.FetchOptions{}); f.Err != nil || f.Bounds.End != 0 {
		t.Fatalf("%+v, %v", f.Bounds, f.Err)
	}
}

func TestRealLongPoll(t *testing.T) {
	s, addrs, _, name := realTopic(t)
	cl := newProducer(t, addrs)
	zero := record.TopicPartition{Topic: name}
	out := make(chan broker.Fetched, 1)
	go func() {
		got, err := s.Fetch(t.Context(), []broker.FetchRange{{TP: zero}}, broker.FetchOptions{MinBytes: 1, MaxWait: 20 * time.Second})
		if err != nil {
			got = []broker.Fetched{{Err: err}}
		}
		out <- got[0]
	}()
	for range 3 {
		if _, err := s.Bounds(testCtx(t), zero); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	produce(t, cl, name, 0, "late")
	f := <-out
	if v, _ := consume(t, f, 0); f.Err != nil || !slices.Equal(v, []string{"late"}) {
		t.Fatalf("%v, %v", v, f.Err)
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("took %s", d)
	}
}

func TestRealGroup(t *testing.T) {
	_, addrs, adm, name := realTopic(t)
	assigned := make(chan []int32, 10)
	revoked := make(chan []int32, 10)
	g, err := JoinGroup(testCtx(t), GroupConfig{Config: Config{Brokers: addrs}, Group: name, Topics: []string{name},
		OnAssigned: func(_ context.Context, _ string, p []int32) { assigned <- p },
		OnRevoked:  func(_ context.Context, _ string, p []int32) { revoked <- p }})
	if err != nil {
		t.Fatal(err)
	}
	if p := <-assigned; len(p) != 4 {
		t.Fatalf("assigned %v", p)
	}
	if err := g.Commit(testCtx(t), map[record.TopicPartition]record.Offset{{Topic: name, Partition: 2}: 42}); err != nil {
		t.Fatal(err)
	}
	offsets, err := adm.FetchOffsets(testCtx(t), name)
	if o, ok := offsets.Lookup(name, 2); err != nil || !ok || o.At != 42 {
		t.Fatalf("committed %+v, %v", o, err)
	}
	if err := g.Close(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	if p := <-revoked; len(p) != 4 {
		t.Fatalf("revoked %v", p)
	}
	if _, err := adm.DeleteGroup(testCtx(t), name); err != nil {
		t.Error(err)
	}
}

// Kafka decompresses and checks what producers send, so that it judges our encoder.
func TestRealBrokerTakesOurBatches(t *testing.T) {
	s, addrs, _, name := realTopic(t)
	ctx := testCtx(t)
	cl := newProducer(t, addrs)
	zero := record.TopicPartition{Topic: name}
	id, err := s.TopicID(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	leader, err := s.findLeader(ctx, zero, true)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for c := record.None; c <= record.Zstd; c++ {
		b := record.NewBuilder(c)
		for i := range 2000 { // more than one block of snappy and of lz4
			v := fmt.Sprintf("%s %d %s", c, i, strings.Repeat("ab", i%100))
			b.Append(int64(i), []byte{}, []byte(v), []record.Header{{Key: []byte("h")}, {Key: []byte("h"), Value: []byte{}}})
			want = append(want, v)
		}
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 10000
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic, rt.TopicID = name, id
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Records = raw
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		for { // the leader of a new partition takes a moment to know that it is one
			kresp, err := cl.Broker(int(leader)).Request(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			p := kresp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if p.ErrorCode == 0 {
				break
			}
			if e := kerr.ErrorForCode(p.ErrorCode); !kerr.IsRetriable(e) || errors.Is(e, kerr.CorruptMessage) {
				t.Fatalf("%s: %v, %v", c, e, p.ErrorMessage)
			}
		}
	}
	wantValues(t, drain(t, s, broker.ReadCommitted, 0, zero)[zero], want)
}
