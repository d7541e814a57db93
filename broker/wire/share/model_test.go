package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/record"
)

// model knows every offset by itself, and says what may be seen of a Partition.
type model struct {
	start, end record.Offset
	at         map[record.Offset]one
}

type one struct {
	state    state
	attempts int16
	owner    string
	until    int64
}

func (m *model) expire(now int64, l Limits) {
	for o, x := range m.at {
		if x.state == acquired && x.until <= now {
			m.at[o] = x.released(l)
		}
	}
	m.settle()
}

func (x one) released(l Limits) one {
	s := available
	if x.attempts >= l.Attempts {
		s = decided
	}
	return one{state: s, attempts: x.attempts}
}

func (m *model) settle() {
	for m.start < m.end && m.at[m.start].state == decided {
		delete(m.at, m.start)
		m.start++
	}
}

func (m *model) open() (n int64) {
	for _, x := range m.at {
		if x.state != decided {
			n++
		}
	}
	return n
}

// acquire walks offset by offset.
func (m *model) acquire(r Read, c Claim, l Limits) (got []record.Offset) {
	defer m.settle()
	for o := r.From; o < r.To; o++ {
		i := slices.IndexFunc(r.Batches, func(b Span) bool { return b.First <= o && o <= b.Last })
		x, known := m.at[o]
		if i < 0 {
			if !known || x.state == available {
				m.at[o] = one{state: decided}
			}
			m.end = max(m.end, o+1)
			continue
		}
		full, begins := int64(len(got)) >= c.Max, o == max(r.From, r.Batches[i].First)
		if full && begins {
			return got
		}
		switch {
		case known && x.state != available:
		case known && x.attempts >= l.Attempts:
			m.at[o] = one{state: decided}
		case full && !c.Whole:
			return got
		case known, m.open() < l.Locks:
			m.at[o] = one{acquired, x.attempts + 1, c.Owner, c.Now + l.Lock}
			m.end = max(m.end, o+1)
			got = append(got, o)
		default:
			return got
		}
	}
	return got
}

// acknowledge takes all or nothing.
func (m *model) acknowledge(owner string, acks []Ack, now int64, l Limits) error {
	m.expire(now, l)
	behind := record.Offset(-1)
	for _, a := range acks {
		if a.First <= behind || a.Last >= m.end {
			return ErrRequest
		}
		behind = a.Last
		for o := max(a.First, m.start); o <= a.Last; o++ {
			if x := m.at[o]; x.state != acquired || x.owner != owner {
				return ErrState
			}
		}
	}
	for _, a := range acks {
		m.take(a, now, l)
	}
	m.settle()
	return nil
}

func (m *model) take(a Ack, now int64, l Limits) {
	for o := max(a.First, m.start); o <= a.Last; o++ {
		x := m.at[o]
		switch a.kind(o) {
		case Let:
			m.at[o] = x.released(l)
		case Renew:
			x.until = now + l.Lock
			m.at[o] = x
		default:
			m.at[o] = one{state: decided}
		}
	}
}

func (m *model) truncate(to record.Offset) {
	for o := range m.at {
		if o >= to {
			delete(m.at, o)
		}
	}
	m.start, m.end = min(m.start, to), min(m.end, to)
	m.settle()
}

// compare fails where the two differ.
func (m *model) compare(t *testing.T, p *Partition, what string) {
	t.Helper()
	if err := p.check(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if p.start != m.start || p.end != m.end || p.Open() != m.open() {
		t.Fatalf("%s: [%d, %d) with %d open, want [%d, %d) with %d", what, p.start, p.end, p.Open(), m.start, m.end, m.open())
	}
	for _, r := range p.runs {
		for o := r.first; o <= r.last; o++ {
			x := m.at[o]
			if r.state != x.state || r.state != decided && (r.attempts != x.attempts || r.owner != x.owner || r.until != x.until) {
				t.Fatalf("%s: offset %d is %+v, want %+v", what, o, r, x)
			}
		}
	}
	for i := 1; i < len(p.runs); i++ {
		if p.runs[i-1].like(p.runs[i]) {
			t.Fatalf("%s: runs %d and %d are alike", what, i-1, i)
		}
	}
}

// Whatever members, clocks and logs do, in any order, each record is where a model that knows them one by one has it, also
// after the state was written and read again.
func TestPartitionIsTheModel(t *testing.T) {
	seedtest.Each(t, 60, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		play(t, r)
	})
}

func play(t *testing.T, r *rand.Rand) {
	first := record.Offset(r.IntN(5))
	p, m := New(first), &model{start: first, end: first, at: map[record.Offset]one{}}
	var l Limits
	now := int64(0)
	for step := range 400 {
		if step%40 == 0 { // somebody sets others
			l = Limits{Attempts: int16(2 + r.IntN(3)), Locks: int64(1 + r.IntN(20)), Lock: 5 + int64(r.IntN(10))}
		}
		now += int64(r.IntN(3))
		owner := string(rune('a' + r.IntN(3)))
		var what string
		switch n := r.IntN(10); {
		case n < 4:
			p.Expire(now, l)
			m.expire(now, l)
			read, c := anyRead(r, p, l), Claim{Owner: owner, Now: now, Max: int64(r.IntN(8)), Whole: r.IntN(2) == 0}
			what = fmt.Sprintf("step %d: acquire %+v %+v %+v", step, read, c, l)
			var got []record.Offset
			for _, a := range p.Acquire(read, c, l) {
				for o := a.First; o <= a.Last; o++ {
					got = append(got, o)
				}
			}
			if want := m.acquire(read, c, l); !slices.Equal(got, want) {
				t.Fatalf("%s: got %v, want %v", what, got, want)
			}
		case n < 8:
			acks := anyAcks(r, p)
			what = fmt.Sprintf("step %d: %s acknowledges %+v", step, owner, acks)
			next := p.Clone()
			err := next.Acknowledge(owner, acks, now, l)
			if want := m.acknowledge(owner, acks, now, l); !errors.Is(err, want) {
				t.Fatalf("%s: %v, want %v", what, err, want)
			}
			if p.Expire(now, l); err == nil {
				p = next
			}
		case n == 8 && r.IntN(2) == 0:
			to := max(p.end-record.Offset(r.IntN(6)), 0)
			what = fmt.Sprintf("step %d: truncate to %d", step, to)
			p.Truncate(to)
			m.truncate(to)
		case n < 9:
			what = fmt.Sprintf("step %d: %s lets all go", step, owner)
			p.Release(owner)
			for o, x := range m.at {
				if x.state == acquired && x.owner == owner {
					m.at[o] = one{state: available, attempts: x.attempts - 1}
				}
			}
		default:
			to := p.start + record.Offset(r.IntN(4)-1)
			what = fmt.Sprintf("step %d: skip to %d", step, to)
			p.Skip(to)
			for ; m.start < to; m.start++ {
				delete(m.at, m.start)
			}
			m.end = max(m.end, m.start)
			m.settle()
		}
		m.compare(t, p, what)
		p = again(t, p)
		m.compare(t, p, what+", read again")
	}
}

// anyRead is what a log may give from where there is something to give.
func anyRead(r *rand.Rand, p *Partition, l Limits) Read {
	from, _ := p.Next(l)
	out := Read{From: from}
	at := from - min(record.Offset(r.IntN(3)), from)
	for range r.IntN(5) {
		at += record.Offset(r.IntN(2) * r.IntN(4))
		last := at + record.Offset(r.IntN(5))
		if last >= from {
			out.Batches = append(out.Batches, Span{at, last})
		}
		at = last + 1
	}
	out.To = max(at+record.Offset(r.IntN(2)), from)
	return out
}

func anyAck(r *rand.Rand, p *Partition) Ack {
	a := Ack{First: max(p.start-2+record.Offset(r.IntN(8)), 0)}
	a.Last = a.First + record.Offset(r.IntN(4))
	n := 1
	if r.IntN(2) == 0 {
		n = int(a.Last-a.First) + 1
	}
	for range n {
		a.Kinds = append(a.Kinds, Kind(r.IntN(5)))
	}
	return a
}

// anyAcks is a list that is in order most of the time.
func anyAcks(r *rand.Rand, p *Partition) (out []Ack) {
	for range 1 + r.IntN(3) {
		a := anyAck(r, p)
		if n := len(out); n > 0 && r.IntN(8) > 0 {
			by := max(out[n-1].Last+1-a.First, 0)
			a.First, a.Last = a.First+by, a.Last+by
		}
		out = append(out, a)
	}
	return out
}

func again(t *testing.T, p *Partition) *Partition {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	out := &Partition{}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}
