package share

import "github.com/ledgerlake/ledgerlake/record"

// Span are the offsets of one batch, both included.
type Span struct{ First, Last record.Offset }

// Read is what was read of a partition: all of its batches from an offset on. What none of them covers, up to the last,
// is no record.
type Read struct {
	From    record.Offset
	Batches []Span        // ascending, without those that nobody may see
	To      record.Offset // behind what was read
}

// Claim is who wants records.
type Claim struct {
	Owner string
	Now   int64 // ms
	Max   int64 // so many at most ...
	Whole bool  // ... and what is left of the last batch
}

// Acquired are records that a member has, which were given to it for the same time.
type Acquired struct {
	First, Last record.Offset
	Attempts    int16
}

// Acquire gives a member what is free of what was read, as far as the limits let it, in the order of the log. What is no record is decided
// on the way. Where From is not in [Start, End] it gives nothing.
func (p *Partition) Acquire(r Read, c Claim, l Limits) []Acquired {
	if r.From < p.start || r.From > p.end {
		return nil
	}
	g := giving{p: p, c: c, l: l, room: l.Locks - p.Open()}
	at := r.From
	for _, b := range r.Batches {
		if b.Last < at {
			continue
		}
		first := max(b.First, at)
		g.hole(at, first-1)
		if !g.batch(first, b.Last) {
			p.settle()
			return g.out
		}
		at = b.Last + 1
	}
	g.hole(at, r.To-1)
	p.settle()
	return g.out
}

// giving is one Acquire.
type giving struct {
	p     *Partition
	c     Claim
	l     Limits
	room  int64 // records that may be open beside those that are
	given int64
	out   []Acquired
}

// over gives the place of the first run at or behind first, and of the one behind last, of what is below End.
func (g *giving) over(first, last record.Offset) (i, j int) {
	p := g.p
	last = min(last, p.end-1)
	if last < first {
		return 0, 0
	}
	i = p.cut(first)
	return i, p.cut(last + 1)
}

// hole decides offsets that hold no record. Those that somebody has stay: it says so itself, or gives them back.
func (g *giving) hole(first, last record.Offset) {
	if last < first {
		return
	}
	p := g.p
	for i, j := g.over(first, last); i < j; i++ {
		if r := &p.runs[i]; r.state == available {
			g.drop(r)
		}
	}
	g.extend(last, run{state: decided})
}

// extend puts a run from End up to last behind the others.
func (g *giving) extend(last record.Offset, r run) {
	p := g.p
	if last < p.end {
		return
	}
	r.first, r.last = p.end, last
	p.runs = append(p.runs, r)
	p.end = last + 1
}

// batch gives what is free of a batch, false when nothing more is to be given.
func (g *giving) batch(first, last record.Offset) bool {
	p := g.p
	if g.given >= g.c.Max {
		return false
	}
	left := g.c.Max - g.given
	if g.c.Whole {
		left = int64(last-first) + 1
	}
	for i, j := g.over(first, last); i < j; i++ {
		r := &p.runs[i]
		switch {
		case r.state != available:
			continue
		case r.attempts >= g.l.Attempts: // the limit was lowered
			g.drop(r)
			continue
		case left <= 0:
			return false
		case r.count() > left:
			p.cut(r.first + record.Offset(left)) // behind i
			r, j = &p.runs[i], j+1
		}
		left -= r.count()
		g.give(r)
	}
	if last < p.end {
		return true
	}
	n := min(left, g.room, int64(last-p.end)+1)
	if n > 0 {
		g.extend(p.end+record.Offset(n)-1, run{})
		g.give(&p.runs[len(p.runs)-1])
		g.room -= n
	}
	return p.end > last
}

// drop decides what waited to be given.
func (g *giving) drop(r *run) {
	r.state = decided
	g.room += r.count()
}

func (g *giving) give(r *run) {
	r.state, r.owner, r.until = acquired, g.c.Owner, g.c.Now+g.l.Lock
	r.attempts++
	g.given += r.count()
	if n := len(g.out); n > 0 && g.out[n-1].Last == r.first-1 && g.out[n-1].Attempts == r.attempts {
		g.out[n-1].Last = r.last
		return
	}
	g.out = append(g.out, Acquired{r.first, r.last, r.attempts})
}
