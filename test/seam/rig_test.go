package seam

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/openstore"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// rig is one run: readers and upkeep beside a log and what moves it into a table.
type rig struct {
	t       *testing.T
	seed    uint64
	weather *weather
	table   string // its URL
	topic   string
	// source opens the log for a reader of the table.
	source func(ctx context.Context, t *table.Table) (broker.Source, func() error, error)
	kafka  string // address of a server that answers from table and log; empty: none
	reads  int    // that the run is there for

	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu        sync.Mutex
	histories []*history
	count     counts
	failed    error
	faults    map[string]int // errors that readers went on after, by text
}

// counts say what a run has seen.
type counts struct {
	reads, places, inLake, inLog, crossed, resumed, rows, overKafka int // places: of each partition that a read began in
	merged, deleted                                                 int // files, by upkeep
}

// newRig has a table on an S3 server in bad weather.
func newRig(t *testing.T, topic string) *rig {
	s3 := harness.S3(t)
	r := &rig{t: t, seed: seedtest.New(t), topic: topic, faults: map[string]int{}}
	r.weather = newWeather(t, s3.Endpoint, r.seed)
	t.Setenv("AWS_ENDPOINT_URL", r.weather.URL)
	r.table = "s3://" + s3.Bucket + "/tables/events"
	return r
}

// storeFlags are those of the binary.
func (r *rig) storeFlags() []string { return []string{"--s3-endpoint", r.weather.URL} }

func (r *rig) openStore(ctx context.Context, url string) (objstore.Store, error) {
	return openstore.Open(ctx, url, openstore.Options{S3Endpoint: r.weather.URL, S3PathStyle: true})
}

func (r *rig) openTable(ctx context.Context) (*table.Table, error) {
	store, err := r.openStore(ctx, r.table)
	if err != nil {
		return nil, err
	}
	return table.Open(ctx, store, table.Config{Topic: r.topic})
}

// start begins readers and upkeep. The table must be there. A reader mostly waits, for the store or for records: a run of
// more reads has more of them, so that it takes minutes.
func (r *rig) start(readers int) {
	r.reads = harness.Number(r.t, "LEDGERLAKE_READS", 200)
	readers = max(readers, min(r.reads/100, 32))
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	r.stop = cancel
	r.t.Cleanup(func() { cancel(); r.tasks.Wait() })
	for i := range readers {
		r.tasks.Go(func() { r.fail(r.reader(ctx, rand.New(rand.NewPCG(r.seed, uint64(100+i))))) })
	}
	r.tasks.Go(func() { r.fail(r.upkeep(ctx)) })
}

func (r *rig) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
}

// await waits until the counts are as they shall be. It waits long: what fails here is a run that stands still.
func (r *rig) await(what string, enough func(c counts) bool) {
	r.t.Helper()
	harness.Eventually(r.t, 10*time.Minute, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.failed != nil {
			r.t.Fatal(r.failed)
		}
		if enough(r.count) {
			return nil
		}
		return fmt.Errorf("%s: %+v; errors that readers went on after: %v", what, r.count, r.faults)
	})
}

// play kills and reads in turn, and ends when all has happened that the run is there for.
func (r *rig) play(kills int, kill func(n int)) {
	r.t.Helper()
	reads := r.reads
	for n := range kills {
		r.await("before a kill", func(c counts) bool { return c.reads >= (n+1)*reads/(kills+1) })
		r.t.Logf("disturbance %d of %d, after %d reads", n+1, kills, (n+1)*reads/(kills+1))
		kill(n)
	}
	r.await("at the end", func(c counts) bool {
		return c.reads >= reads && c.crossed >= 3 && c.inLog >= reads/10 && c.inLake >= reads/10 && c.merged > 0 && c.deleted > 0
	})
}

// rest ends readers and upkeep, and the bad weather.
func (r *rig) rest() {
	r.t.Helper()
	r.stop()
	r.tasks.Wait()
	if r.failed != nil {
		r.t.Fatal(r.failed)
	}
	r.t.Log(r.weather.clear())
	r.noLeases()
}

// noLeases fails when leases outlive their reads, which are all over: they would keep files that nobody reads (I6). An outage
// that is longer than the patience of who gives one back may leave a few.
func (r *rig) noLeases() {
	r.t.Helper()
	t, err := r.openTable(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	defer t.Close()
	left, err := t.Leases(r.t.Context(), time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	if r.t.Logf("%d leases outlived their reads", len(left)); len(left) > r.count.reads/50 {
		r.t.Errorf("%d leases are left of %d reads, such as %s", len(left), r.count.reads, left[0])
	}
}

// judge compares all that was read with the truth (I4).
func (r *rig) judge(known truth) {
	r.t.Helper()
	bad := 0
	for _, h := range r.histories {
		if err := h.judge(known); err != nil {
			if bad++; bad <= 5 {
				r.t.Error(err)
			}
		}
	}
	c := r.count
	r.t.Logf("%d reads from %d random places (%d began in the table, %d in the log, %d crossed the seam, %d went over the Kafka protocol, %d went on from a token), %d records compared with %d in the log: %d reads differ",
		c.reads, c.places, c.inLake, c.inLog, c.crossed, c.overKafka, c.resumed, c.rows, len(known), bad)
	r.t.Logf("upkeep beside them: %d files merged, %d deleted; %d errors that readers or upkeep went on after, such as %.200q",
		c.merged, c.deleted, total(r.faults), firstOf(r.faults))
}

func total(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func firstOf(m map[string]int) string {
	if len(m) == 0 {
		return ""
	}
	return slices.Sorted(maps.Keys(m))[0]
}

// upkeep merges files and deletes at once what no version and no lease needs, each time that the table has grown. What the weather spoils is done again.
func (r *rig) upkeep(ctx context.Context) error {
	var last deltalog.Version = -1
	tick := time.NewTicker(100 * time.Millisecond) // between looks at a store that others write
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		t, err := r.openTable(ctx)
		if err != nil {
			continue
		}
		snap, err := t.Log.Snapshot(ctx)
		if err == nil && snap.Version() > last {
			last = snap.Version()
			merged, err1 := maintenance.Optimize(ctx, t, maintenance.OptimizeOptions{MinFiles: 3})
			// The clock is ahead, so that what was written a moment ago is old.
			ahead := func() time.Time { return time.Now().Add(2 * time.Second) }
			gone, err2 := maintenance.Vacuum(ctx, t, maintenance.VacuumOptions{Zero: true, Force: true, OrphanAge: time.Hour, Clock: ahead})
			r.mu.Lock()
			r.count.merged += int(merged.Removed.Files)
			r.count.deleted += int(gone.Deleted.Files)
			for _, err := range []error{err1, err2} {
				if err != nil && ctx.Err() == nil {
					r.faults["upkeep: "+cause(err)]++
				}
			}
			r.mu.Unlock()
		}
		_ = t.Close()
	}
}

// cause is the innermost error's text, short enough to count by.
func cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("%.100s", err)
		}
		err = inner
	}
}
