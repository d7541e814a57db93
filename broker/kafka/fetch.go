package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// rotation moves the place where requests begin, because a broker fills an answer in the order of the request
// and a full one would otherwise starve the same partitions every time.
type rotation struct{ n atomic.Uint32 }

func (r *rotation) next() int { return int(r.n.Add(1) & 0xffff) }

// Fetch answers every range, in the order asked: one request a broker, brokers in parallel. When the leaders
// of the ranges are several, a wait is cut into short polls of all of them, so that data on one is not held
// back by silence on another. Batches of the answer are whole; their CRC is not verified.
//
// Bounds.Stable is what the broker sent; a broker that sends none with ReadUncommitted makes it Bounds.End.
func (s *Source) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	if s.ctx.Err() != nil {
		return nil, broker.ErrClosed
	}
	if len(ranges) == 0 {
		return nil, nil
	}
	c, err := s.newCall(ranges, opts)
	if err != nil {
		return nil, err
	}
	jctx, done := s.joined(ctx)
	defer done()
	if err := c.run(jctx); err != nil {
		if s.ctx.Err() != nil {
			return nil, broker.ErrClosed
		}
		return nil, fmt.Errorf("fetch: %w", err)
	}
	return c.out, nil
}

// call is one Fetch under way. Exchanges with several brokers write to different elements of out and ask.
type call struct {
	s      *Source
	opts   broker.FetchOptions
	ranges []broker.FetchRange
	out    []broker.Fetched
	limit  []int // bytes to ask for by range; grows for a batch that is larger
	client *kgo.Client
	from   *pool
}

func (s *Source) newCall(ranges []broker.FetchRange, opts broker.FetchOptions) (*call, error) {
	c := &call{s: s, opts: opts, ranges: ranges, out: make([]broker.Fetched, len(ranges)), limit: make([]int, len(ranges))}
	seen := make(map[record.TopicPartition]struct{}, len(ranges))
	for i, r := range ranges {
		if _, dup := seen[r.TP]; dup {
			return nil, fmt.Errorf("fetch: %s is asked for twice", r.TP)
		}
		seen[r.TP] = struct{}{}
		c.limit[i] = s.cfg.MaxFetchBytes
		if r.MaxBytes > 0 {
			c.limit[i] = min(r.MaxBytes, s.cfg.MaxFetchBytes)
		}
	}
	return c, nil
}

// run polls until there is enough, something to report, or MaxWait is over.
func (c *call) run(ctx context.Context) error {
	all := make([]int, len(c.ranges))
	for i := range all {
		all[i] = i
	}
	defer func() { c.release(ctx.Err() != nil) }()
	begin := time.Now()
	for poll := 0; ; poll++ {
		left := max(c.opts.MaxWait-time.Since(begin), 0)
		for i := range c.out {
			c.out[i] = broker.Fetched{TP: c.ranges[i].TP}
		}
		if err := c.settle(ctx, all, left, poll); err != nil {
			return err
		}
		if c.enough() || time.Since(begin) >= c.opts.MaxWait {
			return nil
		}
	}
}

// pollTime is how long the brokers may hold one round of requests.
func pollTime(left time.Duration, brokers, poll int) time.Duration {
	if brokers == 1 {
		return left
	}
	if poll == 0 {
		return 0 // take what is there before waiting for anything
	}
	const first, most = 10 * time.Millisecond, 100 * time.Millisecond
	return min(left, first<<min(poll-1, 10), most)
}

func (c *call) enough() bool {
	n := 0
	for i := range c.out {
		if c.out[i].Err != nil {
			return true
		}
		n += len(c.out[i].Batches)
	}
	return n > 0 && n >= c.opts.MinBytes
}

// settle gets an answer or a lasting error for every range of todo.
func (c *call) settle(ctx context.Context, todo []int, left time.Duration, poll int) error {
	r := c.s.newRetry()
	refresh := false
	for len(todo) > 0 {
		results, err := c.round(ctx, todo, left, poll, refresh)
		if err == nil {
			todo, refresh, err = c.sort(results)
		} else {
			refresh = true
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			left = 0 // others have answered already
			continue
		}
		if gone := r.again(ctx, err); gone != nil {
			return c.giveUp(todo, gone)
		}
	}
	return nil
}

// result is what became of one range in one round.
type result struct {
	i    int
	err  error // nil: answered; transientError: try again
	more bool  // try again at once: only the limit was too small
}

// sort keeps what is final and says what to do again; err is a fault to wait for, if there is one.
func (c *call) sort(results []result) (todo []int, refresh bool, err error) {
	for _, r := range results {
		var t *transientError
		switch {
		case r.more:
			todo = append(todo, r.i)
		case errors.As(r.err, &t):
			todo = append(todo, r.i)
			refresh, err = true, r.err
		case r.err != nil:
			c.out[r.i].Err = r.err
		}
	}
	return todo, refresh, err
}

// giveUp reports err for the ranges that are left. When nothing at all was answered, it is the call's error.
func (c *call) giveUp(todo []int, err error) error {
	if len(todo) == len(c.ranges) && !isVerdict(err) {
		return err
	}
	for _, i := range todo {
		c.out[i].Err = fmt.Errorf("fetch %s: %w", c.ranges[i].TP, err)
	}
	return nil
}

// isVerdict tells what a broker said of a partition from not having reached a broker.
func isVerdict(err error) bool {
	return errors.Is(err, broker.ErrUnknownTopic) || errors.Is(err, broker.ErrStorage)
}

// round sends one request to each leader of todo. Its error means that leaders could not be looked up.
func (c *call) round(ctx context.Context, todo []int, left time.Duration, poll int, refresh bool) ([]result, error) {
	topics := make([]string, 0, len(todo))
	for _, i := range todo {
		topics = append(topics, c.ranges[i].TP.Topic)
	}
	if err := c.s.learn(ctx, topics, refresh); err != nil {
		return nil, err
	}
	byLeader, named, results := c.plan(todo, refresh)
	if len(byLeader) == 0 {
		return results, nil
	}
	if err := c.acquire(ctx, named); err != nil {
		return nil, err
	}
	if refresh {
		c.client.ForceMetadataRefresh() // a leader may have moved to another address
	}
	wait := pollTime(left, len(byLeader), poll)
	if len(results) > 0 { // something is to be told or tried already
		wait = 0
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for leader, part := range byLeader {
		wg.Go(func() {
			got := c.exchange(ctx, leader, part, wait, len(byLeader))
			mu.Lock()
			results = append(results, got...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return results, nil
}

// plan groups ranges by leader, beginning at another one each time. named is set when a topic has no id. What
// the cache does not know is believed only when it was just refreshed: partitions are added to topics.
func (c *call) plan(todo []int, fresh bool) (byLeader map[int32][]int, named bool, results []result) {
	byLeader = make(map[int32][]int)
	start := c.s.turn.next() % len(todo)
	for k := range todo {
		i := todo[(start+k)%len(todo)]
		leader, id, err := c.s.leader(c.ranges[i].TP)
		if err != nil {
			if !fresh {
				err = transient(err)
			}
			results = append(results, result{i: i, err: err})
			continue
		}
		if id == [16]byte{} {
			named = true
		}
		byLeader[leader] = append(byLeader[leader], i)
	}
	return byLeader, named, results
}

// acquire borrows a client for the rest of the call.
func (c *call) acquire(ctx context.Context, named bool) (err error) {
	want := &c.s.fetch
	if named {
		want = &c.s.byName
	}
	if c.client != nil && c.from == want {
		return nil
	}
	c.release(false)
	c.client, err = want.get(ctx)
	c.from = want
	if err != nil {
		c.client = nil
	}
	return err
}

func (c *call) release(spent bool) {
	if c.client != nil {
		c.from.put(c.client, !spent)
		c.client = nil
	}
}
