package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	commitWriters = 32
	commitWindow  = 5 * time.Second
	manyWriters   = 256
	commitFile    = 1 << 10 // bytes that each added file is said to have
)

// commitSide is one way to commit.
type commitSide struct {
	name    string
	writers int
	slow    bool // each put of a version is delayed
	early   bool // answers after the decision of the group, before the store
	nodes   int  // of the group; 0: direct
	run     func(ctx context.Context, s *commitStore, side commitSide, url string) (*commitResult, error)
}

// commitResult is what the writers of one side did within the window.
type commitResult struct {
	seconds   float64
	latencies []float64 // seconds, of each commit
	counts    []int     // by writer
	failover  time.Duration
	versions  int64
}

func (r *commitResult) commits() int {
	n := 0
	for _, c := range r.counts {
		n += c
	}
	return n
}

// percentile gives a quantile of the latencies.
func (r *commitResult) percentile(p float64) float64 {
	if len(r.latencies) == 0 {
		return math.Inf(1)
	}
	s := slices.Clone(r.latencies)
	slices.Sort(s)
	return s[min(len(s)-1, int(p*float64(len(s))))]
}

// RunCommitter measures how many small commits 32 writers of one table get through: through a group of committers,
// directly, and with delta-rs, on a folder and on an S3 server when there is one. A commit adds one file; the file itself
// is written by no side, since the store's rate of puts would be all that is seen. The log is checked after each run.
func RunCommitter(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	scratch, remove, err := cfg.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	r := &Report{Scenario: "committer", Machine: Machine(), Time: time.Now().UTC()}
	stores, closeStores, err := commitStores(ctx, r, scratch)
	if err != nil {
		return nil, err
	}
	defer closeStores()
	if err := knownCases(cfg, stores); err != nil {
		return nil, err
	}
	results := map[string][]*commitResult{}
	for round := range cfg.Rounds {
		for _, s := range stores {
			for _, side := range commitSides(s) {
				name := s.name + ": " + side.name
				if len(cfg.Cases) > 0 && !slices.Contains(cfg.Cases, name) {
					continue
				}
				at := s
				if side.slow {
					at = s.delayed
				}
				url := s.url(fmt.Sprintf("t%d-%s", round, uuid.NewString()))
				var res *commitResult
				sample, err := measure(name, round, func() (int64, int64, error) {
					var err error
					res, err = side.run(ctx, at, side, url)
					return 0, 0, err
				})
				if errors.Is(err, errNotInstalled) {
					r.missing(name)
					continue
				}
				if err != nil {
					return nil, err
				}
				sample.Seconds, sample.Records = res.seconds, int64(len(res.latencies)) // without the first of each writer
				r.Samples = append(r.Samples, sample)
				results[name] = append(results[name], res)
			}
		}
	}
	for _, s := range stores {
		if s.lock {
			lockGoals(r, s.name+": ")
		} else {
			commitGoals(r, s.name+": ", results)
		}
	}
	return r, nil
}

// knownCases refuses a case that no store has.
func knownCases(cfg Config, stores []*commitStore) error {
	var names []string
	for _, s := range stores {
		for _, side := range commitSides(s) {
			names = append(names, s.name+": "+side.name)
		}
	}
	for _, c := range cfg.Cases {
		if !slices.Contains(names, c) {
			return fmt.Errorf("bench: no case %q; there are %s", c, strings.Join(names, ", "))
		}
	}
	return nil
}

func commitSides(s *commitStore) []commitSide {
	if s.lock {
		return []commitSide{
			{name: "delta-rs 0.25.5", writers: commitWriters, run: runDeltaRS},
			{name: "direct", writers: commitWriters, run: runOurs},
			{name: "group of 3", writers: commitWriters, nodes: 3, run: runOurs},
		}
	}
	sides := []commitSide{
		{name: "delta-rs", writers: commitWriters, run: runDeltaRS},
		{name: "direct", writers: commitWriters, run: runOurs},
		{name: "group of 1", writers: commitWriters, nodes: 1, run: runOurs},
		{name: "group of 3", writers: commitWriters, nodes: 3, run: runOurs},
	}
	if s.delayed == nil {
		return sides
	}
	sides = append(sides,
		commitSide{name: "group of 3, 1 writer", writers: 1, nodes: 3, run: runOurs},
		commitSide{name: "group of 3, 256 writers", writers: manyWriters, nodes: 3, run: runOurs},
		commitSide{name: "group of 3, early answers", writers: commitWriters, nodes: 3, early: true, run: runOurs},
		commitSide{name: "group of 3, 256 writers, early answers", writers: manyWriters, nodes: 3, early: true, run: runOurs})
	for _, x := range slices.Clone(sides) {
		if x.name != "group of 1" && x.writers > 1 {
			x.name, x.slow = x.name+slowly, true
			sides = append(sides, x)
		}
	}
	return sides
}

// slowly ends the names of the sides whose store is slow.
const slowly = ", 30 ms more a put"

// lockGoals compares the group, which needs no lock table, with both users of one. The group before the same lock table
// is for information: it is how a table is shared with writers that need it.
func lockGoals(r *Report, prefix string) {
	rate := func(name string) float64 {
		return r.median(name, func(s Sample) float64 { return float64(s.Records) / s.Seconds })
	}
	group := rate("versitygw: group of 3")
	for _, name := range []string{"delta-rs 0.25.5", "direct"} {
		if base := rate(prefix + name); base > 0 && group > 0 {
			r.atLeast("commits a second, versitygw: group of 3 / "+prefix+name, 100, group/base)
		}
	}
}

// commitGoals states the goals with what was measured.
func commitGoals(r *Report, prefix string, results map[string][]*commitResult) {
	rate := func(name string) float64 {
		return r.median(prefix+name, func(s Sample) float64 { return float64(s.Records) / s.Seconds })
	}
	worst := func(name string, f func(*commitResult) float64) float64 {
		w := 0.0
		for _, x := range results[prefix+name] {
			w = max(w, f(x))
		}
		return w
	}
	ratio := func(text string, want float64, of, base float64) { // what was not measured has no goal
		if of > 0 && base > 0 {
			r.atLeast(prefix+text, want, of/base)
		}
	}
	group, direct := rate("group of 3"), rate("direct")
	ratio("commits a second, group of 3 / delta-rs", 100, group, rate("delta-rs"))
	ratio("commits a second, group of 3 / direct", 20, group, direct)
	ratio("commits a second, group of 3, 32 writers / 1 writer", 1, group, rate("group of 3, 1 writer"))
	ratio("commits a second, group of 3, 256 writers / 32 writers", 1, rate("group of 3, 256 writers"), group)
	ratio("the same with 30 ms more a put", 1, rate("group of 3, 256 writers"+slowly), rate("group of 3"+slowly))
	// Does the gap grow with the time of a put? Writers that wait for the store cannot be faster than one version a put
	// with a request of each in it; those that wait for the group alone, or are more, show what the store does not hold up.
	for _, name := range []string{"group of 3", "group of 3, early answers", "group of 3, 256 writers", "group of 3, 256 writers, early answers"} {
		for _, peer := range []struct {
			name string
			want float64
		}{{"delta-rs", 100}, {"direct", 20}} {
			of, base := rate(name+slowly), rate(peer.name+slowly)
			ratio("commits a second, 30 ms more a put, "+name+" / "+peer.name, peer.want, of, base)
			ratio("the same by that without the 30 ms", 1, of*rate(peer.name), base*rate(name))
		}
	}
	ratio("commits a second, group of 3, early answers, 30 ms more a put / without", 0.9, rate("group of 3, early answers"+slowly), rate("group of 3, early answers"))
	if group == 0 {
		return
	}
	r.atMost(prefix+"p99 of group of 3 at most, seconds", 1, worst("group of 3", func(x *commitResult) float64 { return x.percentile(0.99) }))
	r.atMost(prefix+"most commits of a writer / fewest, group of 3, at most", 2, worst("group of 3", func(x *commitResult) float64 {
		return float64(slices.Max(x.counts)) / max(float64(slices.Min(x.counts)), 0.1)
	}))
	r.atMost(prefix+"leader lost to next publication at most, seconds", 2, worst("group of 3", func(x *commitResult) float64 { return x.failover.Seconds() }))
}

// drive lets the writers commit for the window, one commit after the other each.
func drive(ctx context.Context, writers []committer.Committer, early bool) (*commitResult, error) {
	res := &commitResult{counts: make([]int, len(writers))}
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make([]error, len(writers))
	begin := make(chan struct{})
	var start time.Time
	ready := sync.WaitGroup{}
	ready.Add(len(writers))
	for i, w := range writers {
		wg.Go(func() {
			commit := func() error { return commitOne(ctx, w, i, res.counts[i], early) }
			errs[i] = commit() // opens connections and takes leases
			res.counts[i]++
			ready.Done()
			<-begin
			for errs[i] == nil && time.Since(start) < commitWindow {
				t := time.Now()
				if errs[i] = commit(); errs[i] != nil {
					return
				}
				res.counts[i]++
				mu.Lock()
				res.latencies = append(res.latencies, time.Since(t).Seconds())
				mu.Unlock()
			}
		})
	}
	ready.Wait()
	start = time.Now()
	close(begin)
	wg.Wait()
	res.seconds = time.Since(start).Seconds()
	return res, errors.Join(errs...)
}

// commitOne makes the n-th commit of a writer.
func commitOne(ctx context.Context, c committer.Committer, writer, n int, early bool) error {
	name := fmt.Sprintf("w%d-%d.parquet", writer, n)
	at := record.Offset(n) * 10
	_, err := c.Commit(ctx, committer.Request{App: "bench", Ranges: []committer.Range{{Partition: int32(writer), From: at, To: at + 10}},
		Adds: []deltalog.Add{{Path: name, Size: commitFile, ModificationTime: time.Now().UnixMilli(), DataChange: true, Stats: `{"numRecords":10}`}}, Early: early})
	return err
}

// checkCommits reads the table that the writers left: each file once, each position where its writer stopped.
func checkCommits(ctx context.Context, store objstore.Store, res *commitResult) error {
	log, err := deltalog.Open(ctx, store, deltalog.Config{})
	if err != nil {
		return err
	}
	defer log.Close()
	snap, err := log.Snapshot(ctx)
	if err != nil {
		return err
	}
	res.versions = int64(snap.Version())
	if snap.NumFiles() != res.commits() {
		return fmt.Errorf("wrong result: %d files in the table, %d commits were acknowledged", snap.NumFiles(), res.commits())
	}
	for i, n := range res.counts {
		if v, ok := snap.Txn(fmt.Sprintf("bench-%d", i)); ok && v != int64(n)*10-1 {
			return fmt.Errorf("wrong result: writer %d stands at %d after %d commits", i, v+1, n)
		}
	}
	return nil
}

func scratchNode(dir string, i int) string { return filepath.Join(dir, fmt.Sprint("node", i)) }
