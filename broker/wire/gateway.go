package wire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/record"
)

// Upstream is an external Kafka that a Server stands in front of, as a gateway. It has a port for each of the
// cluster's nodes, beside the one of Config.Listen, where clients begin, and which is for any node. A request goes to the
// node that it came for, byte for byte and in its own version, on a connection of that client alone; what names
// addresses is answered with ours. What the cluster's log no longer holds of a partition comes from Lake.
//
// The gateway keeps nothing: groups, positions, transactions and producer ids are the cluster's. All clients act under
// the log-in of Dial. When a node does not answer, its clients' connections end, as if they had been to the node itself.
type Upstream struct {
	Seeds []string // host:port to begin at
	// Dial opens a connection, with its handshakes done. The log-in is good until expires, when that is not zero.
	Dial func(ctx context.Context, addr string) (conn net.Conn, expires time.Time, err error)
	Lake Lake
}

// Lake is the history of an external Kafka.
type Lake interface {
	History
	// End is the first offset of a partition that the history has not decided yet, false when it holds nothing of the
	// topic. An error is given for the history of another topic that had the name: id tells, where it is not zero. An end
	// below logStart is never one that is remembered: before the log dropped anything it was in the history.
	End(ctx context.Context, tp record.TopicPartition, id [16]byte, logStart record.Offset) (record.Offset, bool, error)
}

func (u *Upstream) validate(c Config) error {
	switch {
	case u == nil:
		return nil
	case len(u.Seeds) == 0 || u.Dial == nil || u.Lake == nil:
		return errors.New("wire config: Upstream needs Seeds, Dial and Lake")
	case c.Log != nil || c.History != nil:
		return errors.New("wire config: Log and History do not go with Upstream, which has its own")
	case c.Access.Enforce:
		return errors.New("wire config: Access rules do not go with Upstream: the cluster keeps its own, for the log-in of Upstream.Dial")
	}
	return nil
}

const (
	anyNode = -1
	// maxNodes bounds the ports that a cluster may have us open.
	maxNodes = 1000
)

// errUpstream is wrapped by what ends a client's connection because the cluster cannot be had.
var errUpstream = errors.New("the Kafka behind the gateway does not answer")

// gateway is what a Server has that stands in front of an external Kafka.
type gateway struct {
	s     *Server
	up    Upstream
	seams seams
	tells seldom // that the cluster does not answer

	mu       sync.Mutex
	closed   bool
	nodes    map[int32]*gatewayNode
	versions map[int32]*kmsg.ApiVersionsResponse // of nodes, as they said last
}

// gatewayNode is a node of the cluster and our port for it; guarded by gateway.mu.
type gatewayNode struct {
	addr string // of the node
	ln   net.Listener
	port int32 // that clients are told
}

func newGateway(s *Server) *gateway {
	return &gateway{s: s, up: *s.cfg.Upstream, nodes: map[int32]*gatewayNode{}, versions: map[int32]*kmsg.ApiVersionsResponse{}, seams: newSeams()}
}

// open asks the cluster for its nodes and opens a port for each.
func (g *gateway) open(ctx context.Context) error {
	u := &upstreamConn{g: g, node: anyNode}
	defer u.close()
	if err := u.ready(ctx); err != nil {
		return err
	}
	return u.learnNodes(ctx)
}

func (g *gateway) close() (err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, n := range g.nodes {
		err = errors.Join(err, n.ln.Close())
	}
	return err
}

// learn notes where a node is and gives the port that stands for it.
func (g *gateway) learn(node int32, addr string) (port int32, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.nodes[node]; n != nil {
		n.addr = addr
		return n.port, nil
	}
	if g.closed {
		return 0, ErrClosed
	}
	if len(g.nodes) >= maxNodes {
		return 0, fmt.Errorf("the cluster has more than %d nodes", maxNodes)
	}
	n := &gatewayNode{addr: addr}
	if n.ln, n.port, err = g.listen(node); err != nil {
		return 0, fmt.Errorf("open the port of node %d: %w", node, err)
	}
	g.nodes[node] = n
	g.s.wg.Go(func() { g.s.accept(n.ln, node) })
	g.s.lg.Info("gateway to a node", "node", node, "upstream", addr, "addr", n.ln.Addr().String(), "advertisedPort", n.port)
	return n.port, nil
}

// listen opens the port of a node: that of Config.Listen and, behind it, the node's id, so that it is the same after
// each start and at each gateway. It is a free one where Config.Listen takes a free one.
func (g *gateway) listen(node int32) (net.Listener, int32, error) {
	host, base, err := splitAddr(g.s.cfg.Listen)
	if err != nil {
		return nil, 0, err
	}
	if base > 0 {
		if base, err = nodePort(base, node); err != nil {
			return nil, 0, err
		}
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(g.s.hardCtx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(base))))
	if err != nil {
		return nil, 0, err
	}
	_, bound, err := splitAddr(ln.Addr().String())
	if err == nil && g.s.cfg.Advertise != "" && base > 0 {
		bound, err = nodePort(g.s.port, node)
	}
	if err != nil {
		return nil, 0, errors.Join(err, ln.Close())
	}
	return ln, bound, nil
}

func nodePort(base, node int32) (int32, error) {
	if port := int64(base) + 1 + int64(node); port <= 65535 {
		return int32(port), nil
	}
	return 0, fmt.Errorf("port %d and 1 and the node's id %d are more than 65535: listen, or advertise, at a lower port", base, node)
}

// addresses gives where a node is, or may be: any of them, in any order, for anyNode.
func (g *gateway) addresses(node int32) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.nodes[node]; n != nil {
		return []string{n.addr}
	}
	out := slices.Clone(g.up.Seeds)
	for _, n := range g.nodes {
		out = append(out, n.addr)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// spoken gives what a node said last of its versions, nil when it was never asked.
func (g *gateway) spoken(node int32) *kmsg.ApiVersionsResponse {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.versions[node]
}

// says notes what a node says of its versions.
func (g *gateway) says(node int32, v *kmsg.ApiVersionsResponse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.versions[node] = v
}

// ours replaces the address of a node by that of our port for it. A node of -1 is none.
func (g *gateway) ours(local string, node int32, host *string, port *int32) error {
	if node < 0 || *host == "" {
		return nil
	}
	p, err := g.learn(node, net.JoinHostPort(*host, strconv.Itoa(int(*port))))
	if err != nil {
		return err
	}
	*host, *port = local, p
	if g.s.host != "" {
		*host = g.s.host
	}
	return nil
}
