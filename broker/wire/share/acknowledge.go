package share

import (
	"fmt"

	"github.com/ledgerlake/ledgerlake/record"
)

// Kind says what a member makes of a record, by its number in the protocol.
type Kind int8

// Kinds of acknowledgements.
const (
	Gap    Kind = 0 // there is no record at the offset
	Accept Kind = 1
	Let    Kind = 2 // to be given again (RELEASE)
	Reject Kind = 3
	Renew  Kind = 4 // the member keeps it for another time
)

// Ack is what a member says of neighbours: one kind for all, or one for each.
type Ack struct {
	First, Last record.Offset // both included
	Kinds       []Kind
}

func (a Ack) kind(o record.Offset) Kind {
	if len(a.Kinds) == 1 {
		return a.Kinds[0]
	}
	return a.Kinds[o-a.First]
}

// alike gives the last offset from o up to last that has the kind of o.
func (a Ack) alike(o, last record.Offset) record.Offset {
	if len(a.Kinds) == 1 {
		return last
	}
	k := a.kind(o)
	for o < last && a.kind(o+1) == k {
		o++
	}
	return o
}

// Acknowledge takes what a member says of records that it has, ascending. What is below Start is decided, whatever is said of
// it. An error is ErrRequest or ErrState; the partition is then worth nothing: acknowledge on a Clone.
func (p *Partition) Acknowledge(owner string, acks []Ack, now int64, l Limits) error {
	p.Expire(now, l)
	behind := record.Offset(-1)
	for _, a := range acks {
		if a.First > a.Last || a.First <= behind || len(a.Kinds) != 1 && int64(len(a.Kinds)) != int64(a.Last-a.First)+1 {
			return fmt.Errorf("%w: offsets %d to %d with %d kinds, behind offset %d", ErrRequest, a.First, a.Last, len(a.Kinds), behind)
		}
		for _, k := range a.Kinds {
			if k < Gap || k > Renew {
				return fmt.Errorf("%w: kind %d is not known", ErrRequest, k)
			}
		}
		if a.Last >= p.end {
			return fmt.Errorf("%w: offset %d was never given", ErrRequest, a.Last)
		}
		behind = a.Last
		if err := p.acknowledge(owner, a, now, l); err != nil {
			return err
		}
	}
	p.settle()
	return nil
}

func (p *Partition) acknowledge(owner string, a Ack, now int64, l Limits) error {
	for o := max(a.First, p.start); o <= a.Last; {
		i := p.cut(o)
		if r := p.runs[i]; r.state != acquired || r.owner != owner {
			return fmt.Errorf("%w: offset %d", ErrState, o)
		}
		last := a.alike(o, min(a.Last, p.runs[i].last))
		p.cut(last + 1)
		r := &p.runs[i]
		switch a.kind(o) {
		case Let:
			r.release(l)
		case Renew:
			r.until = now + l.Lock
		default:
			r.state, r.owner, r.until = decided, "", 0
		}
		o = last + 1
	}
	return nil
}
