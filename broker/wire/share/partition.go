package share

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ledgerlake/ledgerlake/record"
)

// Errors of Acknowledge.
var (
	ErrRequest = errors.New("the acknowledgement is not well formed")
	ErrState   = errors.New("a record is not with this member")
)

// state of the records of a run. Part of the format: never change, add.
type state int8

const (
	available state = 0 // given before, and to be given again
	acquired  state = 1 // with a member, until its lock runs out
	decided   state = 2 // accepted, rejected, given too often, or no record at all: never given again
)

// run are neighbours that are alike.
type run struct {
	first, last record.Offset
	state       state
	attempts    int16  // how often it was given
	owner       string // of an acquired one
	until       int64  // ms: when its lock runs out
}

// like says whether two runs, one behind the other, can be one.
func (r run) like(o run) bool {
	if r.state == decided && o.state == decided {
		return true
	}
	return r.state == o.state && r.attempts == o.attempts && r.owner == o.owner && r.until == o.until
}

func (r run) count() int64 { return int64(r.last-r.first) + 1 }

// Limits are those of a group. They may change from call to call.
type Limits struct {
	Attempts int16 // how often a record is given at most
	Locks    int64 // records that are given and not decided, at most
	Lock     int64 // ms for which a record is with a member
}

// Partition is what a group knows of one partition: all below Start is decided, nothing from End on was ever given. The
// runs between them leave nothing out. The zero value begins at offset 0.
type Partition struct {
	start, end record.Offset
	runs       []run
}

// New is a partition of which nothing was given, from at on.
func New(at record.Offset) *Partition { return &Partition{start: at, end: at} }

// Start is the first record that is not decided (Kafka's share-partition start offset).
func (p *Partition) Start() record.Offset { return p.start }

// End is the first offset that was never given.
func (p *Partition) End() record.Offset { return p.end }

// Runs says how much is kept: memory is about 80 bytes for each.
func (p *Partition) Runs() int { return len(p.runs) }

// Clone is a copy that can be changed on its own.
func (p *Partition) Clone() *Partition {
	return &Partition{start: p.start, end: p.end, runs: slices.Clone(p.runs)}
}

// Equal says whether two know the same.
func (p *Partition) Equal(o *Partition) bool {
	return p.start == o.start && p.end == o.end && slices.Equal(p.runs, o.runs)
}

// Open counts the records between Start and End that are not decided.
func (p *Partition) Open() (n int64) {
	for _, r := range p.runs {
		if r.state != decided {
			n += r.count()
		}
	}
	return n
}

// Next is where there may be something to give: the first record that waits for its next attempt, else End, unless as many as
// may be are open: then ok is false.
func (p *Partition) Next(l Limits) (at record.Offset, ok bool) {
	for _, r := range p.runs {
		if r.state == available {
			return r.first, true
		}
	}
	return p.end, p.Open() < l.Locks
}

// Deadline is when the first lock runs out, in ms; false when nothing is with a member.
func (p *Partition) Deadline() (ms int64, ok bool) {
	for _, r := range p.runs {
		if r.state == acquired && (!ok || r.until < ms) {
			ms, ok = r.until, true
		}
	}
	return ms, ok
}

// Expire takes back what was with a member for too long.
func (p *Partition) Expire(now int64, l Limits) {
	for i := range p.runs {
		if r := &p.runs[i]; r.state == acquired && r.until <= now {
			r.release(l)
		}
	}
	p.settle()
}

// Release takes back all that a member has, as if it had never been given: the member did not get to say anything of it.
func (p *Partition) Release(owner string) {
	for i := range p.runs {
		if r := &p.runs[i]; r.state == acquired && r.owner == owner {
			r.free()
			r.attempts--
		}
	}
	p.settle()
}

func (r *run) free() { r.state, r.owner, r.until = available, "", 0 }

// release ends an attempt.
func (r *run) release(l Limits) {
	r.free()
	if r.attempts >= l.Attempts {
		r.state = decided
	}
}

// Skip decides all below to: the log does not hold it any more.
func (p *Partition) Skip(to record.Offset) {
	if to <= p.start {
		return
	}
	if to >= p.end {
		p.start, p.end, p.runs = to, to, nil
		return
	}
	p.runs = slices.Delete(p.runs, 0, p.cut(to))
	p.start = to
	p.settle()
}

// Truncate forgets all from to on: the log has lost it, and what comes there is new.
func (p *Partition) Truncate(to record.Offset) {
	if to <= p.start {
		*p = *New(to)
		return
	}
	if to < p.end {
		p.runs = p.runs[:p.cut(to)]
		p.end = to
		p.settle()
	}
}

// cut makes a run begin at an offset of [start, end] and gives its place.
func (p *Partition) cut(at record.Offset) int {
	i, _ := slices.BinarySearchFunc(p.runs, at, func(r run, o record.Offset) int {
		if r.last < o {
			return -1
		}
		return 1
	})
	if i == len(p.runs) || p.runs[i].first == at {
		return i
	}
	left := p.runs[i]
	left.last = at - 1
	p.runs[i].first = at
	p.runs = slices.Insert(p.runs, i, left)
	return i + 1
}

// settle joins runs that are alike and lets Start pass what is decided.
func (p *Partition) settle() {
	out := p.runs[:0]
	for _, r := range p.runs {
		switch n := len(out); {
		case n == 0 && r.state == decided:
			p.start = r.last + 1
		case n > 0 && out[n-1].like(r):
			out[n-1].last = r.last
		default:
			out = append(out, r)
		}
	}
	clear(p.runs[len(out):])
	p.runs = out
}

// check is for what comes from outside.
func (p *Partition) check() error {
	at := p.start
	for _, r := range p.runs {
		given := r.state != acquired || r.attempts > 0
		if r.first != at || r.last < r.first || r.state < available || r.state > decided || r.attempts < 0 || !given {
			return fmt.Errorf("run [%d, %d] of state %d behind offset %d", r.first, r.last, r.state, at)
		}
		at = r.last + 1
	}
	if at != p.end || p.start < 0 || p.end < p.start {
		return fmt.Errorf("runs of [%d, %d) end at %d", p.start, p.end, at)
	}
	return nil
}
