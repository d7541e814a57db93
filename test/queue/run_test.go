package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
	"github.com/ledgerlake/ledgerlake/test/queue"
)

func TestMain(m *testing.M) { harness.Main(m) }

// The real binary is killed, and stopped for longer than a request may take, while producers, transactions and
// consumers run; segments are small and tiered at once, so that readers cross the seam. No fault of any kind is found
// (I1, I2, I3, I4). LEDGERLAKE_KILLS=100 makes a long run.
func TestKilledAndStopped(t *testing.T) {
	if os.Getenv("LEDGERLAKE_QUEUE") == "" {
		t.Skip("starts real processes for a minute or more: make queue")
	}
	seed := seedtest.New(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir, addr := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	flags := []string{"--topic", "q:3", "--format", "raw", "--flush-age", "200ms", "--segment-bytes", "131072", "--retention-bytes", "131072",
		"--retention-interval", "100ms", "--log-level", "warn"}
	s := harness.Serve(t, dir, addr, flags...)
	run := queue.Start(t.Context(), queue.Workload{Addr: addr, Topic: "q", Partitions: 3, Seed: seed, Producers: 4, Consumers: 3})
	for range harness.Kills(t, 8) {
		before := run.Acked()
		harness.Eventually(t, time.Minute, func() error {
			if n := run.Acked(); n < before+200 {
				return fmt.Errorf("%d records acknowledged, waiting for %d", n, before+200)
			}
			return nil
		})
		if rnd.IntN(3) == 0 {
			s.Pause(t)
			time.Sleep(time.Duration(1+rnd.IntN(6)) * time.Second)
			s.Resume(t)
			continue
		}
		time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
		s.Kill()
		s = harness.Serve(t, dir, addr, flags...)
	}
	judge(t, run, 4)
}

// judge ends a run, when it has committed as many transactions, aborted some and read on, and reports its faults.
func judge(t *testing.T, run *queue.Run, least int) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error { return run.Short(least, 1, 100) })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), harness.Patience)
	defer cancel()
	h, err := run.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[queue.Outcome]int{}
	for _, o := range h.Txns {
		outcomes[o]++
	}
	t.Logf("%d sends, transactions by outcome %v, %d polls while it ran, %d records in the end", len(h.Sends), outcomes, len(h.Polls), len(h.Final))
	if len(h.Final) < 100 {
		t.Error("too little is there: the test shows less than it says")
	}
	faults := queue.Check(h)
	for _, f := range faults[:min(len(faults), 20)] {
		t.Error(f)
	}
	if len(faults) > 20 {
		t.Errorf("and %d more", len(faults)-20)
	}
}
