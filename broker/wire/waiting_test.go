package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

// lazyLog gives a batch its offset at once, and says that it is durable when it is told to.
type lazyLog struct {
	*memLog
	tb testing.TB

	mu   sync.Mutex
	then []func() // in the order of the batches; nil for those that were told of
	lots []int    // batches that came together
}

func (l *lazyLog) AppendThen(ctx context.Context, batches ...broker.Append) {
	l.mu.Lock()
	l.lots = append(l.lots, len(batches))
	l.mu.Unlock()
	for _, b := range batches {
		l.appendThen(ctx, b)
	}
}

func (l *lazyLog) appendThen(ctx context.Context, b broker.Append) {
	res, err := l.Append(ctx, b.TP, b.Batch)
	if err != nil {
		b.Then(res, err)
		return
	}
	was := bytes.Clone(b.Batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.then = append(l.then, func() {
		if !bytes.Equal(b.Batch, was) {
			l.tb.Error("the memory of a batch was used again while the log had it")
		}
		b.Then(res, nil)
	})
}

// begun says how many batches have come.
func (l *lazyLog) begun() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.then)
}

// durable says of batch i that it is.
func (l *lazyLog) durable(i int) {
	l.mu.Lock()
	then := l.then[i]
	l.then[i] = nil
	l.mu.Unlock()
	then()
}

// lazily is a server over such a log, with a topic t, and a connection to it.
func lazily(t *testing.T) (*lazyLog, *Server, net.Conn) {
	t.Helper()
	log := &lazyLog{memLog: newMemLog(t), tb: t}
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(2)); err != nil {
		t.Fatal(err)
	}
	s := start(t, log, nil)
	nc := dial(t, s)
	_ = nc.SetDeadline(time.Now().Add(patience))
	return log, s, nc
}

func (l *lazyLog) await(t *testing.T, n int) {
	t.Helper()
	until(t, within(t, patience), "so many batches are in the log", func() bool { return l.begun() == n })
}

func put(t *testing.T, nc net.Conn, frame []byte) {
	t.Helper()
	if _, err := nc.Write(frame); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, nc net.Conn, want int32) []byte {
	t.Helper()
	got, body := readAnswer(t, nc)
	if got != want {
		t.Fatalf("the answer to request %d, want that to %d", got, want)
	}
	return body
}

// Produce requests of one connection wait for the disk together, are answered in their order whichever batch is durable first,
// and what comes behind them sees them all.
func TestProduceRequestsWaitTogether(t *testing.T) {
	log, s, nc := lazily(t)
	for i := range int32(3) {
		put(t, nc, frameOf(produceRequest(t, -1, "t", strings.Repeat("x", 100_000)), 9, i)) // large enough for its memory to be reused
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "behind", NumPartitions: 1, ReplicationFactor: 1}}
	put(t, nc, frameOf(create, 5, 3))
	log.await(t, 3)
	until(t, within(t, patience), "all are read", func() bool { return s.metrics.requests[create.Key()].Load() == 1 })
	log.durable(2)
	log.durable(0)
	expect(t, nc, 0)
	if _, err := log.Partitions(t.Context(), "behind"); err == nil {
		t.Fatal("a request was begun before those before it were answered")
	}
	put(t, nc, frameOf(produceRequest(t, -1, "t", strings.Repeat("y", 100_000)), 9, 4))
	log.durable(1)
	expect(t, nc, 1)
	expect(t, nc, 2)
	expect(t, nc, 3)
	log.await(t, 4)
	log.durable(3)
	expect(t, nc, 4)
}

// I8: no more of them wait than is meant.
func TestFewProduceRequestsWait(t *testing.T) {
	log, s, nc := lazily(t)
	const n = 3 * mostWaiting
	go func() {
		for i := range int32(n) {
			_, _ = nc.Write(frameOf(produceRequest(t, -1, "t", "v"), 9, i))
		}
	}()
	log.await(t, mostWaiting)
	until(t, within(t, patience), "all others are read", func() bool { return s.metrics.requests[keyProduce].Load() > 2*mostWaiting })
	if got := log.begun(); got != mostWaiting {
		t.Fatalf("%d wait", got)
	}
	for i := range int32(n) {
		log.await(t, min(n, mostWaiting+int(i)))
		log.durable(int(i))
		expect(t, nc, i)
	}
}

// A client that goes away leaves its batches to the log, which has their memory until it is done with them (I8).
func TestClientGoesWhileItsBatchesWait(t *testing.T) {
	log, s, nc := lazily(t)
	for i := range int32(2) {
		put(t, nc, frameOf(produceRequest(t, -1, "t", strings.Repeat("x", 100_000)), 9, i))
	}
	log.await(t, 2)
	_ = nc.(*net.TCPConn).SetLinger(0) // the answer cannot be sent
	nc.Close()
	log.durable(0)
	const one = 150_000 // more than a request, less than two
	free := s.cfg.requestMemory()
	until(t, within(t, patience), "the memory of the first is given back", func() bool { return s.budget.TryAcquire(free - one) })
	if s.budget.TryAcquire(one) {
		t.Fatal("memory was given back that the log has")
	}
	log.durable(1)
	if err := s.budget.Acquire(within(t, patience), one); err != nil {
		t.Fatal("memory is not given back")
	}
	s.budget.Release(free)
	waitConns(t, s, 0)
}

// What ends a connection is behind the answers to what came before.
func TestBadRequestBehindBatches(t *testing.T) {
	for name, bad := range map[string][]byte{
		"garbage":        append([]byte{0, 0, 0, 9}, "\x00\x00\x00\x09\xff\xff\xff\xff\x7f"...),
		"an unknown key": {0, 0, 0, 8, 0x7f, 0, 0, 0, 0, 0, 0, 0},
		"a long frame":   {0x7f, 0xff, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			log, _, nc := lazily(t)
			put(t, nc, frameOf(produceRequest(t, -1, "t", "v"), 9, 7))
			log.await(t, 1)
			put(t, nc, bad)
			log.durable(0)
			expect(t, nc, 7)
			if n, err := io.Copy(io.Discard, nc); n != 0 || err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("behind it: %d bytes, %v", n, err)
			}
		})
	}
}

// A client that is above its quota is told so before its next request is looked at.
func TestNothingBeginsBehindAMutedRequest(t *testing.T) {
	log, s, nc := lazily(t)
	if err := setQuota(t, kadm.NewClient(client(t, s)), produceQuota, 1e6, quotaClient, "raw"); err != nil {
		t.Fatal(err)
	}
	for i := range int32(3) { // the second is above what may come at once
		put(t, nc, frameOf(produceRequest(t, -1, "t", strings.Repeat("x", 600_000)), 9, i))
	}
	log.await(t, 2)
	until(t, within(t, patience), "the third is read", func() bool { return s.metrics.requests[keyProduce].Load() == 3 })
	log.durable(0)
	expect(t, nc, 0)
	if got := log.begun(); got != 2 {
		t.Fatalf("%d have begun", got)
	}
	log.durable(1)
	expect(t, nc, 1)
	log.await(t, 3)
	log.durable(2)
	expect(t, nc, 2)
}

// A transaction cannot end while one of its batches is on its way, and its requests wait for the disk together: those that
// add partitions by themselves, too, when there is nothing to add.
func TestTransactionWaitsForItsBatches(t *testing.T) {
	for _, version := range []int16{9, implicitTxnVersion} {
		log, s, nc := lazily(t)
		p := openTxn(t, log.memLog, s.txns, "id", version == implicitTxnVersion)
		for seq := range int32(2) {
			req := produceRequest(t, -1, "t", "v")
			req.TransactionID = kmsg.StringPtr("id")
			req.Topics[0].Partitions[0].Records = txnBatch(t, p, 1+seq)
			put(t, nc, frameOf(req, version, seq))
		}
		log.await(t, 2)
		txn := s.txns.find("id")
		for i := range 2 {
			if txn.mu.TryLock() {
				t.Fatal("the transaction could end now")
			}
			log.durable(i)
			expect(t, nc, int32(i))
		}
		if !txn.mu.TryLock() {
			t.Fatal("the transaction cannot end")
		}
		txn.mu.Unlock()
	}
}

// Nothing is begun behind a request that wants no answer: the connection may end with it, and what comes behind is then for
// the client to send again.
func TestNothingBeginsBehindARefusedRequest(t *testing.T) {
	log, s, nc := lazily(t)
	put(t, nc, frameOf(produceRequest(t, 0, "t", "v"), 9, 0))
	put(t, nc, frameOf(produceRequest(t, 0, "none", "v"), 9, 1))
	put(t, nc, frameOf(produceRequest(t, -1, "t", "v"), 9, 2))
	log.await(t, 1)
	until(t, within(t, patience), "all are read", func() bool { return s.metrics.requests[keyProduce].Load() == 3 })
	endsUnanswered(t, log, s, nc)
}

// endsUnanswered says that the first batch is durable: the connection then ends with the refused request behind it.
func endsUnanswered(t *testing.T, log *lazyLog, s *Server, nc net.Conn) {
	t.Helper()
	log.durable(0)
	if n, err := io.Copy(io.Discard, nc); n != 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("%d bytes, %v", n, err)
	}
	waitConns(t, s, 0)
	if got := log.begun(); got != 1 {
		t.Fatalf("%d batches are in the log, want that before the refused one", got)
	}
}

// As above, where what comes behind arrives while the refused request ends the connection.
func TestNothingBeginsWhileAConnectionEnds(t *testing.T) {
	for range 300 {
		log, s, nc := lazily(t)
		put(t, nc, frameOf(produceRequest(t, 0, "t", "v"), 9, 0))
		put(t, nc, frameOf(produceRequest(t, 0, "none", "v"), 9, 1))
		log.await(t, 1)
		go func() {
			for i := range int32(20) {
				_, _ = nc.Write(frameOf(produceRequest(t, -1, "t", "v"), 9, 2+i))
			}
		}()
		endsUnanswered(t, log, s, nc)
	}
}

// A batch of a transaction is with the log before the next one is checked, which waits if the transaction's end does.
func TestBatchesOfATransactionComeOneByOne(t *testing.T) {
	log, s, nc := lazily(t)
	p := openTxn(t, log.memLog, s.txns, "id", true)
	req := produceRequest(t, -1, "t", "v")
	req.TransactionID = kmsg.StringPtr("id")
	req.Topics[0].Partitions[0].Records = txnBatch(t, p, 1)
	second := req.Topics[0].Partitions[0]
	second.Partition, second.Records = 1, txnBatch(t, p, 0)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
	put(t, nc, frameOf(req, implicitTxnVersion, 0))
	log.await(t, 2)
	if want := []int{1, 1}; !slices.Equal(log.lots, want) {
		t.Errorf("they came in lots of %v, want %v", log.lots, want)
	}
	log.durable(0)
	log.durable(1)
	expect(t, nc, 0)
}

// A drain answers what waits.
func TestDrainAnswersWaitingRequests(t *testing.T) {
	log, s, nc := lazily(t)
	for i := range int32(3) {
		put(t, nc, frameOf(produceRequest(t, -1, "t", "v"), 9, i))
	}
	log.await(t, 3)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	until(t, within(t, patience), "the server drains", func() bool {
		c, err := net.Dial("tcp", s.Addr().String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	for i := range 3 {
		log.durable(2 - i)
	}
	for i := range int32(3) {
		expect(t, nc, i)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// Small batches of a request come to the log together, of a large request in several lots: it writes one while others are checked.
func TestSmallBatchesComeTogether(t *testing.T) {
	const n, size = 12, 15 << 10
	log := &lazyLog{memLog: newMemLog(t), tb: t}
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(n)); err != nil {
		t.Fatal(err)
	}
	nc := dial(t, start(t, log, nil))
	_ = nc.SetDeadline(time.Now().Add(patience))
	for i, want := range [][]int{{n}, {5, 5, 2}} {
		value := strings.Repeat("v", []int{100, size}[i])
		req := produceRequest(t, -1, "t", value)
		one := req.Topics[0].Partitions[0]
		for p := range int32(n - 1) {
			one.Partition = p + 1
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, one)
			req.Topics[0].Partitions[p+1].Records = bytes.Clone(one.Records)
		}
		log.mu.Lock()
		log.then, log.lots = nil, nil
		log.mu.Unlock()
		put(t, nc, frameOf(req, 9, int32(i)))
		log.await(t, n)
		for at := range n {
			log.durable(at)
		}
		expect(t, nc, int32(i))
		if !slices.Equal(log.lots, want) {
			t.Errorf("batches of %d bytes came in lots of %v, want %v", len(value), log.lots, want)
		}
	}
}
