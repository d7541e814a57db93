package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// reader plays a consumer that keeps a session by hand.
type reader struct {
	t       *testing.T
	s       *Server
	session int32
	epoch   int32
	version int16
}

func (c *reader) fetch(at map[int32]int64, forget ...int32) *kmsg.FetchResponse {
	c.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.SessionID, req.SessionEpoch, req.MaxBytes = c.session, c.epoch, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = "t"
	for p := range int32(10) {
		if offset, ok := at[p]; ok {
			fp := kmsg.NewFetchRequestTopicPartition()
			fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = p, offset, 1<<20
			t.Partitions = append(t.Partitions, fp)
		}
	}
	if len(at) > 0 {
		req.Topics = append(req.Topics, t)
	}
	if len(forget) > 0 {
		f := kmsg.NewFetchRequestForgottenTopic()
		f.Topic, f.Partitions = "t", forget
		req.ForgottenTopics = append(req.ForgottenTopics, f)
	}
	resp := handle(c.t, c.s, c.s.fetch, req, c.version).(*kmsg.FetchResponse)
	if c.epoch >= 0 && resp.ErrorCode == codeNone {
		c.epoch++
	}
	if resp.ErrorCode == codeNone {
		c.session = resp.SessionID
	}
	return resp
}

// partitions gives what an answer holds: the partitions and their number of bytes.
func partitionsOf(resp *kmsg.FetchResponse) map[int32]int {
	out := map[int32]int{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out[p.Partition] = len(p.RecordBatches)
		}
	}
	return out
}

func add(t *testing.T, log broker.Log, partition int32, value string) {
	t.Helper()
	b := record.NewBuilder(record.None)
	b.Append(1000, nil, []byte(value), nil)
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), record.TopicPartition{Topic: "t", Partition: partition}, raw); err != nil {
		t.Fatal(err)
	}
}

// KIP-227: full, incremental, changed, forgotten, ended; wrong ids and epochs.
func TestFetchSession(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(4)); err != nil {
		t.Fatal(err)
	}
	add(t, log, 1, "one")
	c := &reader{t: t, s: s, version: 11}
	resp := c.fetch(map[int32]int64{0: 0, 1: 0, 2: 0})
	if got := partitionsOf(resp); resp.SessionID == 0 || len(got) != 3 || got[1] == 0 {
		t.Fatalf("the first answer: session %d, %v", resp.SessionID, got)
	}
	if got := partitionsOf(c.fetch(map[int32]int64{1: 1})); len(got) != 0 {
		t.Fatalf("nothing has changed, and the answer has %v", got)
	}
	add(t, log, 2, "two")
	add(t, log, 3, "not asked for")
	if got := partitionsOf(c.fetch(nil)); len(got) != 1 || got[2] == 0 {
		t.Fatalf("partition 2 has changed, and the answer has %v", got)
	}
	if got := partitionsOf(c.fetch(map[int32]int64{3: 0}, 2)); len(got) != 1 || got[3] == 0 {
		t.Fatalf("3 is new and 2 forgotten: %v", got)
	}
	if _, err := log.DeleteRecords(t.Context(), record.TopicPartition{Topic: "t", Partition: 1}, 1); err != nil {
		t.Fatal(err)
	}
	if got := partitionsOf(c.fetch(map[int32]int64{3: 1})); len(got) != 1 || got[1] != 0 {
		t.Fatalf("the start of 1 has moved: %v", got)
	}
	// An error is told, again and again, and so is its end.
	for range 2 {
		if resp := c.fetch(map[int32]int64{0: 99}); len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != codeOffsetOutOfRange {
			t.Fatalf("an offset that is not there: %+v", resp)
		}
	}
	if got := partitionsOf(c.fetch(map[int32]int64{0: 0})); len(got) != 1 {
		t.Fatalf("the error is over: %v", got)
	}
	for name, other := range map[string]*reader{
		"no such session": {t: t, s: s, version: 11, session: c.session + 1, epoch: c.epoch},
		"old epoch":       {t: t, s: s, version: 11, session: c.session, epoch: c.epoch - 1},
		"by ids":          {t: t, s: s, version: 13, session: c.session, epoch: c.epoch},
	} {
		want := map[string]int16{"no such session": codeFetchSessionNotFound, "old epoch": codeInvalidFetchSessionEpoch, "by ids": codeFetchSessionTopicID}[name]
		if resp := other.fetch(nil); resp.ErrorCode != want || resp.SessionID != 0 {
			t.Errorf("%s: code %d, session %d", name, resp.ErrorCode, resp.SessionID)
		}
	}
	if got := partitionsOf(c.fetch(nil)); len(got) != 0 { // and none of that has harmed it
		t.Fatalf("%v", got)
	}
	c.epoch = epochNoSession
	if resp := c.fetch(map[int32]int64{0: 0}); resp.SessionID != 0 || len(s.sessions.byID) != 0 || s.sessions.kept.used.Load() != 0 {
		t.Fatalf("the session that was ended: id %d, %d sessions, %d bytes", resp.SessionID, len(s.sessions.byID), s.sessions.kept.used.Load())
	}
}

// Where an answer has no room for all partitions, all have their turn.
func TestFetchSessionIsFair(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.MaxFetchBytes = 100 })
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(5)); err != nil {
		t.Fatal(err)
	}
	at := map[int32]int64{}
	for p := range int32(5) {
		add(t, log, p, fmt.Sprint("value of ", p, " that fills an answer"))
		at[p] = 0
	}
	c, seen := &reader{t: t, s: s, version: 11}, map[int32]bool{}
	for range 5 {
		for p, n := range partitionsOf(c.fetch(at)) {
			seen[p] = seen[p] || n > 0
		}
		at = nil // nothing is read on: the same partitions could give the same again
	}
	for p := range int32(5) {
		if !seen[p] {
			t.Errorf("partition %d never had its turn: %v", p, seen)
		}
	}
}

// The cache has a bound; a session that was not used for a while makes room, one in use does not, and a session is
// its user's.
func TestFetchSessionCache(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	s.sessions.kept.limit = 2 * partCost(sessionKey{topic: "t"})
	now := time.Now()
	s.sessions.now = func() time.Time { return now }
	open := func() *reader {
		c := &reader{t: t, s: s, version: 11}
		c.fetch(map[int32]int64{0: 0})
		return c
	}
	a, b := open(), open()
	if c := open(); a.session == 0 || b.session == 0 || c.session != 0 {
		t.Fatalf("sessions %d, %d and, over the bound, %d", a.session, b.session, c.session)
	}
	now = now.Add(sessionRest)
	if resp := b.fetch(nil); resp.ErrorCode != codeNone {
		t.Fatal(resp.ErrorCode)
	}
	if c := open(); c.session == 0 {
		t.Fatal("a session at rest makes no room")
	}
	if resp := a.fetch(nil); resp.ErrorCode != codeFetchSessionNotFound {
		t.Fatalf("the one that made room: code %d", resp.ErrorCode)
	}
	req := kmsg.NewPtrFetchRequest()
	req.SessionID, req.SessionEpoch, req.Version = b.session, b.epoch, 11
	r := &request{ctx: t.Context(), version: 11, body: req, proof: &proof{principal: "User:eve"}}
	if resp, err := s.fetch(r); err != nil || resp.(*kmsg.FetchResponse).ErrorCode != codeFetchSessionNotFound {
		t.Fatalf("eve reads in another one's session: %+v %v", resp, err)
	}
}

// A real client reads many partitions through a session while they grow.
func TestFetchSessionOfClient(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.DefaultPartitions = 50 })
	ctx := within(t, 20*time.Second)
	p := client(t, s, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	produce(t, ctx, p, "t", 100)
	cl := client(t, s, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for range 5 {
		if got := consume(t, ctx, cl, 100); len(got) != 100 {
			t.Fatalf("%d records, want 100", len(got))
		}
		produce(t, ctx, p, "t", 100)
	}
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	for _, fs := range s.sessions.byID {
		if fs.epoch > 3 {
			return
		}
	}
	t.Errorf("the client used no session: %d", len(s.sessions.byID))
}
