package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errPollCut ends a connection whose long poll was cut because its peer is gone or the server drains.
var errPollCut = errors.New("long poll was cut")

// api is one row of the table of what the server speaks.
type api struct {
	key      int16
	name     string
	min, max int16 // announced
	served   int16 // lowest version that is answered, when it is above min
	handle   func(*Server, *request) (kmsg.Response, error)
}

// request is one decoded request.
type request struct {
	ctx      context.Context // ends with the connection or the drain
	host     string          // of the peer
	local    string          // host that the client came to
	up       *upstreamConn   // of a gateway
	clientID string
	version  int16
	body     kmsg.Request
	done     func() // called after the answer is sent; may be nil
	mem      lease  // of an answer that is large
	files    files  // of a Fetch answer: batches that stay in them until it is sent
	made     int64  // bytes of the answer, as they are counted
	weight   int64  // of its frame
	drop     func() // nothing of the frame is needed any more: a wait begins
	later    *later // the handler's answer comes when it has returned
	told     func() // called by a handler with a later answer when that is ready; may be nil
	proof    *proof
	proved   func()        // the user is who they say they are
	end      error         // ends the connection after the answer
	mute     time.Duration // nothing more is answered for so long: a quota is used up
}

// later is the answer of a handler that does not wait for it. Until ready is closed, what the request brought is in use.
type later struct {
	ready  <-chan struct{}
	finish func() (kmsg.Response, error)
	last   bool // the next request begins when this one is answered
}

// answer is what goes back: a frame with its length, empty when there is nothing to send.
type answer struct {
	ready <-chan struct{}        // nil, or the answer is what whole gives when it is closed
	whole func() (answer, error) // not called before that
	last  bool                   // see later
	out   []byte
	parts []part // instead of out, when it is large
	files files
	done  func()
	end   error // of the connection, after the answer
	mute  time.Duration
}

func (a answer) release() {
	if a.done != nil {
		a.done()
	}
	a.files.release()
}

// dispatch answers one frame. An error ends the connection.
func (s *Server) dispatch(ctx context.Context, c *conn, f *frame) (answer, error) {
	in := f.body
	if len(in) < 8 {
		return answer{}, fmt.Errorf("%w: %d bytes", errFrame, len(in))
	}
	key := int16(binary.BigEndian.Uint16(in))
	version := int16(binary.BigEndian.Uint16(in[2:]))
	corr := bytes.Clone(in[4:8])
	if err := s.admits(&c.proof, key); err != nil {
		return answer{}, err
	}
	a, ok := s.table[key]
	if !ok && s.gateway != nil {
		return s.gateway.relay(ctx, c, f)
	}
	if !ok {
		return answer{}, fmt.Errorf("%w: api key %d is not served", errFrame, key)
	}
	if lowest := max(a.min, a.served); version < lowest || version > a.max {
		if key == keyAPIVersions { // the client learns from a version 0 answer what to use
			resp, err := s.apiVersionsDowngrade(ctx, c)
			if err != nil {
				return answer{}, err
			}
			return answer{out: encode(corr, resp, false)}, nil
		}
		return answer{}, fmt.Errorf("%w: %s version %d, want %d to %d", errFrame, a.name, version, lowest, a.max)
	}
	leave, err := s.gate(ctx, f)
	if err != nil {
		return answer{}, fmt.Errorf("wait for memory to decode %s: %w", a.name, err)
	}
	r, err := decode(in, key, version)
	leave()
	if err != nil {
		return answer{}, fmt.Errorf("decode %s version %d: %w", a.name, version, err)
	}
	r.weight, r.drop = f.weight, func() { s.letGo(f) }
	in = nil
	r.ctx, r.host, r.local, r.up = ctx, c.host, c.local, c.up
	r.proof, r.proved, r.told = &c.proof, c.proved, c.waiting.ready
	resp, err := a.handle(s, r)
	if l := r.later; l != nil && err == nil {
		return answer{ready: l.ready, last: l.last, mute: r.mute, done: r.mem.release, whole: func() (answer, error) {
			resp, err := l.finish()
			return s.pack(c, a, r, corr, resp, err)
		}}, nil
	}
	return s.pack(c, a, r, corr, resp, err)
}

// pack makes what goes back of what a handler gave.
func (s *Server) pack(c *conn, a api, r *request, corr []byte, resp kmsg.Response, err error) (answer, error) {
	ans := answer{done: r.done, files: r.files, end: r.end, mute: r.mute}
	if r.done == nil {
		ans.done = r.mem.release
	}
	if f, ok := resp.(*kmsg.FetchResponse); ok && err == nil && (c.gathers || len(r.files) > 0) {
		if ans.parts = gather(corr, f, r.files); ans.parts != nil {
			return ans, nil
		}
		if len(r.files) > 0 { // never an answer without them (I4)
			return ans, fmt.Errorf("%s version %d: the answer has fields that do not go with batches in files", a.name, r.version)
		}
	}
	if err == nil && resp != nil {
		ans.out = encode(corr, resp, resp.IsFlexible() && a.key != keyAPIVersions)
		if a.key != keyFetch { // which sees to its own
			err = s.settle(r, len(ans.out))
		}
	}
	if err != nil {
		return ans, fmt.Errorf("%s version %d: %w", a.name, r.version, err)
	}
	return ans, nil
}

func decode(in []byte, key, version int16) (*request, error) {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	clientID, rest, err := readHeader(in[8:], req.IsFlexible())
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if key == keyProduce {
		if err := checkProduceShape(rest, version); err != nil {
			return nil, err
		}
	}
	if err := req.ReadFrom(rest); err != nil {
		return nil, err
	}
	if key != keyProduce && req.IsFlexible() { // of Produce there are few, and nothing of it is kept
		dropTags(reflect.ValueOf(req))
	}
	return &request{clientID: clientID, version: version, body: req}, nil
}

// readHeader reads what follows the correlation id: the client id and, in flexible versions, tags.
func readHeader(b []byte, flexible bool) (clientID string, rest []byte, err error) {
	if len(b) < 2 {
		return "", nil, errFrame
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n > len(b) || n < -1 {
		return "", nil, errFrame
	}
	if n > 0 {
		clientID, b = string(b[:n]), b[n:]
	}
	if flexible {
		if b, err = skipTags(b); err != nil {
			return "", nil, err
		}
	}
	return clientID, b, nil
}

func uvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > 1<<31 {
		return 0, nil, errFrame
	}
	return v, b[n:], nil
}

func skipTags(b []byte) ([]byte, error) {
	_, b, err := countTags(b)
	return b, err
}

// countTags steps over tagged fields and says how many there are.
func countTags(b []byte) (count uint64, rest []byte, err error) {
	num, b, err := uvarint(b)
	count = num
	for ; err == nil && num > 0; num-- {
		if _, b, err = uvarint(b); err != nil {
			break
		}
		var size uint64
		if size, b, err = uvarint(b); err != nil {
			break
		}
		if size > uint64(len(b)) {
			return 0, nil, errFrame
		}
		b = b[size:]
	}
	return count, b, err
}

func encode(corr []byte, resp kmsg.Response, tags bool) []byte {
	hint := 256
	if f, ok := resp.(*kmsg.FetchResponse); ok {
		hint = fetchSize(f)
	}
	out := make([]byte, 4, hint)
	out = append(out, corr...)
	if tags {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}
