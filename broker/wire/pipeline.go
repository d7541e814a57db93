package wire

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// pipeline is what a connection has read and not yet answered. It bounds what its reader takes ahead: small
// requests, or a few that are large behind ones that end by themselves, if all together are not huge. Behind a request that may wait for
// minutes, and while a client that is above its quota is not answered, nothing large is read, so no connection holds
// memory that others need while it waits (I8).
type pipeline struct {
	mu     sync.Mutex
	weight int64
	frames int
	polls  int           // of the frames those that may wait
	away   int           // more frames, that take no memory: a gateway's that the cluster has
	until  time.Time     // the client is above its quota, and not answered before
	fewer  chan struct{} // holds one when there is less
	most   int64         // weight of a few requests together with large ones among them
}

// aheadWeight is the weight of requests that are read ahead whatever is in work.
const aheadWeight = 256 << 10

// aheadFew are how many requests are read ahead when there are large ones among them: a producer of many partitions sends
// 12 MB at a time, and while the disk has one, the next is read and the one behind it checked.
const aheadFew = 4

// aheadMemory is what large requests of one connection take at most together, if each is smaller than that.
func (c Config) aheadMemory() int64 { return min(40<<20, c.requestMemory()/4) }

// large says whether a frame is one that others may miss the memory of.
func (f *frame) large() bool { return f.weight > aheadWeight }

// mayWait says whether requests with a key are answered when something happens, not at once.
func mayWait(key int16) bool {
	return key == keyFetch || key == keyJoinGroup || key == keySyncGroup || key == keyShareFetch
}

// enter waits until a frame may be read.
func (p *pipeline) enter(ctx context.Context, f *frame) error {
	for {
		p.mu.Lock()
		if left := time.Until(p.until); left > 0 && f.large() {
			p.mu.Unlock()
			pause(ctx, left)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		if p.frames == 0 || p.weight+f.weight <= aheadWeight || p.polls == 0 && p.frames < aheadFew && p.weight+f.weight <= p.most {
			p.weight += f.weight
			p.frames++
			if mayWait(f.key) {
				p.polls++
			}
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
		select {
		case <-p.fewer:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sent is called when a frame is with the cluster behind a gateway, and its memory free.
func (p *pipeline) sent(f *frame) {
	p.mu.Lock()
	f.away = true
	p.weight -= f.weight
	p.frames--
	p.away++
	p.mu.Unlock()
	p.signal()
}

func (p *pipeline) signal() {
	select {
	case p.fewer <- struct{}{}:
	default:
	}
}

// leave is called when a frame is answered. The client is muted for a while if it is above its quota.
func (p *pipeline) leave(f *frame, mute time.Duration) {
	p.mu.Lock()
	if mute > 0 {
		p.until = time.Now().Add(mute)
	}
	if f.away {
		p.away--
	} else {
		p.weight -= f.weight
		p.frames--
	}
	if mayWait(f.key) {
		p.polls--
	}
	p.mu.Unlock()
	p.signal()
}

// hold waits until a frame may be answered. What is large was read before the client was muted: it is answered at once,
// and counts, since others miss its memory.
func (p *pipeline) hold(ctx context.Context, f *frame) {
	if p.holds(f) {
		pause(ctx, p.left())
	}
}

// holds says whether hold would wait.
func (p *pipeline) holds(f *frame) bool { return !f.large() && p.left() > 0 }

// left is for how long the client is not answered.
func (p *pipeline) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until)
}

// busy says whether something of the connection is in work, or waits.
func (p *pipeline) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frames+p.away > 0 || time.Now().Before(p.until)
}

// gate lets large requests be decoded as far as there is memory for what they may decode to, and gives what ends
// that. Nothing waits for others while it is inside.
func (s *Server) gate(ctx context.Context, f *frame) (leave func(), err error) {
	if f.key == keyProduce || len(f.body) <= smallFrame {
		return func() {}, nil
	}
	weight := min(decodeWeight*int64(len(f.body)), s.cfg.decodeMemory())
	if err := s.decoding.Acquire(ctx, weight); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { s.decoding.Release(weight) }, nil
}

// smallFrame is the size up to which a request may decode to whatever it can.
const smallFrame = 4 << 10

var tagsType = reflect.TypeFor[kmsg.Tags]()

// dropTags removes from a decoded request the tagged fields that we do not know. Each costs a few bytes on the
// wire and some hundred in memory.
func dropTags(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			dropTags(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == tagsType {
			if v.CanSet() {
				v.SetZero()
			}
			return
		}
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.Struct, reflect.Slice, reflect.Pointer:
				dropTags(f)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		for i := range v.Len() {
			dropTags(v.Index(i))
		}
	}
}
