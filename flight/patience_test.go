package flight_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	aflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/ledgerlake/ledgerlake/flight"
)

// until waits for something that a server does in its own time, which on a busy machine may be long.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for end := time.Now().Add(2 * time.Minute); !is(); <-every.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not so", what)
		}
	}
}

// free says whether there is a place for a stream.
func (r *rig) free() bool {
	_, _, err := r.get(`{"topic":"events","limit":1,"columns":["n"]}`, 2)
	return err == nil
}

func (r *rig) leases() int {
	r.t.Helper()
	leases, err := r.table.Leases(r.t.Context(), time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	return len(leases)
}

// A client that is there and takes nothing does not keep its place, nor the lease of its read (I6, I8). Other streams of
// its connection go on.
func TestClientThatTakesNothing(t *testing.T) {
	r := newRig(t, flight.Config{MaxStreams: 2, SendTimeout: 3 * time.Second})
	r.append(0, 1)
	following, err := r.client.DoGet(t.Context(), &aflight.Ticket{Ticket: []byte(`{"topic":"events","columns":["n"],"follow":true}`)})
	if err == nil {
		_, err = following.Header() // which comes with the schema and the first batch
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := range 8 { // files, and so batches: more than what is on the way at one time
		r.appendValue(fmt.Sprintf(`{"n":%d,"p":"%s"}`, n, strings.Repeat("x", 200<<10)))
		r.tier()
	}
	stuck, err := r.client.DoGet(t.Context(), &aflight.Ticket{Ticket: []byte(`{"topic":"events"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stuck.Recv(); err != nil { // the schema
		t.Fatal(err)
	}
	until(t, "the read has a lease", func() bool { return r.leases() == 1 })
	until(t, "the place is free", r.free)
	until(t, "the lease is given back", func() bool { return r.leases() == 0 })
	for err == nil {
		_, err = stuck.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "token") {
		t.Errorf("what the client is told: %v", err)
	}
	const last = 1000
	r.append(last, last+1)
	in, err := aflight.NewRecordReader(following)
	if err != nil {
		t.Fatalf("another stream of the connection: %v", err)
	}
	defer in.Release()
	for got := int64(0); got < last; {
		rb, err := in.Read()
		if err != nil {
			t.Fatalf("another stream of the connection: %v", err)
		}
		got = rb.Column(0).(*array.Int64).Value(int(rb.NumRows()) - 1)
	}
}

// A client that went away without a word does not keep its place.
func TestClientThatIsGone(t *testing.T) {
	r := newRig(t, flight.Config{MaxStreams: 1, KeepAlive: time.Second})
	r.append(0, 1)
	wire := newLine(t, r.addr)
	client, err := aflight.NewClientWithMiddleware(wire.addr, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stream, err := client.DoGet(t.Context(), &aflight.Ticket{Ticket: []byte(`{"topic":"events","follow":true}`)})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.free() {
		t.Fatal("there is a place beside the only one")
	}
	wire.cut.Store(true)
	until(t, "the place is free", r.free)
}

// line is a connection's way through the network, which may be cut so that neither side hears of it.
type line struct {
	addr string
	cut  atomic.Bool
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out := &line{addr: l.Addr().String()}
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", to)
			if err != nil {
				_ = a.Close()
				return
			}
			t.Cleanup(func() { _, _ = a.Close(), b.Close() })
			go out.copy(a, b)
			go out.copy(b, a)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return out
}

// copy carries bytes, and loses them once the line is cut.
func (l *line) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err == nil && !l.cut.Load() {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}
