package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/ledgerlake/ledgerlake/broker"
)

// pool lends clients to fetches. A client serves one Fetch at a time, since its connections answer in order.
type pool struct {
	make  func() (*kgo.Client, error)
	slots chan struct{}

	mu     sync.Mutex
	idle   []*kgo.Client // last used last
	all    map[*kgo.Client]struct{}
	closed bool
}

func (p *pool) init(n int, mk func() (*kgo.Client, error)) {
	p.make = mk
	p.slots = make(chan struct{}, n)
	p.all = make(map[*kgo.Client]struct{})
}

func (p *pool) get(ctx context.Context) (*kgo.Client, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	cl, err := p.take()
	if err != nil {
		<-p.slots
	}
	return cl, err
}

func (p *pool) take() (*kgo.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, broker.ErrClosed
	}
	if n := len(p.idle); n > 0 {
		cl := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return cl, nil
	}
	cl, err := p.make()
	if err == nil {
		p.all[cl] = struct{}{}
	}
	return cl, err
}

// put gives a client back. One whose request was given up is closed instead: the broker would let the next
// request wait until the old poll is over.
func (p *pool) put(cl *kgo.Client, usable bool) {
	p.mu.Lock()
	if usable && !p.closed {
		p.idle = append(p.idle, cl)
	} else {
		delete(p.all, cl)
		defer cl.Close()
	}
	p.mu.Unlock()
	<-p.slots
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	all := p.all
	p.all, p.idle = map[*kgo.Client]struct{}{}, nil
	p.mu.Unlock()
	for cl := range all {
		cl.Close()
	}
}

// withoutTopicIDs holds Fetch below version 13, where topics go by id alone.
func withoutTopicIDs() kgo.Opt {
	const byName = 12
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.Fetch), byName)
	return kgo.MaxVersions(v)
}
