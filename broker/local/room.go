package local

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	// DefaultDiskReserve has room for a journal file (56 MiB) twice over, for the indexes and the checkpoint of many partitions,
	// and for what other programs write between two looks. Of a small disk a tenth must do.
	DefaultDiskReserve = 256 << 20
	smallestShare      = 10

	// Sizes of a journal file that nobody has set.
	smallestJournal = 1 << 20
	largestJournal  = 64 << 20

	lookEvery    = 16 << 20 // bytes that are claimed between two looks at the disk, at most
	lookInterval = time.Second
)

// room keeps a reserve of the disk free, since a log that cannot write what has its offset fails. Batches claim what they will
// take before they get an offset, and settle it when that is written or has come to nothing. A look at the disk says how
// much more may be claimed: so much is free beyond the reserve and beyond what is claimed and not settled. Once that is
// used up appends are refused, until there is a quarter of the reserve more than it. A checkpoint is asked for then: journal files
// before it, and spare ones, are room too, and without appends nothing else would ask.
//
// What others wait for goes on below that, each as far as leaving says: who makes room for others may go further than they.
// Marks, checkpoints, indexes and journal files have the last quarter to themselves, and so has what the numbers leave out: the unused
// ends of last blocks, a few KiB a partition.
type room struct {
	fs      vfs.FS
	dir     string
	reserve int64 // 0: none is kept
	log     *slog.Logger
	short   func() // is told when appends begin to be refused; must not block

	claimed atomic.Int64 // bytes, ever
	settled atomic.Int64
	next    atomic.Int64 // who claims beyond it looks at the disk
	free    atomic.Int64 // at the last look
	low     atomic.Pointer[shortage]

	mu    sync.Mutex // one look at a time; nothing else is locked under it
	blind bool       // the last look saw nothing
}

// shortage is why appends are refused.
type shortage struct {
	err  error
	left int64 // beside what is claimed
}

// leaving is what a claim leaves of the reserve, in eighths.
type leaving int64

const (
	leavingAll     leaving = 8
	leavingHalf    leaving = 4 // groups' positions and other state of the Kafka port; compaction of what is not such
	leavingMore    leaving = 3 // the state of transactions: one that does not end keeps retention back
	leavingQuarter leaving = 2 // their markers, for the same reason; compaction of state, which gives back what that took
)

// leaves is what those leave who write a topic. Only topics that no client fills may leave less than all.
type leaves struct{ appends, compaction leaving }

func leavesOf(topic string) leaves {
	switch {
	case topic == broker.TransactionsTopic:
		return leaves{leavingMore, leavingQuarter}
	case broker.State(topic):
		return leaves{leavingHalf, leavingQuarter}
	}
	return leaves{leavingAll, leavingHalf}
}

func newRoom(cfg *Config, short func()) *room {
	r := &room{fs: cfg.FS, dir: cfg.Dir, log: cfg.Logger, short: short}
	if cfg.DiskReserve < 0 {
		return r
	}
	if r.reserve = cfg.DiskReserve; r.reserve > 0 {
		return r
	}
	space, err := cfg.FS.Space(cfg.Dir)
	if err != nil {
		r.log.Warn("it is not known how much of the disk is free; no reserve is kept of it", "dir", r.dir, "error", err)
		return r
	}
	r.reserve = min(DefaultDiskReserve, space.Total/smallestShare)
	return r
}

// sizeJournal lets the size of journal files follow the reserve, where none was set: who claims beyond the last quarter may find
// the file full, and another one must go into that. So must the checkpoint that begins with a new file, which has an eighth of it.
func (l *Log) sizeJournal() {
	r, size := l.room.reserve, int64(largestJournal)
	if r > 0 {
		quarter := l.room.floor(leavingQuarter)
		size = min(max(quarter-quarter/8, smallestJournal), size)
	}
	setDefault(&l.cfg.JournalBytes, size)
	if r > 0 && r < l.cfg.JournalBytes {
		l.cfg.Logger.Warn("the reserve of the disk is smaller than a journal file; where less is free, nothing is taken when the present one is full",
			"dir", l.cfg.Dir, "reserve", r, "journal", l.cfg.JournalBytes)
	}
}

// cost is what a batch takes of the disk: its place in the segment, and in the journal where there is one.
func (l *Log) cost(batch []byte) int64 {
	n := int64(len(batch))
	if l.cfg.Durability != DurabilityNone {
		n += n + frameHeaderSize
	}
	return n
}

// claimLocked is asked before a batch gets its offset.
func (p *partition) claimLocked(batch []byte, h *record.BatchHeader) error {
	part := p.topic.leaves.appends
	if h.Control() {
		part = leavingQuarter
	}
	return p.log.room.claim(p.log.cost(batch), part)
}

// claim takes bytes that are then to be settled, unless it gives an error.
func (r *room) claim(n int64, part leaving) error {
	if r.reserve == 0 {
		return nil
	}
	if err := r.refused(part); err != nil {
		return err
	}
	if r.claimed.Add(n) <= r.next.Load() {
		return nil
	}
	r.look()
	err := r.refused(part)
	if err != nil {
		r.claimed.Add(-n)
	}
	return err
}

func (r *room) settle(n int64) { r.settled.Add(n) }

func (r *room) floor(part leaving) int64 { return r.reserve / int64(leavingAll) * int64(part) }

func (r *room) refused(part leaving) error {
	if low := r.low.Load(); low != nil && (part == leavingAll || low.left < r.floor(part)) {
		return low.err
	}
	return nil
}

// look asks the disk.
func (r *room) look() {
	if r.reserve == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	settled := r.settled.Load() // first: what is settled during the look counts twice, and not never
	space, err := r.fs.Space(r.dir)
	claimed := r.claimed.Load()
	if err != nil {
		r.blindLocked(claimed, err)
		return
	}
	r.blind = false
	r.free.Store(space.Free)
	left := space.Free - (claimed - settled)
	was := r.low.Load() != nil
	want := r.reserve
	if was {
		want += r.reserve / 4
	}
	var low *shortage
	part := leavingAll // of those that are not refused
	if left < want {
		low = &shortage{err: r.refusal(space.Free), left: left}
		for _, part = range []leaving{leavingHalf, leavingMore, leavingQuarter} {
			if left >= r.floor(part) {
				break
			}
		}
	}
	r.low.Store(low)
	r.next.Store(claimed + min(lookEvery, left-r.floor(part)))
	switch {
	case low != nil && !was:
		r.short()
		r.log.Warn("the disk is nearly full; no appends until there is room", "dir", r.dir, "free", space.Free, "reserve", r.reserve)
	case low == nil && was:
		r.log.Info("there is room on the disk again; appends are taken", "dir", r.dir, "free", space.Free, "reserve", r.reserve)
	}
}

func (r *room) refusal(free int64) error {
	return fmt.Errorf("%w: the disk of %s is nearly full: %d bytes are free, and %d are kept free for what was taken already; make room, or set a smaller reserve",
		broker.ErrStorage, r.dir, free, r.reserve)
}

// blindLocked takes appends as if there were no reserve: a disk that says nothing may have all the room in the world.
func (r *room) blindLocked(claimed int64, err error) {
	if !r.blind {
		r.log.Warn("it is not known how much of the disk is free; no reserve is kept until it is", "dir", r.dir, "error", err)
	}
	r.blind = true
	r.low.Store(nil)
	r.next.Store(claimed + lookEvery)
}

// roomLoop looks when nobody appends, so that appends are taken again, and for what others write.
func (l *Log) roomLoop() {
	if l.room.reserve == 0 {
		return
	}
	ticker := newTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-l.closed:
			return
		case <-ticker.C:
			l.room.look()
		}
	}
}

// Room is what the last look at the disk saw.
type Room struct {
	Free    int64 // bytes
	Reserve int64 // appends leave so much of it; 0: nothing is looked at
	Refused error // why appends are refused now: so little is free, or no journal file can be made
}

// Room says whether there is room for appends. See Config.DiskReserve.
func (l *Log) Room() Room {
	r := Room{Free: l.room.free.Load(), Reserve: l.room.reserve, Refused: l.room.refused(leavingAll)}
	if err := l.crowded.Load(); r.Refused == nil && err != nil && l.cfg.Durability != DurabilityNone {
		r.Refused = *err
	}
	return r
}
