package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/record"
)

// I4: every partition's records come once, in order, whatever the size of the answers.
func TestFetchAll(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	want := make(map[record.TopicPartition][]string)
	tps := make([]record.TopicPartition, 4)
	for p := range int32(4) {
		tps[p] = tp(p)
		want[tp(p)] = numbers(int(p)*1000, 40)
		produce(t, cl, topic, p, want[tp(p)]...)
	}
	s := openFake(t, c)
	parts, err := s.Partitions(testCtx(t), topic)
	if err != nil || !slices.Equal(parts, []int32{0, 1, 2, 3}) {
		t.Fatalf("partitions %v, %v", parts, err)
	}
	for _, maxBytes := range []int{0, 1, 300} {
		got := drain(t, s, broker.ReadCommitted, maxBytes, tps...)
		for _, tp := range tps {
			wantValues(t, got[tp], want[tp])
		}
	}
}

// One request goes to each broker, however many partitions it leads.
func TestOneRequestABroker(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(30, "wide"))
	cl := newProducer(t, c.ListenAddrs())
	leaders := make(map[int32]bool)
	var ranges []broker.FetchRange
	for p := range int32(30) {
		produce(t, cl, "wide", p, "x")
		leaders[c.LeaderFor("wide", p)] = true
		ranges = append(ranges, broker.FetchRange{TP: record.TopicPartition{Topic: "wide", Partition: p}})
	}
	s := openFake(t, c)
	n := countKey(c, kmsg.Fetch)
	got, err := s.Fetch(testCtx(t), ranges, broker.FetchOptions{MinBytes: 1, MaxWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got {
		if values, _ := consume(t, f, 0); len(values) != 1 || f.Bounds != (broker.Bounds{Stable: 1, End: 1}) {
			t.Errorf("%s: %v, bounds %+v, %v", f.TP, values, f.Bounds, f.Err)
		}
	}
	if int(n.Load()) != len(leaders) {
		t.Errorf("%d requests for %d leaders", n.Load(), len(leaders))
	}
}

func transact(t *testing.T, cl *kgo.Client, commit bool, tp record.TopicPartition, values ...string) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, tp.Topic, tp.Partition, values...)
	if err := txnend.End(testCtx(t), cl, kgo.TransactionEndTry(commit), tp.Topic); err != nil {
		t.Fatal(err)
	}
}

// I4: read_committed gives what was committed, and Stable stops at the oldest open transaction.
func TestTransactions(t *testing.T) {
	c := newCluster(t)
	s := openFake(t, c)
	checkTransactions(t, s, c.ListenAddrs(), tp(0))
}

// checkTransactions writes to a partition, which is empty.
func checkTransactions(t *testing.T, s *Source, addrs []string, tp record.TopicPartition) {
	plain := newProducer(t, addrs)
	one := newProducer(t, addrs, kgo.TransactionalID("one-"+tp.Topic))
	two := newProducer(t, addrs, kgo.TransactionalID("two-"+tp.Topic))
	produce(t, plain, tp.Topic, tp.Partition, "a")
	transact(t, one, true, tp, "b", "c")
	transact(t, one, false, tp, "no 1", "no 2")
	if err := two.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, two, tp.Topic, tp.Partition, "no 3")
	produce(t, plain, tp.Topic, tp.Partition, "d")
	transact(t, one, true, tp, "e")

	want := []string{"a", "b", "c", "no 1", "no 2", "no 3", "d", "e"}
	wantValues(t, drain(t, s, broker.ReadUncommitted, 0, tp)[tp], want)
	wantValues(t, drain(t, s, broker.ReadCommitted, 0, tp)[tp], want[:3]) // "no 3" is open

	b, err := s.Bounds(testCtx(t), tp)
	if err != nil || b.Start != 0 || b.Stable >= b.End {
		t.Fatalf("bounds with an open transaction: %+v, %v", b, err)
	}
	f := fetchOf(t, s, tp, b.Stable, broker.FetchOptions{MinBytes: 1, Isolation: broker.ReadCommitted})
	if f.Err != nil || len(f.Batches) != 0 || f.Bounds != b {
		t.Fatalf("fetch at the stable offset: %d bytes, %+v, %v; want bounds %+v", len(f.Batches), f.Bounds, f.Err, b)
	}
	if err := txnend.End(testCtx(t), two, kgo.TryAbort, tp.Topic); err != nil {
		t.Fatal(err)
	}
	committed := []string{"a", "b", "c", "d", "e"}
	wantValues(t, drain(t, s, broker.ReadCommitted, 0, tp)[tp], committed)
	wantValues(t, drain(t, s, broker.ReadCommitted, 1, tp)[tp], committed) // batch by batch
	if b, err = s.Bounds(testCtx(t), tp); err != nil || b.Stable != b.End {
		t.Fatalf("bounds after the transaction: %+v, %v", b, err)
	}
}

// An offset that the log lost is an error with the true bounds, never another offset.
func TestOutOfRange(t *testing.T) {
	c := newCluster(t)
	produce(t, newProducer(t, c.ListenAddrs()), topic, 1, numbers(0, 20)...)
	if err := c.DeleteRecords(topic, 1, 12); err != nil {
		t.Fatal(err)
	}
	s := openFake(t, c)
	bounds := broker.Bounds{Start: 12, Stable: 20, End: 20}
	if b, err := s.Bounds(testCtx(t), tp(1)); err != nil || b != bounds {
		t.Fatalf("bounds %+v, %v", b, err)
	}
	opts := broker.FetchOptions{MinBytes: 1, MaxWait: 10 * time.Second}
	for _, o := range []record.Offset{0, 11, 21, 1 << 40, -1} {
		wantOutOfRange(t, fetch1(t, s, 1, o, opts).Err, o, bounds)
	}
	f := fetch1(t, s, 1, 12, opts)
	if v, next := consume(t, f, 12); f.Err != nil || len(v) != 8 || next != 20 || f.Bounds != bounds {
		t.Errorf("at the log start: %v up to %d, %+v, %v", v, next, f.Bounds, f.Err)
	}
	if f := fetch1(t, s, 1, 20, broker.FetchOptions{MinBytes: 1}); f.Err != nil || len(f.Batches) != 0 {
		t.Errorf("at the end: %d bytes, %v", len(f.Batches), f.Err)
	}
}

// When one range is out of range, the others of the call still get their data.
func TestFaultOfOneRange(t *testing.T) {
	c := newCluster(t)
	produce(t, newProducer(t, c.ListenAddrs()), topic, 1, "x")
	s := openFake(t, c)
	got, err := s.Fetch(testCtx(t), []broker.FetchRange{
		{TP: tp(0), From: 5}, {TP: tp(1)}, {TP: tp(77)}, {TP: record.TopicPartition{Topic: "none"}},
	}, broker.FetchOptions{MinBytes: 1, MaxWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	wantOutOfRange(t, got[0].Err, 5, broker.Bounds{})
	if v, _ := consume(t, got[1], 0); got[1].Err != nil || len(v) != 1 {
		t.Errorf("the good range: %v, %v", v, got[1].Err)
	}
	for _, f := range got[2:] {
		if !errors.Is(f.Err, broker.ErrUnknownTopic) {
			t.Errorf("%s: %v", f.TP, f.Err)
		}
	}
}

func TestUnknown(t *testing.T) {
	s := openFake(t, newCluster(t))
	none := record.TopicPartition{Topic: "none"}
	if _, err := s.Partitions(testCtx(t), "none"); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("Partitions: %v", err)
	}
	for _, tp := range []record.TopicPartition{none, tp(9)} {
		if _, err := s.Bounds(testCtx(t), tp); !errors.Is(err, broker.ErrUnknownTopic) {
			t.Errorf("Bounds(%s): %v", tp, err)
		}
		if _, err := s.OffsetForTime(testCtx(t), tp, 5); !errors.Is(err, broker.ErrUnknownTopic) {
			t.Errorf("OffsetForTime(%s): %v", tp, err)
		}
	}
	if err := s.Hold(testCtx(t), tp(0), 5); !errors.Is(err, broker.ErrNoHold) {
		t.Errorf("Hold: %v", err)
	}
	if _, err := s.Fetch(testCtx(t), []broker.FetchRange{{TP: tp(0)}, {TP: tp(0)}}, broker.FetchOptions{}); err == nil {
		t.Error("a partition was taken twice")
	}
	if got, err := s.Fetch(testCtx(t), nil, broker.FetchOptions{MaxWait: time.Hour}); err != nil || got != nil {
		t.Errorf("no ranges: %v, %v", got, err)
	}
}

func TestOffsetForTime(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	for i := range 5 {
		r := &kgo.Record{Topic: topic, Partition: 2, Timestamp: time.UnixMilli(int64(1000 + 10*i))}
		if err := cl.ProduceSync(testCtx(t), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s := openFake(t, c)
	for ms, want := range map[int64]record.Offset{-5: 0, 0: 0, 1000: 0, 1001: 1, 1040: 4, 1041: 5, 1 << 50: 5} {
		if got, err := s.OffsetForTime(testCtx(t), tp(2), ms); err != nil || got != want {
			t.Errorf("time %d: offset %d, %v; want %d", ms, got, err, want)
		}
	}
}

// A cluster from before topic ids is read by name.
func TestWithoutTopicIDs(t *testing.T) {
	c := newCluster(t, kfake.MaxVersions(kversion.V2_7_0()))
	produce(t, newProducer(t, c.ListenAddrs()), topic, 0, numbers(0, 5)...)
	s := openFake(t, c)
	if id, err := s.TopicID(testCtx(t), topic); err != nil || id != [16]byte{} {
		t.Fatalf("id % x, %v", id, err)
	}
	wantValues(t, drain(t, s, broker.ReadCommitted, 0, tp(0))[tp(0)], numbers(0, 5))
}

// I2: offsets of a topic that was made again mean other records.
func TestTopicMadeAgain(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	produce(t, cl, topic, 0, "old")
	s := open(t, Config{Brokers: c.ListenAddrs(), RetryTimeout: 5 * time.Second, unknownGraceFor: 50 * time.Millisecond})
	old, err := s.TopicID(testCtx(t), topic)
	if err != nil || old == [16]byte{} {
		t.Fatalf("id % x, %v", old, err)
	}
	if f := fetch1(t, s, 0, 0, broker.FetchOptions{}); f.Err != nil {
		t.Fatal(f.Err)
	}
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if f := fetch1(t, s, 0, 0, broker.FetchOptions{}); !errors.Is(f.Err, broker.ErrUnknownTopic) {
		t.Fatalf("after the topic was deleted: %v", f.Err)
	}
	if err := c.CreateTopic(topic, 4, nil); err != nil {
		t.Fatal(err)
	}
	produce(t, newProducer(t, c.ListenAddrs()), topic, 0, "new")
	f := fetch1(t, s, 0, 0, broker.FetchOptions{})
	var again *RecreatedError
	if !errors.As(f.Err, &again) || again.Was != old || again.Is == old || len(f.Batches) > 0 {
		t.Fatalf("after it was made again: %d bytes, %v", len(f.Batches), f.Err)
	}
	if id, err := s.TopicID(testCtx(t), topic); err != nil || id != again.Is {
		t.Fatalf("id % x, %v", id, err)
	}
	s.Rebind(topic)
	wantValues(t, drain(t, s, broker.ReadCommitted, 0, tp(0))[tp(0)], []string{"new"})
}

func TestLeaderMoves(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	s := openFake(t, c)
	var want []string
	for i := range 4 {
		produce(t, cl, topic, 0, fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
		wantValues(t, drain(t, s, broker.ReadCommitted, 0, tp(0))[tp(0)], want)
		if err := c.MoveTopicPartition(topic, 0, (c.LeaderFor(topic, 0)+1)%3); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPartitionsAdded(t *testing.T) {
	c := newCluster(t)
	s := openFake(t, c)
	if _, err := s.Bounds(testCtx(t), tp(3)); err != nil { // the cache knows four
		t.Fatal(err)
	}
	cl := newProducer(t, c.ListenAddrs())
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, 6
	req.Topics = append(req.Topics, rt)
	if resp, err := req.RequestWith(testCtx(t), cl); err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create partitions: %+v, %v", resp, err)
	}
	if f := fetch1(t, s, 5, 0, broker.FetchOptions{}); f.Err != nil {
		t.Errorf("fetch of a new partition: %v", f.Err)
	}
	if parts, err := s.Partitions(testCtx(t), topic); err != nil || len(parts) != 6 {
		t.Errorf("partitions %v, %v", parts, err)
	}
}

func TestPassingFaults(t *testing.T) {
	c := newCluster(t)
	produce(t, newProducer(t, c.ListenAddrs()), topic, 0, "x")
	s := openFake(t, c)
	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.KafkaStorageError, kerr.UnknownTopicOrPartition, kerr.FencedLeaderEpoch} {
		for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets} {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: topic, Err: e, Count: 2})
			if got := drain(t, s, broker.ReadCommitted, 0, tp(0))[tp(0)]; !slices.Equal(got, []string{"x"}) {
				t.Errorf("%s at %s: %v", e.Message, key.Name(), got)
			}
		}
	}
}

func TestLastingFaults(t *testing.T) {
	c := newCluster(t)
	s := open(t, Config{Brokers: c.ListenAddrs(), RetryTimeout: 200 * time.Millisecond})
	for _, tt := range []struct {
		fault *kerr.Error
		want  error
	}{
		{kerr.TopicAuthorizationFailed, kerr.TopicAuthorizationFailed},
		{kerr.CorruptMessage, broker.ErrCorruptBatch},
		{kerr.KafkaStorageError, broker.ErrStorage},
	} {
		h := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Partitions: []int32{0}, Err: tt.fault, Count: -1})
		got, err := s.Fetch(testCtx(t), []broker.FetchRange{{TP: tp(0)}, {TP: tp(1)}}, broker.FetchOptions{MinBytes: 1, MaxWait: 20 * time.Second})
		if err != nil || !errors.Is(got[0].Err, tt.want) || got[1].Err != nil {
			t.Errorf("%s: %v, %v", tt.fault.Message, got, err)
		}
		h.Remove()
	}
	c.Close()
	if got, err := s.Fetch(testCtx(t), []broker.FetchRange{{TP: tp(0)}}, broker.FetchOptions{}); err == nil {
		t.Errorf("no broker left: %v", got)
	}
	if _, err := s.Bounds(testCtx(t), tp(0)); err == nil {
		t.Error("no broker left: Bounds gave no error")
	}
}

func TestOpenRefuses(t *testing.T) {
	c := newCluster(t)
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "no brokers"},
		{Config{Brokers: c.ListenAddrs(), SASL: SASL{Mechanism: "GSSAPI", User: "u"}}, "GSSAPI"},
		{Config{Brokers: c.ListenAddrs(), SASL: SASL{Mechanism: Plain}}, "user"},
		{Config{Brokers: c.ListenAddrs(), RetryTimeout: -1}, "negative"},
		{Config{Brokers: c.ListenAddrs(), MaxBatchBytes: 1 << 40}, "limits"},
		{Config{Brokers: []string{"127.0.0.1:1"}, RetryTimeout: 50 * time.Millisecond}, "127.0.0.1:1"},
	} {
		s, err := Open(testCtx(t), tt.cfg)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.cfg, err)
		}
		if err == nil {
			s.Close()
		}
	}
}

func TestSecured(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	c := newCluster(t, kfake.EnableSASL(), kfake.TLS(&tls.Config{Certificates: web.TLS.Certificates}),
		kfake.Superuser(Plain, "ann", "secret"), kfake.Superuser(ScramSHA256, "bob", "secret"), kfake.Superuser(ScramSHA512, "eve", "secret"))
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	client := &tls.Config{RootCAs: roots, ServerName: "example.com"}
	for m, user := range map[string]string{Plain: "ann", ScramSHA256: "bob", ScramSHA512: "eve"} {
		s := open(t, Config{Brokers: c.ListenAddrs(), TLS: client, SASL: SASL{Mechanism: m, User: user, Password: "secret"}})
		if f := fetch1(t, s, 0, 0, broker.FetchOptions{}); f.Err != nil {
			t.Errorf("%s: %v", m, f.Err)
		}
	}
	_, err := Open(testCtx(t), Config{Brokers: c.ListenAddrs(), TLS: client, SASL: SASL{Mechanism: Plain, User: "ann", Password: "wrong"}, RetryTimeout: time.Second})
	if err == nil || !strings.Contains(err.Error(), c.ListenAddrs()[0]) { // this broker hangs up and gives no reason
		t.Errorf("wrong password: %v", err)
	}
}

// All methods may run at once.
func TestConcurrent(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	for p := range int32(4) {
		produce(t, cl, topic, p, numbers(0, 10)...)
	}
	s := open(t, Config{Brokers: c.ListenAddrs(), FetchClients: 3})
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			p := tp(int32(i % 4))
			got, err := s.Fetch(testCtx(t), []broker.FetchRange{{TP: p}}, broker.FetchOptions{MinBytes: 1, MaxWait: time.Second})
			if err != nil || got[0].Err != nil || got[0].Bounds.End != 10 {
				t.Errorf("%v, %v", got, err)
			}
			if b, err := s.Bounds(testCtx(t), p); err != nil || b.End != 10 {
				t.Errorf("%+v, %v", b, err)
			}
			if _, err := s.Partitions(testCtx(t), topic); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
