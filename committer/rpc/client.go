package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Config are the settings of a Client.
type Config struct {
	Addrs   []string      // of some or all nodes
	TLS     *tls.Config   // nil: plain TCP, for loopback only
	Owner   string        // a name of this writer, for people
	Attempt time.Duration // after this long without an answer another node is asked; default 1 s
}

// Client is a connection to a group.
type Client struct {
	cfg    Config
	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn
	leader string            // that answered last, or was named
	told   map[string]string // table -> id of the replaced version that a caller was told of last
	next   int
	closed bool
}

// NewClient makes a client. It connects when it is first used.
func NewClient(cfg Config) (*Client, error) {
	if len(cfg.Addrs) == 0 {
		return nil, errors.New("committer client: no addresses")
	}
	if cfg.Attempt == 0 {
		cfg.Attempt = time.Second
	}
	return &Client{cfg: cfg, conns: map[string]*grpc.ClientConn{}, told: map[string]string{}, next: rand.IntN(len(cfg.Addrs))}, nil
}

// Close ends all connections.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var err error
	for _, x := range c.conns {
		err = errors.Join(err, x.Close())
	}
	c.conns = nil
	return err
}

// pick gives the connection to try next.
func (c *Client) pick() (*grpc.ClientConn, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr := c.leader
	if addr == "" {
		addr = c.cfg.Addrs[c.next%len(c.cfg.Addrs)]
		c.next++
	}
	conn, err := c.connLocked(addr)
	return conn, addr, err
}

func (c *Client) connLocked(addr string) (*grpc.ClientConn, error) {
	if c.closed {
		return nil, errClosed
	}
	if x := c.conns[addr]; x != nil {
		return x, nil
	}
	cred := insecure.NewCredentials()
	if c.cfg.TLS != nil {
		cred = credentials.NewTLS(c.cfg.TLS.Clone())
	}
	x, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(cred),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: c.cfg.Attempt,
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}}))
	if err != nil {
		return nil, fmt.Errorf("connect to committer %s: %w", addr, err)
	}
	c.conns[addr] = x
	return x, nil
}

var errClosed = errors.New("the committer client is closed")

// learn keeps who answered as a leader; with ok false, forgets it unless another was learned meanwhile.
func (c *Client) learn(addr string, ok bool, hint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ok:
		c.leader = addr
	case hint != "" && hint != addr:
		c.leader = hint
	case c.leader == addr:
		c.leader = ""
	}
}

// headed is a reply.
type headed interface{ head() *Head }

func (h *Head) head() *Head { return h }

// call sends a request to the leader until a leader answers or ctx ends. done says whether an answer is one, or the
// trouble is passing.
func (c *Client) call(ctx context.Context, method string, req any, reply func() headed, done func(headed) error) error {
	var last error
	old := 0  // nodes in a row that do not have the call
	slow := 0 // tries that got no answer in their time
	for try := 0; ctx.Err() == nil; try++ {
		conn, addr, err := c.pick()
		if err != nil {
			return err
		}
		r := reply()
		if err = c.once(ctx, conn, method, req, r, slow); err == nil {
			old = 0
			switch h := r.head(); {
			case h.NotLeader:
				c.learn(addr, false, h.Leader)
				err = fmt.Errorf("%s is not the leader", addr)
			default:
				c.learn(addr, true, "")
				if err = done(r); err == nil {
					return nil
				}
			}
		} else {
			c.learn(addr, false, "")
			if status.Code(err) == codes.DeadlineExceeded {
				slow++
			}
			if status.Code(err) != codes.Unimplemented {
				old = 0
			} else if old++; old > 2*len(c.cfg.Addrs) {
				return fmt.Errorf("%s and the other committers are older than this writer and do not know %s: upgrade them first", addr, method)
			}
			err = fmt.Errorf("%s: %w", addr, err)
		}
		last = err
		if try >= len(c.cfg.Addrs)/2 { // not at once a second time
			pause(ctx, rand.N(time.Duration(min(try+1, 10))*20*time.Millisecond))
		}
	}
	return fmt.Errorf("no answer from the committers %v: %w (last: %w)", c.cfg.Addrs, ctx.Err(), last)
}

func (c *Client) once(ctx context.Context, conn *grpc.ClientConn, method string, req, reply any, slow int) error {
	ctx, cancel := context.WithTimeout(ctx, c.attempt(req, slow))
	defer cancel()
	return conn.Invoke(ctx, "/"+service+"/"+method, req, reply)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Lease asks for an epoch of partitions that is newer than that of every owner so far.
func (c *Client) Lease(ctx context.Context, r LeaseRequest) (int64, error) {
	var epoch int64
	var noTable error
	err := c.call(ctx, "Lease", &r, func() headed { return &LeaseReply{} }, func(h headed) error {
		x := h.(*LeaseReply)
		if epoch = x.Epoch; x.NoTable != "" {
			noTable = fmt.Errorf("%w: the group cannot open %s: %s", deltalog.ErrNotTable, r.Table, x.NoTable)
		}
		return passing(x.Error)
	})
	return epoch, errors.Join(err, noTable)
}

func passing(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// Status asks every configured node; the error of one that does not answer stands in its place.
func (c *Client) Status(ctx context.Context) ([]*StatusReply, []error) {
	addrs := slices.Clone(c.cfg.Addrs)
	replies, errs := make([]*StatusReply, len(addrs)), make([]error, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() {
			c.mu.Lock()
			conn, err := c.connLocked(addr)
			c.mu.Unlock()
			r := &StatusReply{}
			if err == nil {
				err = c.once(ctx, conn, "Status", &StatusRequest{}, r, 0)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", addr, err)
				return
			}
			replies[i] = r
		})
	}
	wg.Wait()
	return replies, errs
}

// Member changes the group: Op is add (a member with a vote), standby (one without), promote, remove or transfer.
func (c *Client) Member(ctx context.Context, r MemberRequest) error {
	var refused error
	err := c.call(ctx, "Member", &r, func() headed { return &MemberReply{} }, func(h headed) error {
		refused = passing(h.(*MemberReply).Error)
		return nil
	})
	return errors.Join(err, refused)
}
