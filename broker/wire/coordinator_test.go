package wire

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// testCoordinator runs in a synctest bubble: time stands still until everyone waits.
func testCoordinator(t *testing.T) *coordinator {
	cfg := Config{Log: newMemLog(t), Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	kept := &held{limit: cfg.stateMemory()}
	c := newCoordinator(cfg, newOffsetStore(cfg.Log, kept), kept)
	t.Cleanup(c.close)
	return c
}

func joinOf(member string) joinRequest {
	return joinRequest{
		group: "g", member: member, clientID: "c", session: 10 * time.Second, rebalance: 30 * time.Second,
		protocolType: "consumer", protocols: []protocol{{name: "range", metadata: []byte("t")}},
	}
}

// goJoin joins in the background.
func goJoin(t *testing.T, c *coordinator, r joinRequest) <-chan joinResult {
	out := make(chan joinResult, 1)
	go func() {
		res, err := c.join(t.Context(), r)
		if err != nil {
			t.Error(err)
		}
		out <- res
	}()
	synctest.Wait()
	return out
}

func syncOf(j joinResult, assignments ...kmsg.SyncGroupRequestGroupAssignment) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation, req.GroupAssignment = "g", j.member, j.generation, assignments
	return req
}

func beat(c *coordinator, j joinResult) int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = "g", j.member, j.generation
	return c.heartbeat(req)
}

// pair gives two members of one generation, the leader first.
func pair(t *testing.T, c *coordinator) (leader, follower joinResult) {
	t.Helper()
	a, b := goJoin(t, c, joinOf("")), goJoin(t, c, joinOf(""))
	leader, follower = <-a, <-b
	if leader.code != 0 || follower.code != 0 || leader.generation != 1 || follower.generation != 1 {
		t.Fatalf("joined %+v and %+v", leader, follower)
	}
	if follower.leader == follower.member {
		leader, follower = follower, leader
	}
	if len(leader.members) != 2 || len(follower.members) != 0 {
		t.Fatalf("the leader knows %d members, the follower %d", len(leader.members), len(follower.members))
	}
	return leader, follower
}

// Members that come while an empty group waits are in its first generation.
func TestGroupJoinDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { pair(t, testCoordinator(t)) })
}

// A leader that stays alive and never assigns is put out, and the follower is told to join again.
func TestGroupLeaderNeverSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCoordinator(t)
		leader, follower := pair(t, c)
		got := make(chan syncResult, 1)
		go func() {
			res, err := c.sync(t.Context(), syncOf(follower), func() {})
			if err != nil {
				t.Error(err)
			}
			got <- res
		}()
		for range 16 {
			<-time.After(2 * time.Second)
			beat(c, leader)
		}
		if res := <-got; res.code != codeRebalanceInProgress {
			t.Fatalf("the follower got %d", res.code)
		}
		if code := beat(c, leader); code != codeUnknownMemberID {
			t.Fatalf("the leader that never synced got %d", code)
		}
		again := <-goJoin(t, c, joinOf(follower.member))
		if again.code != 0 || again.leader != follower.member || again.generation != 2 {
			t.Fatalf("joined again as %+v", again)
		}
	})
}

// A member that lives on but does not join the rebalance is put out when its time is over; one that is silent
// is put out after its session.
func TestGroupRebalanceTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCoordinator(t)
		leader, follower := pair(t, c)
		as := kmsg.SyncGroupRequestGroupAssignment{MemberID: leader.member, MemberAssignment: []byte("all")}
		if res, err := c.sync(t.Context(), syncOf(leader, as), func() {}); err != nil || string(res.assignment) != "all" {
			t.Fatalf("sync: %+v %v", res, err)
		}
		if res, err := c.sync(t.Context(), syncOf(follower), func() {}); err != nil || res.code != 0 || len(res.assignment) != 0 {
			t.Fatalf("sync: %+v %v", res, err)
		}
		begin := time.Now()
		third := goJoin(t, c, joinOf(""))
		second := goJoin(t, c, joinOf(follower.member))
		for beat(c, leader) == codeRebalanceInProgress {
			<-time.After(time.Second)
		}
		if took := time.Since(begin); took < 29*time.Second || took > 32*time.Second {
			t.Fatalf("the rebalance took %v", took)
		}
		if a, b := <-second, <-third; a.generation != 2 || b.generation != 2 || a.code != 0 || b.code != 0 {
			t.Fatalf("%+v %+v", a, b)
		}
		<-time.After(time.Minute) // nobody says a word any more
		if d := c.describe("g", 5); d.State != string(stateDead) {
			t.Fatalf("the group is %s with %d members", d.State, len(d.Members))
		}
	})
}

// A join whose connection dies gives the place up after the session; ids that are never used are forgotten.
func TestGroupAbandonedJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCoordinator(t)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := c.join(ctx, joinOf(""))
			gone <- err
		}()
		synctest.Wait()
		r := joinOf("")
		r.requireID = true
		if res, err := c.join(t.Context(), r); err != nil || res.code != codeMemberIDRequired || res.member == "" {
			t.Fatalf("%+v %v", res, err)
		}
		cancel()
		if err := <-gone; err == nil {
			t.Fatal("a cancelled join gave an answer")
		}
		live := <-goJoin(t, c, joinOf(""))
		if live.code != 0 || len(live.members) != 1 {
			t.Fatalf("joined %+v", live)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.given != 0 || len(c.groups["g"].pending) != 0 {
			t.Fatalf("%d ids are still waited for", c.given)
		}
	})
}

// What does not fit the group is refused and changes nothing.
func TestGroupRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCoordinator(t)
		leader, _ := pair(t, c)
		for name, e := range map[string]struct {
			edit func(*joinRequest)
			want int16
		}{
			"protocol type": {func(r *joinRequest) { r.protocolType = "connect" }, codeInconsistentProtocol},
			"protocol":      {func(r *joinRequest) { r.protocols = []protocol{{name: "sticky"}} }, codeInconsistentProtocol},
			"no protocol":   {func(r *joinRequest) { r.protocols = nil }, codeInconsistentProtocol},
			"member":        {func(r *joinRequest) { r.member = "nobody" }, codeUnknownMemberID},
			"instance":      {func(r *joinRequest) { r.member, r.instance = leader.member, "nobody" }, codeUnknownMemberID},
			"session":       {func(r *joinRequest) { r.session = time.Hour }, codeInvalidSessionTimeout},
			"group":         {func(r *joinRequest) { r.group = "" }, codeInvalidGroupID},
		} {
			r := joinOf("")
			e.edit(&r)
			if res, err := c.join(t.Context(), r); err != nil || res.code != e.want {
				t.Errorf("%s: code %d %v, want %d", name, res.code, err, e.want)
			}
		}
		old := leader
		old.generation--
		if code := beat(c, old); code != codeIllegalGeneration {
			t.Errorf("heartbeat of an old generation: %d", code)
		}
		if res, err := c.sync(t.Context(), syncOf(old), func() {}); err != nil || res.code != codeIllegalGeneration {
			t.Errorf("sync of an old generation: %+v %v", res, err)
		}
		if code := c.mayCommit("g", leader.member, nil, leader.generation); code != codeRebalanceInProgress {
			t.Errorf("commit before the assignment: %d", code)
		}
		if code := beat(c, leader); code != 0 {
			t.Errorf("heartbeat of the leader: %d", code)
		}
	})
}
