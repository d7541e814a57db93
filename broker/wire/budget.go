package wire

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"github.com/ledgerlake/ledgerlake/record"
)

// The memory budget has five fixed shares, so that no kind of load can starve another: requests in work and requests
// that are being decoded (a quarter each), answers that are made or sent (three eighths), buffers that wait for the next
// Produce request (a 64th), and what groups and positions keep (the rest).
func (c Config) requestMemory() int64 { return c.MemoryBudget / 4 }
func (c Config) decodeMemory() int64  { return c.MemoryBudget / 4 }
func (c Config) answerMemory() int64  { return c.MemoryBudget / 8 * 3 }
func (c Config) idleMemory() int64    { return c.MemoryBudget / 64 }
func (c Config) stateMemory() int64 {
	return c.MemoryBudget - c.requestMemory() - c.decodeMemory() - c.answerMemory() - c.idleMemory()
}

// controlLimit is the largest request other than Produce: what it may decode to fits into its share.
func (c Config) controlLimit() int {
	return int(min(maxControlBytes, max(c.decodeMemory()/decodeWeight, smallestControlLimit)))
}

// pollMemory is the part of the requests' share that long polls may hold.
func (c Config) pollMemory() int64 { return c.requestMemory() / 2 }

// historyRead is what one read of the history takes beside its answer: the pages of a data file.
const historyRead = 32 << 20

// errNoMemory is for state that the budget has no room for. Clients try again; what expires makes room.
var errNoMemory = errors.New("no memory left for groups and positions: raise the memory budget of the Kafka port, or delete groups that nobody uses")

// lease is a part of the answers' share. It is given back in pieces or as a whole.
type lease struct {
	sem *semaphore.Weighted
	n   int64
}

// tryLease takes want bytes when they are free, else a lease of nothing.
func (s *Server) tryLease(want int64) *lease {
	want = min(want, s.cfg.answerMemory())
	if !s.answers.TryAcquire(want) {
		want = 0
	}
	return &lease{sem: s.answers, n: want}
}

// spareLease takes want bytes when they are free, else it is an error.
func (s *Server) spareLease(_ context.Context, want int64) (*lease, error) {
	l := s.tryLease(want)
	if l.n == 0 {
		return nil, errAnswerMemory
	}
	return l, nil
}

// waitLease waits for want bytes until ctx ends.
func (s *Server) waitLease(ctx context.Context, want int64) (*lease, error) {
	want = min(want, s.cfg.answerMemory())
	if err := s.answers.Acquire(ctx, want); err != nil {
		return nil, errors.Join(errPollCut, context.Cause(ctx))
	}
	return &lease{sem: s.answers, n: want}, nil
}

// keep gives back all but n bytes.
func (l *lease) keep(n int) {
	if give := l.n - int64(n); give > 0 {
		l.sem.Release(give)
		l.n -= give
	}
}

func (l *lease) release() { l.keep(0) }

// errAnswerMemory ends a connection whose answer has no room.
var errAnswerMemory = errors.New("the answer does not fit into the memory budget now")

// charge counts bytes of an answer before they are made. A small answer costs nothing; from there on memory is set
// aside, and when there is none the request fails, so that no small question makes a large answer for nothing (I8).
func (s *Server) charge(r *request, bytes int) error {
	r.made += int64(bytes)
	for r.made > r.mem.n+smallAnswer {
		if !s.answers.TryAcquire(smallAnswer) {
			return errAnswerMemory
		}
		r.mem.sem = s.answers
		r.mem.n += smallAnswer
	}
	return nil
}

// settle makes the memory of an answer what it takes now that it is made.
func (s *Server) settle(r *request, size int) error {
	if size <= smallAnswer {
		r.mem.release()
		return nil
	}
	if more := int64(size) - r.mem.n; more > 0 {
		if !s.answers.TryAcquire(more) {
			return errAnswerMemory
		}
		r.mem.sem, r.mem.n = s.answers, r.mem.n+more
	}
	r.mem.keep(size)
	return nil
}

// held counts what stays in memory between requests.
type held struct {
	limit int64
	used  atomic.Int64
}

// take counts n bytes, false when there is no room for them.
func (h *held) take(n int64) bool {
	if h.used.Add(n) > h.limit {
		h.used.Add(-n)
		return false
	}
	return true
}

// room says whether n bytes more would fit now.
func (h *held) room(n int64) bool { return h.used.Load()+n <= h.limit }

// add counts n bytes, negative to give them back, whatever the limit: for what is there already.
func (h *held) add(n int64) { h.used.Add(n) }

// What is kept costs its bytes and, about, the structures around them.

func groupCost(name string) int64 { return int64(512 + 2*len(name)) }

func pendingCost(id string) int64 { return int64(512 + len(id)) }

func (m *member) cost(protocols []protocol) int64 {
	n := 1024 + 3*len(m.id) + 2*len(m.instance) + len(m.clientID) + len(m.host)
	for _, p := range protocols {
		n += 64 + len(p.name) + len(p.metadata)
	}
	return int64(n)
}

func assignmentBytes(r *kmsg.SyncGroupRequest) (n int64) {
	for _, a := range r.GroupAssignment {
		n += int64(len(a.MemberAssignment))
	}
	return n
}

func positionCost(tp record.TopicPartition, c *committed) int64 {
	return int64(192 + len(tp.Topic) + len(c.metadata))
}
