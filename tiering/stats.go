package tiering

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// Stats are the counters of a Tierer. They count what is committed.
type Stats struct {
	Records      int64 // rows and dead letters
	Rows         int64
	Bytes        int64 // of keys and values
	DeadLetters  int64
	Filtered     int64 // records that the filter left out
	Commits      int64
	Lost         int64            // offsets that retention dropped before they were tiered
	Restarts     int64            // sessions that ended early
	Conflicts    int64            // commits that came too late: another process or change of the table was first
	Retries      int64            // fetches, commits and dead letters that failed and were tried again
	Files        int64            // data files committed
	FileBytes    int64            // of them, compressed
	Discarded    int64            // data files that were written and not committed, and are deleted
	Orphans      int64            // those that could not be deleted, or may be committed after all: vacuum sees to them
	InFlight     int64            // bytes of batches between source and decoders now
	Budget       int64            // the most that they may be
	PeakInFlight int64            // the most bytes of batches between source and decoders, of sessions that have ended
	CommitTime   time.Duration    // upload and commit, of all commits
	UploadTime   time.Duration    // of it, the upload
	Version      deltalog.Version // of the last commit; -1 when there was none
	Lag          map[int32]int64  // offsets below the last stable one that are not in the table yet
	LakeEnd      map[int32]record.Offset
	// Behind is how old the newest record in the table is, of partitions with a lag: by the producers' clocks. Before
	// the first commit it is the first record that was fetched.
	Behind map[int32]time.Duration
}

type counters struct {
	mu     sync.Mutex
	s      Stats
	stable map[int32]record.Offset
	times  map[int32]int64 // ms, of the newest record in the table, else of the first that was fetched
	budget *budget         // of the session; nil before the first
	clock  func() time.Time

	uploads, commits prometheus.Histogram
}

func newCounters(clock func() time.Time) *counters {
	return &counters{s: Stats{Version: -1, LakeEnd: map[int32]record.Offset{}}, stable: map[int32]record.Offset{},
		times: map[int32]int64{}, clock: clock}
}

// fetched remembers the time of the first record of a partition.
func (c *counters) fetched(partition int32, ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.times[partition]; !known && ms > 0 {
		c.times[partition] = ms
	}
}

func (c *counters) conflicted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Conflicts++
}

func (c *counters) retried() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Retries++
}

// unused counts data files that no commit has: those that are deleted, and those that stay.
func (c *counters) unused(deleted, left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Discarded += int64(deleted)
	c.s.Orphans += int64(left)
}

func (c *counters) uploaded(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.UploadTime += took
	c.uploads.Observe(took.Seconds())
}

// began is for a new session, which joins its partitions anew.
func (c *counters) began(b *budget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget = b
	clear(c.s.LakeEnd)
}

// left forgets a partition: its lag is another process's now.
func (c *counters) left(partition int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.s.LakeEnd, partition)
	delete(c.times, partition)
}

func (c *counters) joined(partition int32, next record.Offset, b broker.Bounds) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.LakeEnd[partition] = next
	c.stable[partition] = b.Stable
}

func (c *counters) bounds(partition int32, b broker.Bounds) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stable[partition] = b.Stable
}

func (c *counters) lost(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Lost += n
}

func (c *counters) inFlight(peak int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.PeakInFlight = max(c.s.PeakInFlight, peak)
}

func (c *counters) restarted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Restarts++
}

func (c *counters) committed(o *output, adds []deltalog.Add, v deltalog.Version, took, commit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits.Observe(commit.Seconds())
	c.s.Commits++
	c.s.Files += int64(len(adds))
	for i := range adds {
		c.s.FileBytes += adds[i].Size
	}
	for p, ms := range o.times {
		c.times[p] = max(c.times[p], ms)
	}
	c.s.Records += o.records
	c.s.Rows += o.rows
	c.s.Bytes += o.bytes
	c.s.DeadLetters += int64(len(o.dead))
	c.s.Filtered += o.filtered
	c.s.CommitTime += took
	c.s.Version = max(c.s.Version, v)
	for _, r := range o.ranges {
		c.s.LakeEnd[r.Partition] = r.To
	}
}

// Stats gives the counters as they are now.
func (t *Tierer) Stats() Stats {
	c := t.stats
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.s
	s.LakeEnd = maps.Clone(c.s.LakeEnd)
	s.Lag = make(map[int32]int64, len(s.LakeEnd))
	s.Behind = make(map[int32]time.Duration, len(s.LakeEnd))
	now := c.clock()
	for p, end := range s.LakeEnd {
		s.Lag[p] = max(0, int64(c.stable[p]-end))
		s.Behind[p] = 0
		if ms, known := c.times[p]; known && s.Lag[p] > 0 {
			s.Behind[p] = max(0, now.Sub(time.UnixMilli(ms)))
		}
	}
	if c.budget != nil {
		s.InFlight, s.Budget = c.budget.now()
	}
	return s
}
