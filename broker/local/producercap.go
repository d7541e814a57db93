package local

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// producerCap bounds what the log remembers of idempotent producers: clients choose their ids, so each batch may
// bring a new one. Partitions only count what they add. The log looks when an eighth of the bound was added, and
// forgets those that were idle longest, so that it never holds more than nine eighths.
type producerCap struct {
	added atomic.Int64
	mu    sync.Mutex // one look at a time
}

// idleProducer is one that may be forgotten.
type idleProducer struct {
	p    *partition
	id   int64
	seen int64
}

// capProducers keeps the number of remembered producers in its bound. The caller holds no lock.
func (l *Log) capProducers() {
	every := int64(max(1, l.cfg.MaxProducers/8))
	if l.producers.added.Load() < every || !l.producers.mu.TryLock() {
		return
	}
	defer l.producers.mu.Unlock()
	l.producers.added.Store(0)
	var idle []idleProducer
	total := 0
	for _, p := range l.all() {
		p.mu.Lock()
		total += len(p.producers)
		for id, s := range p.producers {
			if p.idleLocked(id, s) {
				idle = append(idle, idleProducer{p, id, s.Seen})
			}
		}
		p.mu.Unlock()
	}
	excess := min(total-l.cfg.MaxProducers, len(idle))
	if excess <= 0 {
		return
	}
	slices.SortFunc(idle, func(a, b idleProducer) int { return cmp.Compare(a.seen, b.seen) })
	for _, i := range idle[:excess] {
		i.p.mu.Lock()
		if s := i.p.producers[i.id]; s != nil && s.Seen == i.seen && i.p.idleLocked(i.id, s) {
			delete(i.p.producers, i.id)
			i.p.changed = true
		}
		i.p.mu.Unlock()
	}
	l.cfg.Logger.Warn("idempotent producers were forgotten before their time: there are too many",
		"forgotten", excess, "MaxProducers", l.cfg.MaxProducers)
}

// idleLocked tells whether a producer may be forgotten: it has no transaction open, and nothing on its way to the
// disk whose retry must find it (I1).
func (p *partition) idleLocked(id int64, s *producer) bool {
	_, open := p.txns.open[id]
	n := len(s.Last)
	return !open && s.TxnFirst == nil && (n == 0 || s.Last[n-1].Base < p.end)
}
