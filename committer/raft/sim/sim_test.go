package sim

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/raft/publish"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// fewSeeds is how many seeds each run of the tests plays; `make sim` plays more.
const fewSeeds = 300

// play runs seeds from first on, on all cores, and gives the first failure.
func play(first uint64, n int, o options) (acked, refused int, failed error) {
	var next, ack, ref atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				o := o
				o.seed = first + uint64(i)
				w := newWorld(o)
				if err := w.run(); err != nil {
					mu.Lock()
					if failed == nil {
						failed = err
					}
					mu.Unlock()
					return
				}
				ack.Add(int64(w.check.acked))
				ref.Add(int64(w.check.refused))
			}
		})
	}
	wg.Wait()
	return int(ack.Load()), int(ref.Load()), failed
}

// I3 and I5 hold whatever nodes, log, store and writers do.
func TestSeeds(t *testing.T) {
	first, n := seedtest.Range(t, fewSeeds)
	acked, refused, err := play(first, n, options{})
	if err != nil {
		t.Fatalf("%v\nrun it again: LEDGERLAKE_SIM_TRACE=1 LEDGERLAKE_SEED=<seed> go test ./committer/raft/sim -run TestSeeds -v", err)
	}
	t.Logf("%d requests were acknowledged, %d refused", acked, refused)
	if n >= fewSeeds && (acked < 5*n || refused < n/10) {
		t.Errorf("%d acknowledged and %d refused requests in %d runs: the simulation does too little", acked, refused, n)
	}
}

// A run is its seed: the same events, whichever machine plays them.
func TestRunsAreRepeatable(t *testing.T) {
	seedtest.Each(t, 20, func(t *testing.T, seed uint64) {
		a, b := newWorld(options{seed: seed}), newWorld(options{seed: seed})
		errA, errB := a.run(), b.run()
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.steps != b.steps || a.now != b.now || a.store.newest != b.store.newest || len(a.group.log) != len(b.group.log) {
			t.Fatalf("%d and %d events", a.steps, b.steps)
		}
	})
}

// The checker finds what it is for: each safety step that is switched off is missed within some seeds.
func TestPlantedFaultsAreFound(t *testing.T) {
	for name, o := range map[string]options{
		"no epoch check":           {fsmPlant: fsm.NoEpochCheck},
		"no range check":           {fsmPlant: fsm.NoRangeCheck},
		"no read-back":             {publishPlan: publish.NoReadBack},
		"no finish on new leaders": {publishPlan: publish.NoFinish},
		"no check of plans":        {fsmPlant: fsm.NoPlanCheck},
		"put of an open version":   {publishPlan: publish.PutOpen},
		"a wait without a wake":    {publishPlan: publish.NoGatherWake},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := play(1, 2000, o)
			if err == nil {
				t.Fatal("2000 seeds did not find it")
			}
			t.Log(err)
		})
	}
}
