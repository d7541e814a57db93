package wire

import (
	"context"
	"encoding/binary"
	"net"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// tagged is a frame of OffsetFetch whose n groups carry one unknown field each: the most memory for a byte that
// we know of. With one set, a single group carries all n of them.
func tagged(n int, one bool) []byte {
	b := []byte{0, 0, 0, 0, 0, 9, 0, 8, 0, 0, 0, 1, 255, 255, 0}
	field := func(b []byte, key int) []byte { return append(binary.AppendUvarint(b, uint64(key)), 0) }
	groups, each := n, 1
	if one {
		groups, each = 1, n
	}
	b = binary.AppendUvarint(b, uint64(groups+1))
	for range groups {
		b = append(b, 1, 1) // the name, and no list of topics: an empty one
		b = binary.AppendUvarint(b, uint64(each))
		for key := range each {
			b = field(b, key)
		}
	}
	b = append(b, 0, 0) // require stable, tags
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// I8: what a frame takes while it is decoded is within what is set aside for it, and nothing of its unknown fields
// stays.
func TestUnknownTags(t *testing.T) {
	for name, one := range map[string]bool{"one each": false, "all in one": true} {
		in := tagged(100_000, one)[4:]
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := decode(in, 9, 8)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %.1f times what was sent, %d are counted", name, float64(took)/float64(len(in)), decodeWeight)
		if took > decodeWeight*uint64(len(in)) {
			t.Errorf("%s: decoding %d bytes took %d, %d times as much, and %d times are counted", name, len(in), took, took/uint64(len(in)), decodeWeight)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 2*controlWeight*int64(len(in)) {
			t.Errorf("%s: %d bytes keep %d", name, len(in), kept)
		}
		for _, g := range r.body.(*kmsg.OffsetFetchRequest).Groups {
			if g.UnknownTags.Len() > 0 {
				t.Fatalf("%s: an unknown field is kept", name)
			}
		}
	}
	produce := []byte{0, 0, 255, 255, 0, 0, 0, 0, 1} // no transaction, acks, time, no topics
	produce = append([]byte{0}, produce[2:]...)
	produce = binary.AppendUvarint(produce, 5000)
	for key := range 5000 {
		produce = append(binary.AppendUvarint(produce, uint64(key)), 0)
	}
	if err := checkProduceShape(produce, 9); err == nil || !strings.Contains(err.Error(), "unknown fields") {
		t.Errorf("a Produce request with 5000 unknown fields: %v", err)
	}
}

func longPoll(t *testing.T, nc net.Conn, partitions int) {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 60_000, 1, 1<<20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "t"
	for range partitions {
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.PartitionMaxBytes = 1 << 20
		ft.Partitions = append(ft.Partitions, fp)
	}
	req.Topics = append(req.Topics, ft)
	if _, err := nc.Write(frameOf(req, 11, 1)); err != nil {
		t.Fatal(err)
	}
}

// I8: connections that send large frames behind long polls, and large long polls, hold nothing that others need.
func TestLargeFramesBehindPolls(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.MaxRequestBytes, c.MemoryBudget = 1<<20, 16<<20 })
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	for range 8 { // more than there is memory for
		nc := dial(t, s)
		longPoll(t, nc, 1)
		if _, err := nc.Write(frameOf(produceRequest(t, 1, "none", strings.Repeat("x", 900_000)), 9, 2)); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 { // each 1,100 partitions: some 300 KB are counted for it
		longPoll(t, dial(t, s), 1100)
	}
	for range 5 {
		if got := sendProduce(t, dial(t, s), produceRequest(t, 1, "other", strings.Repeat("x", 900_000)), 9); got.ErrorCode != codeUnknownTopicOrPartition {
			t.Fatalf("code %d", got.ErrorCode)
		}
	}
	// A record ends the polls, and what stood behind them is served.
	if got := sendProduce(t, dial(t, s), produceRequest(t, 1, "t", "v"), 9); got.ErrorCode != 0 {
		t.Fatalf("code %d", got.ErrorCode)
	}
	if err := s.budget.Acquire(within(t, 10*time.Second), s.cfg.requestMemory()); err != nil {
		t.Fatal("memory of requests is not given back")
	}
	s.budget.Release(s.cfg.requestMemory())
}

// eachTags gives the unknown fields of every part of a request.
func eachTags(v reflect.Value, f func(*kmsg.Tags)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachTags(v.Elem(), f)
		}
	case reflect.Struct:
		if v.Type() == tagsType {
			f(v.Addr().Interface().(*kmsg.Tags))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				eachTags(v.Field(i), f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachTags(v.Index(i), f)
		}
	}
}

func countUnknown(req kmsg.Request) (n int) {
	eachTags(reflect.ValueOf(req), func(tags *kmsg.Tags) { n += tags.Len() })
	return n
}

// I8: of no request, however small, are unknown fields kept: a fetch session, a group or a long poll would hold them
// uncounted.
func TestNoUnknownTags(t *testing.T) {
	tagged := 0
	for _, a := range buildTable(newMemLog(t)) {
		if a.key == keyProduce { // their number is bounded, and nothing of it stays
			continue
		}
		for version := max(a.min, a.served); version <= a.max; version++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(version)
			if !req.IsFlexible() {
				continue
			}
			fill(reflect.ValueOf(req).Elem())
			eachTags(reflect.ValueOf(req), func(tags *kmsg.Tags) { tags.Set(4711, nil) })
			raw := frameOf(req, version, 1)[4:]
			plain := kmsg.RequestForKey(a.key)
			plain.SetVersion(version)
			if _, rest, err := readHeader(raw[8:], true); err != nil || plain.ReadFrom(rest) != nil || countUnknown(plain) == 0 {
				t.Fatalf("%s version %d: the frame has no unknown field (%v)", a.name, version, err)
			}
			r, err := decode(raw, a.key, version)
			if err != nil {
				t.Fatalf("%s version %d: %v", a.name, version, err)
			}
			tagged++
			if n := countUnknown(r.body); n > 0 {
				t.Errorf("%s version %d: %d unknown fields are kept", a.name, version, n)
			}
		}
	}
	if tagged < 50 {
		t.Errorf("only %d versions were looked at", tagged)
	}
}

// I8: while a client is above its quota nothing large is read, and what was read before is answered at once.
func TestMutedPipeline(t *testing.T) {
	p := pipeline{fewer: make(chan struct{}, 1)}
	small, large := &frame{weight: 100}, &frame{weight: aheadWeight + 1}
	if err := p.enter(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	p.leave(large, time.Hour)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.enter(over, large); err == nil {
		t.Error("something large was read while the client is muted")
	}
	if err := p.enter(t.Context(), small); err != nil {
		t.Error(err)
	}
	p.hold(t.Context(), large) // would last an hour
	p.leave(small, 0)
	if !p.busy() {
		t.Error("a client that was told to wait is taken for an idle one")
	}
	p.until = time.Now()
	if err := p.enter(t.Context(), large); err != nil {
		t.Error(err)
	}
	p.hold(t.Context(), small)
}

// I8: clients above their quota that go on sending hold no memory that others need.
func TestMutedClientsStarveNobody(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.MaxRequestBytes, c.MemoryBudget = 1<<20, 16<<20 })
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	if err := setQuota(t, kadm.NewClient(client(t, s)), produceQuota, 1000, quotaClient, "greedy"); err != nil {
		t.Fatal(err)
	}
	as := func(id string) []byte {
		req := produceRequest(t, 1, "t", strings.Repeat("x", 900_000))
		req.SetVersion(9)
		return kmsg.NewRequestFormatter(kmsg.FormatterClientID(id)).AppendRequest(nil, req, 1)
	}
	greedy := as("greedy")
	for range 6 {
		nc := dial(t, s)
		_ = nc.SetDeadline(time.Now().Add(maxThrottle / 2))
		go func() {
			for range 3 {
				_, _ = nc.Write(greedy)
			}
		}()
		readAnswer(t, nc)
	}
	nc := dial(t, s)
	_ = nc.SetDeadline(time.Now().Add(maxThrottle / 2))
	for range 3 {
		go func() { _, _ = nc.Write(as("good")) }()
		readAnswer(t, nc)
	}
}

// gatedLog lets one append to a topic through for each token.
type gatedLog struct {
	*memLog
	topic string
	gate  chan struct{}
}

func (l *gatedLog) Append(ctx context.Context, tp record.TopicPartition, batch []byte) (broker.AppendResult, error) {
	if tp.Topic == l.topic {
		<-l.gate
	}
	return l.memLog.Append(ctx, tp, batch)
}

// I8: what a client sent before it was above its quota is answered when it is durable, and its memory is free, though the next
// request of its connection is held.
func TestMutedClientsAreAnswered(t *testing.T) {
	log := &gatedLog{newMemLog(t), "t", make(chan struct{})}
	s := start(t, log, nil)
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	if err := setQuota(t, kadm.NewClient(client(t, s)), produceQuota, 1000, quotaClient, "raw"); err != nil {
		t.Fatal(err)
	}
	nc := dial(t, s)
	_ = nc.SetDeadline(time.Now().Add(patience))
	send := func(i int32, size int) {
		t.Helper()
		if _, err := nc.Write(frameOf(produceRequest(t, -1, "t", strings.Repeat("x", size)), 9, i)); err != nil {
			t.Fatal(err)
		}
	}
	ahead := func(frames int) func() bool {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			for c := range s.conns {
				if c.peer == nc.LocalAddr().String() {
					c.ahead.mu.Lock()
					defer c.ahead.mu.Unlock()
					return c.ahead.frames == frames
				}
			}
			return false
		}
	}
	send(0, 100_000)
	send(1, 900_000)
	until(t, within(t, patience), "both are read", ahead(2))
	log.gate <- struct{}{}
	if i, _ := readAnswer(t, nc); i != 0 {
		t.Fatalf("answer %d", i)
	}
	until(t, within(t, patience), "the client is muted", ahead(1))
	send(2, 10)
	until(t, within(t, patience), "the next is read", ahead(2))
	soon, cancel := context.WithTimeout(t.Context(), maxThrottle/2)
	defer cancel()
	_ = nc.SetDeadline(time.Now().Add(maxThrottle / 2))
	log.gate <- struct{}{}
	if i, _ := readAnswer(t, nc); i != 1 {
		t.Fatalf("answer %d", i)
	}
	if err := s.budget.Acquire(soon, s.cfg.requestMemory()-aheadWeight); err != nil {
		t.Fatal("memory of the large request is not given back")
	}
	s.budget.Release(s.cfg.requestMemory() - aheadWeight)
	close(log.gate)
}
