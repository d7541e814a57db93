package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/broker/wire/share"
	"github.com/ledgerlake/ledgerlake/record"
)

// sharer is a member of a share group that does nothing by itself.
type sharer struct {
	t     *testing.T
	ctx   context.Context
	cl    *kgo.Client
	topic [16]byte
	other [][16]byte // topics that it reads as well
	group string
	id    string
	epoch int32
	code  int16 // of its last request
}

func sharerOf(t *testing.T, s *Server, group, id string) *sharer {
	t.Helper()
	ctx := within(t, time.Minute)
	in, err := s.topics.get(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	return &sharer{t: t, ctx: ctx, cl: client(t, s), topic: in.ID, group: group, id: id}
}

// say is an acknowledgement of neighbours.
func say(first, last int64, kind share.Kind) share.Ack {
	return share.Ack{First: record.Offset(first), Last: record.Offset(last), Kinds: []share.Kind{kind}}
}

// fetch asks for records of partition 0, most of them exactly, for so long at most.
func (m *sharer) fetch(most int32, wait time.Duration, acks ...share.Ack) kmsg.ShareFetchResponseTopicPartition {
	m.t.Helper()
	req := kmsg.NewPtrShareFetchRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &m.group, &m.id, m.epoch
	req.MaxRecords, req.MaxWaitMillis, req.ShareAcquireMode = most, int32(wait.Milliseconds()), 1
	rt, rp := kmsg.NewShareFetchRequestTopic(), kmsg.NewShareFetchRequestTopicPartition()
	rt.TopicID = m.topic
	for _, a := range acks {
		b := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
		b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = int64(a.First), int64(a.Last), []int8{int8(a.Kinds[0])}
		rp.AcknowledgementBatches = append(rp.AcknowledgementBatches, b)
	}
	rt.Partitions = append(rt.Partitions, rp)
	for _, id := range m.other {
		req.Topics = append(req.Topics, kmsg.ShareFetchRequestTopic{TopicID: id, Partitions: []kmsg.ShareFetchRequestTopicPartition{{}}})
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(m.ctx, m.cl)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.code = resp.ErrorCode; m.code == 0 {
		m.epoch++
	}
	for _, t := range resp.Topics {
		if t.TopicID == m.topic {
			return t.Partitions[0]
		}
	}
	return kmsg.NewShareFetchResponseTopicPartition()
}

// offsets fetches and gives what came, as offset:attempts.
func (m *sharer) offsets(most int32, wait time.Duration, acks ...share.Ack) (out []string) {
	m.t.Helper()
	p := m.fetch(most, wait, acks...)
	if m.code != 0 || p.ErrorCode != 0 || p.AcknowledgeErrorCode != 0 {
		m.t.Fatalf("%s: codes %d, %d and %d", m.id, m.code, p.ErrorCode, p.AcknowledgeErrorCode)
	}
	for _, a := range p.AcquiredRecords {
		for o := a.FirstOffset; o <= a.LastOffset; o++ {
			out = append(out, fmt.Sprintf("%d:%d", o, a.DeliveryCount))
		}
	}
	return out
}

func (m *sharer) gets(want []string, most int32, wait time.Duration, acks ...share.Ack) {
	m.t.Helper()
	if got := m.offsets(most, wait, acks...); !slices.Equal(got, want) {
		m.t.Fatalf("%s got %v, want %v", m.id, got, want)
	}
}

// acknowledge sends what it makes of records by themselves; final ends the session.
func (m *sharer) acknowledge(final bool, acks ...share.Ack) int16 {
	m.t.Helper()
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &m.group, &m.id, m.epoch
	if final {
		req.ShareSessionEpoch = epochFinal
	}
	rt, rp := kmsg.NewShareAcknowledgeRequestTopic(), kmsg.NewShareAcknowledgeRequestTopicPartition()
	rt.TopicID = m.topic
	for _, a := range acks {
		b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
		b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = int64(a.First), int64(a.Last), []int8{int8(a.Kinds[0])}
		req.IsRenewAck = req.IsRenewAck || a.Kinds[0] == share.Renew
		rp.AcknowledgementBatches = append(rp.AcknowledgementBatches, b)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(m.ctx, m.cl)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.epoch++; resp.ErrorCode != 0 {
		return resp.ErrorCode
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

func (m *sharer) takes(acks ...share.Ack) {
	m.t.Helper()
	if code := m.acknowledge(false, acks...); code != 0 {
		m.t.Fatalf("%s: %+v is answered with %d", m.id, acks, code)
	}
}

// shareOffsets gives where a group is in partition 0 of t, and its lag.
func shareOffsets(t *testing.T, ctx context.Context, cl *kgo.Client, group string) (start, lag int64) {
	t.Helper()
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	rg := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	rg.GroupID = group
	req.Groups = append(req.Groups, rg)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	if g := resp.Groups[0]; g.ErrorCode == 0 && len(g.Topics) > 0 {
		return g.Topics[0].Partitions[0].StartOffset, g.Topics[0].Partitions[0].Lag
	}
	return -1, -1
}

// shared starts a server with n records in the one partition of t, each a batch; what share groups read begins at the start.
func shared(t *testing.T, log broker.Log, n int, groups map[string]groupConfig) *Server {
	t.Helper()
	s := start(t, log, func(c *Config) { c.DefaultPartitions = 1 })
	for name, cfg := range groups {
		cfg.ShareReset = resetEarliest
		s.tuned.put(name, cfg)
	}
	cl := client(t, s, kgo.ProducerLinger(0))
	for i := range n {
		if err := cl.ProduceSync(within(t, time.Minute), &kgo.Record{Topic: "t", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func given(first, last, attempts int) (out []string) {
	for o := first; o <= last; o++ {
		out = append(out, fmt.Sprintf("%d:%d", o, attempts))
	}
	return out
}

// I1: what a group was given, and what it said of it, is so after a restart: what is decided is never given again, what was let go
// with its count, and what a member had it has.
func TestShareGroupOverARestart(t *testing.T) {
	log, groups := newMemLog(t), map[string]groupConfig{"g": {ShareAttempts: 2}}
	s := shared(t, log, 10, groups)
	a := sharerOf(t, s, "g", "a")
	a.gets(given(0, 9, 1), 20, 0)
	a.takes(say(0, 2, share.Accept), say(3, 3, share.Reject), say(4, 5, share.Let))
	sharerOf(t, s, "g", "b").gets(given(4, 4, 2), 1, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = shared(t, log, 0, groups)
	c := sharerOf(t, s, "g", "c")
	c.gets(given(5, 5, 2), 20, 0)
	a, b := sharerOf(t, s, "g", "a"), sharerOf(t, s, "g", "b")
	a.gets(nil, 1, 0)
	b.gets(nil, 1, 0)
	a.takes(say(6, 9, share.Accept))
	b.takes(say(4, 4, share.Let)) // given as often as it may be
	if start, lag := shareOffsets(t, a.ctx, a.cl, "g"); start != 5 || lag != 1 {
		t.Errorf("the group is at %d with %d to come, want 5 and 1", start, lag)
	}
	c.takes(say(5, 5, share.Accept))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = shared(t, log, 1, groups)
	sharerOf(t, s, "g", "a").gets(given(10, 10, 1), 20, time.Minute)
}

// What a member keeps for too long is given to another, who was waiting for it, until it was given often enough.
func TestShareLocksRunOut(t *testing.T) {
	s := shared(t, newMemLog(t), 3, map[string]groupConfig{"g": {ShareAttempts: 2, ShareLock: 300}})
	a, b := sharerOf(t, s, "g", "a"), sharerOf(t, s, "g", "b")
	a.gets(given(0, 2, 1), 20, 0)
	b.gets(given(0, 2, 2), 20, time.Minute)
	if code := a.acknowledge(false, say(0, 0, share.Accept)); code != codeInvalidRecordState {
		t.Errorf("what another has was acknowledged: %d", code)
	}
	for start := int64(0); start < 3; {
		start, _ = shareOffsets(t, a.ctx, a.cl, "g")
	}
	a.gets(nil, 20, 0)
}

// A renewal keeps a record; only a request that says that it renews may.
func TestShareRenewal(t *testing.T) {
	s := shared(t, newMemLog(t), 1, map[string]groupConfig{"g": {ShareLock: 60_000}, "no": {ShareNoRenew: true}})
	a := sharerOf(t, s, "g", "a")
	a.gets(given(0, 0, 1), 1, 0)
	was, now := int64(0), int64(0)
	look := func(at *int64) {
		s.shares.see("g", shareKey{Topic: a.topic}, groupConfig{}.limits(), func(p *share.Partition) { *at, _ = p.Deadline() })
	}
	look(&was)
	for now <= was { // the clock may not have moved
		a.takes(say(0, 0, share.Renew))
		look(&now)
	}
	if p := a.fetch(1, 0, say(0, 0, share.Renew)); p.AcknowledgeErrorCode != codeInvalidRequest {
		t.Errorf("a renewal by a request that does not say so: %d", p.AcknowledgeErrorCode)
	}
	no := sharerOf(t, s, "no", "a")
	no.gets(given(0, 0, 1), 1, 0)
	if code := no.acknowledge(false, say(0, 0, share.Renew)); code != codeInvalidRequest {
		t.Errorf("a renewal that the group does not want: %d", code)
	}
}

// No more records are open than the group may have; what is decided makes room for who waits.
func TestShareLimits(t *testing.T) {
	s := shared(t, newMemLog(t), 8, map[string]groupConfig{"g": {ShareLocks: 5}})
	a, b := sharerOf(t, s, "g", "a"), sharerOf(t, s, "g", "b")
	a.gets(given(0, 2, 1), 3, 0)
	b.gets(given(3, 4, 1), 20, 0)
	b.gets(nil, 20, 0)
	done := make(chan []string)
	go func() { done <- b.offsets(20, time.Minute) }()
	a.takes(say(1, 2, share.Accept)) // the first one stays open, and holds nobody up
	if got := <-done; !slices.Equal(got, given(5, 6, 1)) {
		t.Errorf("b got %v", got)
	}
}

// A session has its epochs; it ends with its last request or its connection, and what the member had is free.
func TestShareSessions(t *testing.T) {
	s := shared(t, newMemLog(t), 3, map[string]groupConfig{"g": {}})
	a, b := sharerOf(t, s, "g", "a"), sharerOf(t, s, "g", "b")
	if a.epoch = 1; true {
		a.fetch(1, 0)
	}
	if a.code != codeShareSessionNotFound {
		t.Errorf("a session that was never opened: %d", a.code)
	}
	a.epoch = 0
	if a.fetch(1, 0, say(0, 0, share.Accept)); a.code != codeInvalidRequest {
		t.Errorf("a new session that acknowledges: %d", a.code)
	}
	a.gets(given(0, 1, 1), 2, 0)
	a.epoch = 7
	if a.fetch(1, 0); a.code != codeInvalidShareSessionEpoch {
		t.Errorf("a wrong epoch: %d", a.code)
	}
	a.epoch = 0
	if code := a.acknowledge(false, say(0, 0, share.Accept)); code != codeInvalidShareSessionEpoch {
		t.Errorf("an acknowledgement that opens a session: %d", code)
	}
	if code := a.acknowledge(true, say(0, 0, share.Accept)); code != 0 {
		t.Errorf("the last acknowledgement: %d", code)
	}
	b.gets(given(1, 2, 1), 20, 0) // nothing was said of 1: it was not given
	b.cl.Close()                  // as a member that dies
	c := sharerOf(t, s, "g", "c")
	c.gets(given(1, 2, 1), 20, time.Minute)
}

// I4: a group reads on through a table that alone has the records, over its holes, to the log.
func TestShareGroupReadsTheHistory(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.History = fakeHistory{}; c.DefaultPartitions = 1 })
	s.tuned.put("g", groupConfig{ShareReset: resetEarliest})
	ctx := within(t, time.Minute)
	cl := client(t, s, kgo.ProducerLinger(0))
	for i := range 60 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "v%d", i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := log.DeleteRecords(ctx, record.TopicPartition{Topic: "t"}, 35); err != nil {
		t.Fatal(err)
	}
	member := client(t, s, kgo.ShareGroup("g"), kgo.ConsumeTopics("t"))
	got := consume(t, ctx, member, 48)
	slices.SortFunc(got, func(a, b *kgo.Record) int { return int(a.Offset - b.Offset) })
	want := int64(histStart)
	for _, r := range got {
		if want == histHole {
			want = histHoleTo
		}
		if r.Offset != want || string(r.Value) != fmt.Sprintf("v%d", want) || r.DeliveryCount() != 1 {
			t.Fatalf("offset %d value %s attempt %d, want %d", r.Offset, r.Value, r.DeliveryCount(), want)
		}
		want++
	}
	member.MarkAcks(kgo.AckAccept)
	if err := member.FlushAcks(ctx); err != nil {
		t.Fatal(err)
	}
	if start, lag := shareOffsets(t, ctx, cl, "g"); start != 60 || lag != 0 {
		t.Errorf("the group is at %d with %d to come, want 60 and 0", start, lag)
	}
}

// A group of read_committed is given what is committed when it is, and nothing of what is aborted.
func TestShareGroupIsolation(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.DefaultPartitions = 1 })
	s.tuned.put("rc", groupConfig{ShareReset: resetEarliest, ShareIsolation: committedOnly})
	s.tuned.put("ru", groupConfig{ShareReset: resetEarliest})
	ctx := within(t, time.Minute)
	cl := client(t, s, kgo.TransactionalID("x"))
	transact(t, ctx, cl, "t", kgo.TryCommit, "a")       // 0, marker 1
	transact(t, ctx, cl, "t", kgo.TryAbort, "b", "bad") // 2 and 3, marker 4
	transact(t, ctx, cl, "t", kgo.TryCommit, "c")       // 5, marker 6
	open := client(t, s, kgo.TransactionalID("y"))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := open.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("d")}).FirstErr(); err != nil { // 7
		t.Fatal(err)
	}
	ru, rc := sharerOf(t, s, "ru", "a"), sharerOf(t, s, "rc", "a")
	ru.gets([]string{"0:1", "2:1", "3:1", "5:1", "7:1"}, 20, 0)
	rc.gets([]string{"0:1", "5:1"}, 20, 0)
	rc.gets(nil, 20, 0, say(0, 0, share.Accept), say(5, 5, share.Accept))
	if start, _ := shareOffsets(t, ctx, cl, "rc"); start != 7 {
		t.Errorf("the group is at %d, want 7", start)
	}
	done := make(chan []string)
	go func() { done <- rc.offsets(20, time.Minute) }()
	if err := txnend.End(ctx, open, kgo.TryCommit, "t"); err != nil {
		t.Fatal(err)
	}
	if got := <-done; !slices.Equal(got, []string{"7:1"}) {
		t.Errorf("behind the open transaction: %v", got)
	}
}

// A partition of which there is nothing to give has empty records on the wire: Java's client gives up where they are null.
func TestShareAnswerHasNoNull(t *testing.T) {
	s := shared(t, newMemLog(t), 0, nil)
	if _, err := s.log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	m := sharerOf(t, s, "g", "a")
	req := kmsg.NewPtrShareFetchRequest()
	req.Version, req.GroupID, req.MemberID, req.MaxRecords = 2, &m.group, &m.id, 10
	req.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: m.topic, Partitions: []kmsg.ShareFetchRequestTopicPartition{{}}}}
	resp, err := s.shareFetch(&request{ctx: t.Context(), version: 2, body: req, proof: &proof{}})
	if err != nil {
		t.Fatal(err)
	}
	if p := resp.(*kmsg.ShareFetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Records == nil {
		t.Errorf("code %d, records %v", p.ErrorCode, p.Records)
	}
}

// watchedLog counts what is read of it.
type watchedLog struct {
	*memLog
	reads atomic.Int64
	waits chan struct{}                 // has one for each request that waits for records
	fail  func(broker.FetchRange) error // when set
}

func watched(t *testing.T) *watchedLog {
	return &watchedLog{memLog: newMemLog(t), waits: make(chan struct{}, 1000)}
}

func (l *watchedLog) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	if l.reads.Add(1); opts.MaxWait > 0 {
		l.waits <- struct{}{}
	}
	if l.fail != nil {
		if err := l.fail(ranges[0]); err != nil {
			return nil, err
		}
	}
	return l.memLog.Fetch(ctx, ranges, opts)
}

// A topic that is not there takes nothing from the others of its session: what a member has of them it is sent.
func TestShareBesideAnError(t *testing.T) {
	s := shared(t, newMemLog(t), 6, map[string]groupConfig{"g": {}})
	m := sharerOf(t, s, "g", "m")
	m.other = [][16]byte{{9}}
	for i := range 3 {
		m.gets(given(2*i, 2*i+1, 1), 2, 0)
	}
}

// I8: those who wait for one partition wait; they do not wake each other.
func TestShareReadersThatWait(t *testing.T) {
	const members = 30
	log := watched(t)
	log.fail = func(broker.FetchRange) error { // as a disk takes its time
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		<-ctx.Done()
		return nil
	}
	s := shared(t, log, 1, map[string]groupConfig{"g": {}})
	sharerOf(t, s, "g", "first").gets(given(0, 0, 1), 1, 0)
	log.reads.Store(0)
	var all sync.WaitGroup
	var got atomic.Int64
	for i := range members {
		m := sharerOf(t, s, "g", fmt.Sprint(i))
		all.Go(func() { got.Add(int64(len(m.offsets(1, 2*time.Second)))) })
	}
	all.Wait()
	if n := log.reads.Load(); n > 10*members || got.Load() != 0 {
		t.Errorf("%d members read the log %d times for %d records", members, n, got.Load())
	}
	for len(log.waits) > 0 {
		<-log.waits
	}
	for i := range members {
		m := sharerOf(t, s, "g", fmt.Sprint("again", i))
		all.Go(func() { got.Add(int64(len(m.offsets(1, time.Minute)))) })
	}
	for range members {
		<-log.waits
	}
	produce(t, within(t, time.Minute), client(t, s), "t", members)
	if all.Wait(); got.Load() != members {
		t.Errorf("%d members got %d records", members, got.Load())
	}
}

// What clients name is nothing that a group knows.
func TestShareOfNothingIsNotKept(t *testing.T) {
	s := shared(t, newMemLog(t), 1, map[string]groupConfig{"g": {}})
	m := sharerOf(t, s, "g", "m")
	real := m.topic
	m.topic = [16]byte{9}
	m.fetch(0, 0)
	m.acknowledge(true)
	m.topic, m.epoch = real, 0
	m.fetch(0, 0)
	if code := m.acknowledge(true, say(0, 0, share.Accept)); code != codeInvalidRecordState {
		t.Errorf("an acknowledgement of what was never given: %d", code)
	}
	if len(s.shares.groups) > 0 {
		t.Errorf("kept: %v", s.shares.groups)
	}
}

// Who waits for a topic gets nothing of another that was made under its name.
func TestShareTopicMadeAgain(t *testing.T) {
	log := watched(t)
	s := shared(t, log, 1, map[string]groupConfig{"g": {}})
	m := sharerOf(t, s, "g", "m")
	m.gets(given(0, 0, 1), 1, 0)
	done := make(chan kmsg.ShareFetchResponseTopicPartition)
	go func() { done <- m.fetch(9, time.Minute) }()
	<-log.waits
	adm := kadm.NewClient(client(t, s))
	if resp, err := adm.DeleteTopic(m.ctx, "t"); err != nil || resp.Err != nil {
		t.Fatal(err, resp.Err)
	}
	produce(t, m.ctx, client(t, s), "t", 3)
	if p := <-done; p.ErrorCode != codeUnknownTopicID || len(p.AcquiredRecords) > 0 {
		t.Errorf("code %d, %+v", p.ErrorCode, p.AcquiredRecords)
	}
}

// What a request was given is answered though the request is cut while it looks for more.
func TestShareRequestIsCut(t *testing.T) {
	log := watched(t)
	s := start(t, log, func(c *Config) { c.DefaultPartitions = 2 })
	s.tuned.put("g", groupConfig{ShareReset: resetEarliest})
	cl := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range int32(2) {
		if err := cl.ProduceSync(within(t, time.Minute), &kgo.Record{Topic: "t", Partition: p}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cut := context.WithCancel(t.Context())
	log.fail = func(r broker.FetchRange) error {
		if r.TP.Partition == 1 {
			cut()
		}
		return ctx.Err()
	}
	m := sharerOf(t, s, "g", "m")
	req := kmsg.NewPtrShareFetchRequest()
	req.Version, req.GroupID, req.MemberID, req.MaxRecords, req.MaxBytes = 2, &m.group, &m.id, 10, 1<<20
	req.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: m.topic, Partitions: []kmsg.ShareFetchRequestTopicPartition{{}, {Partition: 1}}}}
	resp, err := s.shareFetch(&request{ctx: ctx, version: 2, body: req, proof: &proof{}})
	if err != nil {
		t.Fatal(err)
	}
	if p := resp.(*kmsg.ShareFetchResponse).Topics[0].Partitions[0]; len(p.AcquiredRecords) != 1 || len(p.Records) == 0 {
		t.Errorf("answered: %+v", p)
	}
}

// An acknowledgement that changes nothing is not written; one that says twice what a partition is about is refused.
func TestShareAcknowledgesOnce(t *testing.T) {
	log := newMemLog(t)
	s := shared(t, log, 2, map[string]groupConfig{"g": {}})
	m := sharerOf(t, s, "g", "m")
	m.gets(given(0, 1, 1), 2, 0)
	m.takes(say(0, 0, share.Accept))
	end := func() record.Offset {
		b, err := log.Bounds(m.ctx, record.TopicPartition{Topic: ShareTopic})
		if err != nil {
			t.Fatal(err)
		}
		return b.End
	}
	was := end()
	m.takes()
	m.takes(say(0, 0, share.Accept))
	if now := end(); now != was {
		t.Errorf("%d records for nothing", now-was)
	}
	acks := []shareAcks{{key: shareKey{Topic: m.topic}}, {key: shareKey{Topic: m.topic, Partition: 1}}}
	if code, err := checkAcks(acks); err != nil || code != codeNone {
		t.Errorf("two partitions: %d %v", code, err)
	}
	if code, _ := checkAcks(append(acks, acks[0])); code != codeInvalidRequest {
		t.Errorf("a partition that stands twice: %d", code)
	}
	if code, _ := checkAcks(make([]shareAcks, maxSharePartitions+1)); code != codeInvalidRequest {
		t.Errorf("more than a session has: %d", code)
	}
}

// I8: a session has so many partitions at most, and forgets them in one go.
func TestShareSessionLimit(t *testing.T) {
	f := newShareSessions(&held{limit: 1 << 30})
	topics := []kmsg.ShareFetchRequestTopic{{}}
	forgotten := []kmsg.ShareFetchRequestForgottenTopicsData{{}}
	for p := range int32(maxSharePartitions) {
		topics[0].Partitions = append(topics[0].Partitions, kmsg.ShareFetchRequestTopicPartition{Partition: p})
		forgotten[0].Partitions = append(forgotten[0].Partitions, p, p+maxSharePartitions)
	}
	who, r := shareReader{"g", "m"}, &request{ctx: t.Context()}
	s, code := f.open(r, who, topics)
	if code != codeNone {
		t.Fatalf("as many as a session may have: %d", code)
	}
	more := []kmsg.ShareFetchRequestTopic{{Partitions: []kmsg.ShareFetchRequestTopicPartition{{Partition: maxSharePartitions}}}}
	if _, code := f.next(r, who, 1, more, nil); code != codeShareSessionLimit {
		t.Errorf("one more: %d", code)
	}
	was := f.kept.used.Load()
	if _, code := f.next(r, who, 1, nil, forgotten); code != codeNone || len(s.parts) > 0 || was-f.kept.used.Load() != sharePartCost*maxSharePartitions {
		t.Errorf("all are forgotten: %d, %d are there", code, len(s.parts))
	}
	if f.end(who); f.kept.used.Load() != 0 {
		t.Errorf("%d bytes of a session that is over", f.kept.used.Load())
	}
}

// I8: an answer without room is refused before anything is given.
func TestShareAnswerHasNoRoom(t *testing.T) {
	s := shared(t, newMemLog(t), 1, map[string]groupConfig{"g": {}})
	m := sharerOf(t, s, "g", "m")
	if err := s.answers.Acquire(m.ctx, s.cfg.answerMemory()); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrShareFetchRequest()
	req.Version, req.GroupID, req.MemberID, req.MaxRecords, req.MaxBytes = 2, &m.group, &m.id, 10, 1<<20
	req.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: m.topic, Partitions: make([]kmsg.ShareFetchRequestTopicPartition, 600)}}
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].Partition = int32(i)
	}
	if _, err := s.shareFetch(&request{ctx: m.ctx, version: 2, body: req, proof: &proof{}}); !errors.Is(err, errAnswerMemory) {
		t.Errorf("an answer about 600 partitions: %v", err)
	}
	g := &shareGiving{s: s, r: &request{ctx: m.ctx, made: smallAnswer}, who: shareReader{"g", "m"}, answer: &shareAnswer{}}
	if err := g.acquire(shareKey{Topic: m.topic}, nil, share.Read{To: 1}); !errors.Is(err, errAnswerMemory) {
		t.Errorf("records: %v", err)
	}
	s.answers.Release(s.cfg.answerMemory())
	m.gets(given(0, 0, 1), 1, 0)
}

// I8: what groups know has its share of memory. Without room nothing is given, and what a member has it can still decide.
func TestShareStateHasNoRoom(t *testing.T) {
	s := shared(t, newMemLog(t), 3, map[string]groupConfig{"g": {}})
	m := sharerOf(t, s, "g", "m")
	m.gets(given(0, 0, 1), 1, 0)
	other := sharerOf(t, s, "g", "other")
	other.fetch(0, 0)
	s.shares.kept.add(s.shares.kept.limit)
	p := other.fetch(1, 0)
	if other.code != 0 || p.ErrorCode != codeStorageError || len(p.AcquiredRecords) > 0 {
		t.Errorf("without room: %d, %+v", p.ErrorCode, p)
	}
	m.takes(say(0, 0, share.Accept))
	s.shares.kept.add(-s.shares.kept.limit)
	other.gets(given(1, 2, 1), 2, 0)
}
