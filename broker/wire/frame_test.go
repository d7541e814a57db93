package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/record"
)

func dial(t testing.TB, s *Server) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc
}

func frameOf(req kmsg.Request, version int16, corr int32) []byte {
	req.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, req, corr)
}

// readAnswer reads one answer: correlation id and body.
func readAnswer(t testing.TB, nc net.Conn) (int32, []byte) {
	t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(nc, body); err != nil {
		t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(head[4:])), body
}

// manyTopics is a Produce frame with n topics of no partitions, two bytes each: the decoder would make
// thirty times their size of them.
func manyTopics(n int) []byte {
	b := []byte{0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 255, 255, 0, 0, 0, 1, 0, 0, 0, 0}
	b = binary.AppendUvarint(b, uint64(n+1))
	b = append(b, bytes.Repeat([]byte{1, 1, 0}, n)...)
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// I8: garbage closes the connection and nothing else.
func TestGarbageFrames(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.MaxRequestBytes = 8 << 20 })
	long := func(n uint32, rest ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	for name, in := range map[string][]byte{
		"http":             []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"negative length":  long(0xffffffff, 0, 0, 0, 0),
		"short":            long(4, 0, 18, 0, 0),
		"too large":        long(8<<20+1, 0, 0, 0, 3),
		"unknown key":      long(8, 1, 200, 0, 0, 0, 0, 0, 1),
		"old produce":      frameOf(kmsg.NewPtrProduceRequest(), 2, 1),
		"future metadata":  long(10, 0, 3, 0, 99, 0, 0, 0, 1, 0, 0),
		"client id length": long(10, 0, 3, 0, 0, 0, 0, 0, 1, 127, 127),
		"array length":     long(14, 0, 3, 0, 1, 0, 0, 0, 1, 0, 0, 127, 255, 255, 255),
		"produce topics":   manyTopics(1 << 19),
		"big control":      long(5<<20, 0, 3, 0, 1),
	} {
		t.Run(name, func(t *testing.T) {
			nc := dial(t, s)
			if _, err := nc.Write(in); err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, nc); n != 0 || err != nil && !strings.Contains(err.Error(), "reset") {
				t.Fatalf("%d bytes came back, error %v", n, err)
			}
		})
	}
	produce(t, within(t, 10*time.Second), client(t, s), "t", 10) // the server lives
}

// An unknown version of ApiVersions is answered in version 0, with the table.
func TestAPIVersionsDowngrade(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	nc := dial(t, s)
	in := frameOf(kmsg.NewPtrApiVersionsRequest(), 3, 7)
	binary.BigEndian.PutUint16(in[6:], 77)
	if _, err := nc.Write(in); err != nil {
		t.Fatal(err)
	}
	corr, body := readAnswer(t, nc)
	var resp kmsg.ApiVersionsResponse
	if err := resp.ReadFrom(body); err != nil || corr != 7 || resp.ErrorCode != codeUnsupportedVersion {
		t.Fatalf("answer %+v %v", resp, err)
	}
	if len(resp.ApiKeys) != len(buildTable(&memLog{})) {
		t.Fatalf("%d keys, want %d", len(resp.ApiKeys), len(buildTable(&memLog{})))
	}
	for _, a := range buildTable(&memLog{}) {
		req := kmsg.RequestForKey(a.key)
		if req == nil || a.max > req.MaxVersion() || kmsg.NameForKey(a.key) == "" || a.min > a.max {
			t.Errorf("row %+v is wrong", a.name)
		}
	}
}

// Pipelined requests are answered in order; acks=0 is not answered.
func TestPipelineOrder(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	nc := dial(t, s)
	var in []byte
	create := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = "t", 1, 1
	create.Topics = append(create.Topics, ct)
	in = append(in, frameOf(create, 5, 1)...)
	for i := range int32(20) {
		in = append(in, frameOf(produceRequest(t, int16(i%2), "t", "v"), 7, 10+i)...)
	}
	md := kmsg.NewPtrMetadataRequest()
	in = append(in, frameOf(md, 4, 99)...)
	if _, err := nc.Write(in); err != nil {
		t.Fatal(err)
	}
	want := []int32{1}
	for i := range int32(20) {
		if i%2 == 1 {
			want = append(want, 10+i)
		}
	}
	for _, w := range append(want, 99) {
		if corr, _ := readAnswer(t, nc); corr != w {
			t.Fatalf("answer to %d, want %d", corr, w)
		}
	}
	if b, _ := log.Bounds(t.Context(), record.TopicPartition{Topic: "t"}); b.End != 20 {
		t.Fatalf("%d records, want 20", b.End)
	}
}

func produceRequest(t testing.TB, acks int16, topic string, values ...string) *kmsg.ProduceRequest {
	t.Helper()
	b := record.NewBuilder(record.None)
	for _, v := range values {
		b.Append(1, nil, []byte(v), nil)
	}
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks = acks
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = raw
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func sendProduce(t *testing.T, nc net.Conn, req *kmsg.ProduceRequest, version int16) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	if _, err := nc.Write(frameOf(req, version, 1)); err != nil {
		t.Fatal(err)
	}
	_, body := readAnswer(t, nc)
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = version
	if resp.IsFlexible() {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0]
}

// Each fault of a batch has its code, and a message where there is room.
func TestProduceErrors(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	ctx := within(t, 10*time.Second)
	if _, err := admin(t, s).CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	nc := dial(t, s)
	edit := func(f func(*kmsg.ProduceRequest, *kmsg.ProduceRequestTopicPartition)) *kmsg.ProduceRequest {
		req := produceRequest(t, -1, "t", "v")
		f(req, &req.Topics[0].Partitions[0])
		return req
	}
	for name, c := range map[string]struct {
		req     *kmsg.ProduceRequest
		version int16
		want    int16
	}{
		"good":          {edit(func(*kmsg.ProduceRequest, *kmsg.ProduceRequestTopicPartition) {}), 9, codeNone},
		"acks":          {edit(func(r *kmsg.ProduceRequest, _ *kmsg.ProduceRequestTopicPartition) { r.Acks = 2 }), 9, codeInvalidRequiredAcks},
		"transactional": {edit(func(r *kmsg.ProduceRequest, _ *kmsg.ProduceRequestTopicPartition) { r.TransactionID = ptr("x") }), 9, codeInvalidRecord},
		"null":          {edit(func(_ *kmsg.ProduceRequest, p *kmsg.ProduceRequestTopicPartition) { p.Records = nil }), 9, codeInvalidRecord},
		"partition":     {edit(func(_ *kmsg.ProduceRequest, p *kmsg.ProduceRequestTopicPartition) { p.Partition = 9 }), 9, codeUnknownTopicOrPartition},
		"crc":           {edit(func(_ *kmsg.ProduceRequest, p *kmsg.ProduceRequestTopicPartition) { p.Records[len(p.Records)-1]++ }), 9, codeCorruptMessage},
		"cut":           {edit(func(_ *kmsg.ProduceRequest, p *kmsg.ProduceRequestTopicPartition) { p.Records = p.Records[:40] }), 9, codeCorruptMessage},
		"two": {edit(func(_ *kmsg.ProduceRequest, p *kmsg.ProduceRequestTopicPartition) {
			p.Records = append(p.Records, p.Records...)
		}), 9, codeInvalidRecord},
		"magic":       {edit(func(_ *kmsg.ProduceRequest, p *kmsg.ProduceRequestTopicPartition) { p.Records[16] = 1 }), 9, codeUnsupportedFormat},
		"codec":       {edit(func(_ *kmsg.ProduceRequest, p *kmsg.ProduceRequestTopicPartition) { p.Records[22] = 6 }), 9, codeUnsupportedCompression},
		"old zstd":    {edit(func(_ *kmsg.ProduceRequest, p *kmsg.ProduceRequestTopicPartition) { p.Records[22] = 4 }), 6, codeUnsupportedCompression},
		"internal":    {edit(func(r *kmsg.ProduceRequest, _ *kmsg.ProduceRequestTopicPartition) { r.Topics[0].Topic = OffsetsTopic }), 9, codeInvalidTopic},
		"no topic":    {edit(func(r *kmsg.ProduceRequest, _ *kmsg.ProduceRequestTopicPartition) { r.Topics[0].Topic = "none" }), 9, codeUnknownTopicOrPartition},
		"no topic id": {edit(func(*kmsg.ProduceRequest, *kmsg.ProduceRequestTopicPartition) {}), 13, codeUnknownTopicID},
	} {
		got := sendProduce(t, nc, c.req, c.version)
		if got.ErrorCode != c.want || c.want != codeNone && got.BaseOffset != -1 {
			t.Errorf("%s: code %d at %d, want %d", name, got.ErrorCode, got.BaseOffset, c.want)
		}
		if c.version >= 8 && c.want != codeNone && c.want != codeUnknownTopicID && got.ErrorMessage == nil {
			t.Errorf("%s: no message", name)
		}
	}
	if b, _ := log.Bounds(ctx, record.TopicPartition{Topic: "t"}); b.End != 1 {
		t.Fatalf("%d records, want the good one", b.End)
	}
	// acks=0 has no answer, so a refused batch ends the connection.
	bad := produceRequest(t, 0, "none", "v")
	if _, err := nc.Write(frameOf(bad, 9, 1)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, nc); n != 0 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

// The retry of an idempotent producer gets the first answer again.
func TestIdempotentDuplicate(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.DefaultPartitions = 1 })
	ctx := within(t, 10*time.Second)
	if _, err := admin(t, s).CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	ir := kmsg.NewPtrInitProducerIDRequest()
	id, err := ir.RequestWith(ctx, client(t, s))
	if err != nil || id.ErrorCode != 0 {
		t.Fatal(id, err)
	}
	batch := func(seq int32) *kmsg.ProduceRequest {
		b := record.NewBuilder(record.None)
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = id.ProducerID, id.ProducerEpoch, seq
		b.Append(1, nil, []byte("v"), nil)
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		req := produceRequest(t, -1, "t", "v")
		req.Topics[0].Partitions[0].Records = raw
		return req
	}
	nc := dial(t, s)
	for _, c := range []struct {
		seq, code int16
		base      int64
	}{{0, 0, 0}, {1, 0, 1}, {1, 0, 1}, {0, 0, 0}, {5, codeOutOfOrderSequence, -1}} {
		if got := sendProduce(t, nc, batch(int32(c.seq)), 9); got.ErrorCode != c.code || got.BaseOffset != c.base {
			t.Errorf("sequence %d: code %d base %d, want %d %d", c.seq, got.ErrorCode, got.BaseOffset, c.code, c.base)
		}
	}
}

// A batch that is larger than all limits of a fetch comes whole (KIP-74).
func TestFetchFirstBatchWhole(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.DefaultPartitions = 1 })
	ctx := within(t, 10*time.Second)
	cl := client(t, s)
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: bytes.Repeat([]byte("x"), 500_000)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c2 := client(t, s, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(100), kgo.FetchMaxPartitionBytes(10))
	if got := consume(t, ctx, c2, 1); len(got[0].Value) != 500_000 {
		t.Fatalf("%d bytes", len(got[0].Value))
	}
}

// A long poll ends when its connection dies, and Close leaves no goroutine behind.
func TestNoLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	log := newMemLog(t)
	s, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Log: log, AutoCreateTopics: true, DefaultPartitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes = 200_000, 1, 1<<20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "t"
	ft.Partitions = append(ft.Partitions, kmsg.NewFetchRequestTopicPartition())
	fetch.Topics = append(fetch.Topics, ft)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "g", "consumer", 60000, 60000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}

	var held []net.Conn
	for i := range 40 {
		nc := dial(t, s)
		in := frameOf(fetch, 11, 1)
		if i%2 == 0 {
			in = frameOf(join, 3, 1)
		}
		if _, err := nc.Write(in); err != nil {
			t.Fatal(err)
		}
		if i%4 < 2 {
			_ = nc.Close() // dies in its long poll
		} else {
			held = append(held, nc)
		}
	}
	waitConns(t, s, len(held)) // the dead ones are gone although their polls had minutes to go
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, were %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

func waitConns(t testing.TB, s *Server, want int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		s.mu.Lock()
		n := len(s.conns)
		s.mu.Unlock()
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections, want %d", n, want)
		}
	}
}

// A peer that does not read its answers is cut by the write deadline; one that does not send, by the read's.
func TestSlowPeers(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.IOTimeout = 200 * time.Millisecond; c.IdleTimeout = 300 * time.Millisecond })
	ctx := within(t, 20*time.Second)
	if _, err := log.CreateTopic(ctx, "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	for range 8 { // not over the server: it gives nobody the time for a megabyte
		raw := produceRequest(t, -1, "t", strings.Repeat("x", 1_000_000)).Topics[0].Partitions[0].Records
		if _, err := log.Append(ctx, record.TopicPartition{Topic: "t"}, raw); err != nil {
			t.Fatal(err)
		}
	}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxBytes = 32 << 20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "t"
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.PartitionMaxBytes = 32 << 20
	ft.Partitions = append(ft.Partitions, fp)
	fetch.Topics = append(fetch.Topics, ft)
	var in []byte
	for range 8 { // more than the socket buffers take
		in = append(in, frameOf(fetch, 11, 1)...)
	}
	slow := dial(t, s)
	if _, err := slow.Write(in); err != nil {
		t.Fatal(err)
	}
	half := dial(t, s)
	if _, err := half.Write([]byte{0, 0, 10, 0, 0, 0, 0, 3}); err != nil {
		t.Fatal(err)
	}
	dial(t, s) // idle
	waitConns(t, s, 0)
}

// Requests wait for memory; they are not refused, and all of them are served in the end.
func TestMemoryBudget(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.MaxRequestBytes = 1 << 20; c.MemoryBudget = 4 << 20 })
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		nc := dial(t, s)
		req := produceRequest(t, -1, "t", strings.Repeat("x", 800_000))
		wg.Go(func() {
			if got := sendProduce(t, nc, req, 9); got.ErrorCode != 0 {
				t.Errorf("code %d", got.ErrorCode)
			}
		})
	}
	wg.Wait()
	if b, _ := log.Bounds(t.Context(), record.TopicPartition{Topic: "t"}); b.End != 20 {
		t.Fatalf("%d records", b.End)
	}
}

// Many connections at once, and the limit on them.
func TestManyConnections(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.MaxConnections = 200 })
	in := frameOf(kmsg.NewPtrApiVersionsRequest(), 3, 5)
	var wg sync.WaitGroup
	for range 200 {
		nc := dial(t, s)
		wg.Go(func() {
			if _, err := nc.Write(in); err != nil {
				t.Error(err)
			}
			if corr, _ := readAnswer(t, nc); corr != 5 {
				t.Errorf("answer to %d", corr)
			}
		})
	}
	wg.Wait()
	one := dial(t, s)
	if n, err := io.Copy(io.Discard, one); n != 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("the connection over the limit: %d bytes, %v", n, err)
	}
}

// FuzzFrame feeds the dispatcher raw frames: it answers, or refuses, and never panics (I8).
func FuzzFrame(f *testing.F) {
	for _, a := range buildTable(&memLog{}) {
		for v := max(a.min, a.served); v <= a.max; v++ {
			f.Add(frameOf(kmsg.RequestForKey(a.key), v, 1)[4:])
		}
	}
	f.Add(frameOf(produceRequest(f, -1, "t", "v", "w"), 9, 1)[4:])
	log := newMemLog(f)
	if _, err := log.CreateTopic(context.Background(), "t", topicOf(1)); err != nil {
		f.Fatal(err)
	}
	s, err := newServer(context.Background(), Config{Log: log, AutoCreateTopics: true, GroupJoinDelay: time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.groups.close)
	f.Fuzz(func(t *testing.T, in []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		a, err := s.dispatch(ctx, &conn{peer: "127.0.0.1:1", local: "127.0.0.1"}, &frame{body: in})
		if a.ready != nil {
			<-a.ready
			a, err = a.whole()
		}
		a.release()
		out := a.out
		if err == nil && len(out) > 0 && (len(out) < 8 || int(binary.BigEndian.Uint32(out)) != len(out)-4 || !bytes.Equal(out[4:8], in[4:8])) {
			t.Fatalf("answer % x to % x", out[:min(8, len(out))], in)
		}
	})
}
