package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// I8: what is refused leaves nothing behind, neither a group nor an id nor memory.
func TestGroupRefusedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCoordinator(t)
		c.given = maxPending
		for i := range 100 {
			r := joinOf("")
			r.group, r.requireID = fmt.Sprintf("invented-%d", i), true
			if res, err := c.join(t.Context(), r); err != nil || res.code != codeGroupMaxSize {
				t.Fatalf("join %d: %+v %v", i, res, err)
			}
		}
		if n, kept := groupsOf(c), c.kept.used.Load(); n != 0 || kept != 0 {
			t.Fatalf("%d groups and %d bytes stay of refused joins", n, kept)
		}
		c.given = 0
		r := joinOf("")
		r.group, r.requireID = "waits", true
		if res, err := c.join(t.Context(), r); err != nil || res.code != codeMemberIDRequired || groupsOf(c) != 1 {
			t.Fatalf("an id that was given has no group: %+v %v", res, err)
		}
		<-time.After(time.Minute)
		if n, kept := groupsOf(c), c.kept.used.Load(); n != 0 || kept != 0 || givenOf(c) != 0 {
			t.Fatalf("%d groups, %d bytes, %d ids stay after the session", n, kept, givenOf(c))
		}
	})
}

func groupsOf(c *coordinator) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.groups)
}

func givenOf(c *coordinator) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.given
}

// I8: what members say of themselves and what they are assigned counts, is refused beyond the budget, and is
// given back when they are gone.
func TestGroupMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCoordinator(t)
		c.kept.limit = 1 << 20
		big := joinOf("")
		big.protocols = []protocol{{name: "range", metadata: make([]byte, 300<<10)}}
		var waits []<-chan joinResult
		for i := range 5 {
			big.group = fmt.Sprintf("g%d", i)
			waits = append(waits, goJoin(t, c, big))
		}
		for i, w := range waits {
			want := codeNone
			if i >= 3 {
				want = codeCoordinatorNotAvailable
			}
			if res := <-w; res.code != want {
				t.Errorf("join %d: code %d, want %d", i, res.code, want)
			}
		}
		if n, used := groupsOf(c), c.kept.used.Load(); n != 3 || used > c.kept.limit || used < 900<<10 {
			t.Fatalf("%d groups, %d bytes of %d", n, used, c.kept.limit)
		}
		leader := <-goJoin(t, c, joinOf(""))
		as := kmsg.SyncGroupRequestGroupAssignment{MemberID: leader.member, MemberAssignment: make([]byte, 300<<10)}
		if res, err := c.sync(t.Context(), syncOf(leader, as), func() {}); err != nil || res.code != codeCoordinatorNotAvailable {
			t.Errorf("an assignment beyond the budget: %+v %v", res.code, err)
		}
		as.MemberAssignment = []byte("small")
		if res, err := c.sync(t.Context(), syncOf(leader, as), func() {}); err != nil || string(res.assignment) != "small" {
			t.Errorf("a small assignment: %+v %v", res, err)
		}
		<-time.After(time.Hour)
		if n, used := groupsOf(c), c.kept.used.Load(); n != 0 || used != 0 {
			t.Fatalf("%d groups and %d bytes stay when all are gone", n, used)
		}
	})
}

// I8: positions of invented groups end at the budget; what was committed before stays and can be changed, and
// comes back after a restart.
func TestPositionsMemory(t *testing.T) {
	ctx := within(t, 20*time.Second)
	log := newMemLog(t)
	kept := &held{limit: 1 << 20}
	o := newOffsetStore(log, kept)
	tp := record.TopicPartition{Topic: "t"}
	n := 0
	for ; n < 10_000; n++ {
		err := o.commit(ctx, fmt.Sprintf("invented-%d", n), map[record.TopicPartition]*committed{tp: {metadata: strings.Repeat("m", 4096)}})
		if errors.Is(err, errNoMemory) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if used := kept.used.Load(); n < 100 || n > 256 || used > kept.limit {
		t.Fatalf("%d groups fit into %d bytes, %d used", n, kept.limit, used)
	}
	if err := o.forget(ctx, "invented-1"); err != nil {
		t.Fatal(err)
	}
	if err := o.commit(ctx, "invented-0", map[record.TopicPartition]*committed{tp: {offset: 7}}); err != nil {
		t.Fatal(err)
	}
	again := newOffsetStore(log, &held{})
	if err := again.load(ctx); err != nil {
		t.Fatal(err)
	}
	if c, _ := again.get("invented-0", tp); len(again.names()) != n-1 || c.offset != 7 || again.kept.used.Load() != kept.used.Load() {
		t.Fatalf("after a restart: %d groups, position %d, %d bytes, were %d", len(again.names()), c.offset, again.kept.used.Load(), kept.used.Load())
	}
	for _, g := range o.names() {
		if err := o.forget(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	if used := kept.used.Load(); used != 0 {
		t.Fatalf("%d bytes stay", used)
	}
}

// Positions of a group that is gone expire; those of a living one do not, even when nothing is committed and
// the server starts again; and a newer commit is not overwritten.
func TestPositionsExpire(t *testing.T) {
	ctx := within(t, 20*time.Second)
	log := newMemLog(t)
	const keep = 14 * time.Hour
	tp := record.TopicPartition{Topic: "t"}
	load := func() *offsetStore {
		o := newOffsetStore(log, &held{limit: 1 << 20})
		if err := o.load(ctx); err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := load()
	for _, g := range []string{"gone", "living"} {
		if err := o.commit(ctx, g, map[record.TopicPartition]*committed{tp: {offset: 5}}); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	alive := func(g string) bool { return g == "living" }
	step := func(d time.Duration) {
		t.Helper()
		now = now.Add(d)
		if err := o.expire(ctx, now, keep, alive); err != nil {
			t.Fatal(err)
		}
	}
	for range 14 {
		step(time.Hour)
	}
	if !o.has("gone") || !o.has("living") {
		t.Fatalf("expired too early: %v are left", o.names())
	}
	for range 2 {
		step(time.Hour)
	}
	o = load()
	if o.has("gone") || !o.has("living") {
		t.Fatalf("after %v: %v", 16*time.Hour, o.names())
	}
	alive = func(string) bool { return false } // nobody comes back after the restart
	step(keep - 2*time.Hour)
	if c, ok := o.get("living", tp); !ok || c.offset != 5 {
		t.Fatalf("a group that lived until the restart: %+v %v", c, ok)
	}
	step(4 * time.Hour)
	if o.has("living") {
		t.Fatal("it never expires")
	}
}

// slowHistory counts the reads at the same time.
type slowHistory struct {
	fakeHistory
	mu      sync.Mutex
	running int
	most    int
	began   chan struct{}
	end     chan struct{}
}

func (h *slowHistory) Fetch(ctx context.Context, tp record.TopicPartition, from record.Offset, maxBytes int) ([]byte, record.Offset, error) {
	h.mu.Lock()
	h.running++
	h.most = max(h.most, h.running)
	h.mu.Unlock()
	h.began <- struct{}{}
	<-h.end
	h.mu.Lock()
	h.running--
	h.mu.Unlock()
	return h.fakeHistory.Fetch(ctx, tp, from, maxBytes)
}

// I8: reads of the history wait for memory instead of taking it all at once.
func TestHistoryMemory(t *testing.T) {
	log := newMemLog(t)
	h := &slowHistory{began: make(chan struct{}, 100), end: make(chan struct{})}
	s := start(t, log, func(c *Config) {
		c.History, c.DefaultPartitions, c.MaxRequestBytes, c.MaxFetchBytes = h, 1, 1<<20, 1<<20
		c.MemoryBudget = 200 << 20 // 75 MiB for answers: two reads of 33
	})
	ctx := within(t, 20*time.Second)
	produce(t, ctx, client(t, s), "t", 60)
	if _, err := log.DeleteRecords(ctx, record.TopicPartition{Topic: "t"}, 35); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 12 {
		nc := dial(t, s)
		wg.Go(func() {
			req := kmsg.NewPtrFetchRequest()
			req.MaxBytes = 1 << 20
			ft := kmsg.NewFetchRequestTopic()
			ft.Topic = "t"
			fp := kmsg.NewFetchRequestTopicPartition()
			fp.FetchOffset, fp.PartitionMaxBytes = 5, 1<<20
			ft.Partitions = append(ft.Partitions, fp)
			req.Topics = append(req.Topics, ft)
			if _, err := nc.Write(frameOf(req, 11, 1)); err != nil {
				t.Error(err)
			}
			_, body := readAnswer(t, nc)
			resp := kmsg.NewPtrFetchResponse()
			resp.Version = 11
			if err := resp.ReadFrom(body); err != nil || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
				t.Errorf("fetch from history: %+v %v", resp, err)
			}
		})
	}
	for range 12 {
		<-h.began
		h.end <- struct{}{}
	}
	wg.Wait()
	if h.most < 1 || h.most > 2 {
		t.Fatalf("%d reads of the history at the same time, want at most 2", h.most)
	}
	waitRelease(t, s)
}

// waitRelease waits until all memory of answers is given back.
func waitRelease(t *testing.T, s *Server) {
	t.Helper()
	if err := s.answers.Acquire(within(t, 5*time.Second), s.cfg.answerMemory()); err != nil {
		t.Fatal("memory of answers is not given back")
	}
	s.answers.Release(s.cfg.answerMemory())
}

// A Log that fails is no reason to tell a client that its topic is unknown: coordinators say "try again", and
// so do all others.
func TestLogFailureIsRetriable(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	s.topics.maxAge = 0
	ctx := within(t, 20*time.Second)
	info, err := log.CreateTopic(ctx, "t", topicOf(1))
	if err != nil {
		t.Fatal(err)
	}
	tp := record.TopicPartition{Topic: "t"}
	if err := s.offsets.commit(ctx, "g", map[record.TopicPartition]*committed{tp: {offset: 1}}); err != nil {
		t.Fatal(err)
	}
	log.mu.Lock()
	log.fail = fmt.Errorf("read topics: %w", broker.ErrStorage)
	log.mu.Unlock()
	for _, version := range []int16{9, 10} {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = "g", -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = "t", info.ID
		rt.Partitions = append(rt.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
		if got := handle(t, s, s.offsetCommit, req, version).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; got != codeCoordinatorNotAvailable {
			t.Errorf("OffsetCommit version %d: code %d", version, got)
		}
	}
	for _, named := range []bool{true, false} {
		req := kmsg.NewPtrOffsetFetchRequest()
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = "g"
		if named {
			rt := kmsg.NewOffsetFetchRequestGroupTopic()
			rt.TopicID, rt.Partitions = info.ID, []int32{0}
			rg.Topics = append(rg.Topics, rt)
		}
		req.Groups = append(req.Groups, rg)
		if got := handle(t, s, s.offsetFetch, req, 10).(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode; got != codeCoordinatorNotAvailable {
			t.Errorf("OffsetFetch, topic named %v: code %d", named, got)
		}
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = "t", 1, 1
	create.Topics, create.ValidateOnly = append(create.Topics, ct), true
	if got := handle(t, s, s.createTopics, create, 7).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; got != codeStorageError {
		t.Errorf("CreateTopics, dry: code %d", got)
	}
	md := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = ptr("t")
	md.Topics = append(md.Topics, mt)
	if got := handle(t, s, s.metadata, md, 12).(*kmsg.MetadataResponse).Topics[0].ErrorCode; got != codeStorageError {
		t.Errorf("Metadata: code %d", got)
	}
}

// handle calls a handler without a connection.
func handle(t *testing.T, s *Server, h func(*request) (kmsg.Response, error), req kmsg.Request, version int16) kmsg.Response {
	t.Helper()
	req.SetVersion(version)
	resp, err := h(&request{ctx: t.Context(), host: "127.0.0.1", proof: &proof{principal: anonymous}, local: "127.0.0.1", clientID: "c", version: version, body: req})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Compaction may leave nothing at the end of an internal topic: what is before it is loaded.
func TestStateTopicEndsInHole(t *testing.T) {
	ctx := within(t, 10*time.Second)
	log := newMemLog(t)
	open := func() *offsetStore {
		o := newOffsetStore(log, &held{limit: 1 << 20})
		if err := o.load(ctx); err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := open()
	for _, g := range []string{"stays", "gone"} {
		if err := o.commit(ctx, g, map[record.TopicPartition]*committed{tp0: {offset: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.forget(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	log.mu.Lock()
	p := log.topics[OffsetsTopic].parts[0]
	p.batches = p.batches[:1]
	log.mu.Unlock()
	if names := open().names(); len(names) != 1 || names[0] != "stays" {
		t.Fatalf("loaded %v", names)
	}
}
