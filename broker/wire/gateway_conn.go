package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// upstreamRest is how long a connection to the cluster may rest. Behind it comes a new one: the cluster closes what
	// is idle, after ten minutes unless it is told otherwise, and that would be seen only when the request is on its way.
	upstreamRest = 4 * time.Minute
	// loginMargin is how long before the end of a log-in a new one is made.
	loginMargin = 10 * time.Second
	// gatewayClient names us where a request is our own and no client's.
	gatewayClient = "ledgerlake-gateway"
)

// upstreamConn is a connection to a node of the cluster on behalf of one client, made when it is first needed. One
// goroutine uses it at a time, but for await.
type upstreamConn struct {
	g    *gateway
	node int32 // anyNode: whichever answers

	nc       net.Conn // nil: not connected
	br       *bufio.Reader
	versions *kmsg.ApiVersionsResponse // of the node
	ranges   map[int16]kmsg.ApiVersionsResponseApiKey
	expires  time.Time // of the log-in; zero: never
	used     time.Time
	corr     int32
}

func (u *upstreamConn) close() {
	if u.nc != nil {
		_ = u.nc.Close()
		u.nc = nil
	}
}

// fresh says whether the connection will do for another request.
func (u *upstreamConn) fresh() bool {
	now := time.Now()
	return u.nc != nil && now.Sub(u.used) < upstreamRest && (u.expires.IsZero() || now.Add(loginMargin).Before(u.expires))
}

// ready connects where there is no connection, or none that will do for another request.
func (u *upstreamConn) ready(ctx context.Context) error {
	if u.fresh() {
		return nil
	}
	u.close()
	var errs []error
	for _, addr := range u.g.addresses(u.node) {
		err := u.connect(ctx, addr)
		if err == nil {
			return nil
		}
		u.close()
		if ctx.Err() == nil {
			u.g.s.metrics.failures.Add(1)
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("%w: %v", errUpstream, errors.Join(errs...)) // %v: an EOF of the node is none of the client
}

func (u *upstreamConn) connect(ctx context.Context, addr string) (err error) {
	if u.nc, u.expires, err = u.g.up.Dial(ctx, addr); err != nil {
		u.nc = nil
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, u.g.s.cfg.IOTimeout)
	defer cancel()
	u.br, u.used = bufio.NewReaderSize(u.nc, 16<<10), time.Now()
	for _, version := range []int16{4, 3, 0} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, gatewayClient, "1"
		resp := kmsg.NewPtrApiVersionsResponse()
		mem, err := u.ask(ctx, req, resp, gatewayClient)
		if err != nil {
			return fmt.Errorf("ask %s for its versions: %w", addr, err)
		}
		mem.release()
		if resp.ErrorCode == codeNone {
			u.versions, u.ranges = resp, map[int16]kmsg.ApiVersionsResponseApiKey{}
			for _, k := range resp.ApiKeys {
				u.ranges[k.ApiKey] = k
			}
			u.g.says(u.node, resp)
			return nil
		}
	}
	return fmt.Errorf("%s does not tell the versions that it speaks", addr)
}

// speaks gives the version of a key to use of those up to most, false when the node has none.
func (u *upstreamConn) speaks(key, most int16) (int16, bool) {
	k, ok := u.ranges[key]
	return min(k.MaxVersion, most), ok && k.MinVersion <= most
}

// exchange sends a request without its length and gives the answer with it. The memory of the answer is weight times its
// size; lend takes it before the answer is read. sent, when it is not nil, is called when the request is not needed any
// more. quiet is for a request that is not answered. After an error the connection is closed.
func (u *upstreamConn) exchange(ctx context.Context, req []byte, x exchange) (out []byte, mem *lease, err error) {
	began := time.Now()
	corr, err := u.submit(ctx, req, x)
	if err == nil && !x.quiet {
		out, mem, err = u.await(ctx, corr, x)
	}
	if err == nil && !x.wait && !x.quiet {
		u.g.s.metrics.took(began)
	}
	if u.used = time.Now(); err != nil {
		u.close()
	}
	return out, mem, err
}

// submit sends a request, whose answer has the number that it gives.
func (u *upstreamConn) submit(ctx context.Context, req []byte, x exchange) (corr int32, err error) {
	defer u.cuts(ctx, x, &err)()
	u.corr++
	binary.BigEndian.PutUint32(req[4:], uint32(u.corr))
	if err := u.send(req); err != nil {
		return 0, fmt.Errorf("%w: send: %v", errUpstream, err)
	}
	if x.sent != nil {
		x.sent()
	}
	return u.corr, nil
}

// await reads the next answer, which is to be that of a request. It may run while others are submitted.
func (u *upstreamConn) await(ctx context.Context, corr int32, x exchange) (out []byte, mem *lease, err error) {
	defer u.cuts(ctx, x, &err)()
	return u.receive(ctx, corr, x)
}

// cuts closes the connection when ctx, or the time to drain, ends before the function that it gives is called.
func (u *upstreamConn) cuts(ctx context.Context, x exchange, err *error) (done func()) {
	s, nc := u.g.s, u.nc
	cut := func() { _ = nc.Close() }
	soft := context.AfterFunc(ctx, func() {
		if x.wait || s.pollCtx.Err() == nil { // what does not wait may end while the server drains
			cut()
		}
	})
	hard := context.AfterFunc(s.hardCtx, cut)
	return func() {
		soft()
		hard()
		switch {
		case *err == nil:
		case ctx.Err() != nil:
			*err = errors.Join(errPollCut, *err)
		default:
			s.metrics.failures.Add(1)
		}
	}
}

// exchange says how a request is sent.
type exchange struct {
	weight int64 // of each byte of the answer, decoded
	wait   bool  // it may wait for minutes: a drain cuts it
	quiet  bool  // there is no answer
	sent   func()
	lend   func(ctx context.Context, n int64) (*lease, error)
}

// patience is how long a part of an exchange may take whose size is known.
func (u *upstreamConn) patience(size int64) time.Time {
	return time.Now().Add(u.g.s.cfg.IOTimeout * time.Duration(1+size/ioChunk))
}

func (u *upstreamConn) send(req []byte) error {
	_ = u.nc.SetWriteDeadline(u.patience(int64(len(req))))
	parts := net.Buffers{binary.BigEndian.AppendUint32(make([]byte, 0, 4), uint32(len(req))), req}
	_, err := parts.WriteTo(u.nc)
	return err
}

func (u *upstreamConn) receive(ctx context.Context, want int32, x exchange) (out []byte, mem *lease, err error) {
	_ = u.nc.SetReadDeadline(time.Time{}) // the node may wait, as it was asked to; the client gives up before us
	head, err := u.br.Peek(8)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %v", errUpstream, err)
	}
	size, corr := int64(int32(binary.BigEndian.Uint32(head))), int32(binary.BigEndian.Uint32(head[4:]))
	if most := u.g.s.cfg.answerMemory(); size < 4 || size > most {
		return nil, nil, fmt.Errorf("%w: an answer of %d bytes, want 4 to %d: give the Kafka port more memory?", errUpstream, size, most)
	}
	if corr != want {
		return nil, nil, fmt.Errorf("%w: it answers request %d, asked was %d", errUpstream, corr, want)
	}
	mem = &lease{}
	if size > smallAnswer {
		if mem, err = x.lend(ctx, max(x.weight, 1)*size); err != nil {
			return nil, nil, err
		}
	}
	_ = u.nc.SetReadDeadline(u.patience(size))
	out = make([]byte, 4+size)
	if _, err := io.ReadFull(u.br, out); err != nil {
		mem.release()
		return nil, nil, fmt.Errorf("%w: %v", errUpstream, err)
	}
	return out, mem, nil
}

// ask sends a request of ours, or one that was changed, and reads the answer into resp. The lease is for resp as long as
// it is used.
func (u *upstreamConn) ask(ctx context.Context, req kmsg.Request, resp kmsg.Response, clientID string) (*lease, error) {
	return u.askWith(ctx, req, resp, clientID, exchange{weight: answerWeight, lend: u.g.s.waitLease})
}

func (u *upstreamConn) askWith(ctx context.Context, req kmsg.Request, resp kmsg.Response, clientID string, x exchange) (*lease, error) {
	raw := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, 0)
	out, mem, err := u.exchange(ctx, raw[4:], x)
	if err != nil {
		return nil, err
	}
	resp.SetVersion(req.GetVersion())
	if err := decodeAnswer(out, resp); err != nil {
		mem.release()
		u.close()
		return nil, fmt.Errorf("%w: decode its answer to key %d version %d: %w", errUpstream, req.Key(), req.GetVersion(), err)
	}
	return mem, nil
}

// decodeAnswer decodes an answer with its length. Bytes in it stay where they are.
func decodeAnswer(out []byte, resp kmsg.Response) (err error) {
	body := out[8:]
	if resp.IsFlexible() && resp.Key() != keyAPIVersions {
		if body, err = skipTags(body); err != nil {
			return err
		}
	}
	if resp.Key() == keyAPIVersions && len(body) >= 2 && int16(binary.BigEndian.Uint16(body)) == codeUnsupportedVersion {
		resp.SetVersion(0) // which is how every broker says this
	}
	return resp.ReadFrom(body)
}

// learnNodes asks for the nodes of the cluster.
func (u *upstreamConn) learnNodes(ctx context.Context) error {
	req, resp := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataResponse()
	version, ok := u.speaks(req.Key(), req.MaxVersion())
	if !ok || version < 1 {
		return fmt.Errorf("%w: it is older than Kafka 0.10", errUpstream)
	}
	req.Version, req.Topics = version, []kmsg.MetadataRequestTopic{}
	mem, err := u.ask(ctx, req, resp, gatewayClient)
	if err != nil {
		return err
	}
	defer mem.release()
	for i := range resp.Brokers {
		b := &resp.Brokers[i]
		if _, err := u.g.learn(b.NodeID, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))); err != nil {
			return err
		}
	}
	return nil
}
