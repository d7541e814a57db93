package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// fakeBroker answers as a test says. It checks that every client logs in first.
type fakeBroker struct {
	t      *testing.T
	listen net.Listener
	answer func(c *conn, cmd int, body []byte) // of one command
}

func newFake(t *testing.T, answer func(c *conn, cmd int, body []byte)) *fakeBroker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeBroker{t: t, listen: l, answer: answer}
	t.Cleanup(func() { _ = l.Close() })
	go f.accept()
	return f
}

func (f *fakeBroker) addr() string { return f.listen.Addr().String() }

func (f *fakeBroker) accept() {
	for {
		nc, err := f.listen.Accept()
		if err != nil {
			return
		}
		go f.serve(nc)
	}
}

func (f *fakeBroker) serve(nc net.Conn) {
	defer nc.Close()
	c := &conn{nc: nc, maxFrame: 1 << 20}
	in := bufio.NewReader(nc)
	greeted := false
	for {
		cmd, body, _, err := c.frame(in)
		if err != nil {
			return
		}
		if cmd != cmdConnect && !greeted {
			f.t.Errorf("command %d before CONNECT", cmd)
			return
		}
		if cmd == cmdConnect {
			greeted = true
			_ = c.send(cmdConnected, pbfield.AppendInt(pbfield.AppendString(nil, 1, "fake"), 3, 1<<20))
			continue
		}
		f.answer(c, cmd, body)
	}
}

func uintField(body []byte, num int) uint64 {
	r := pbfield.Read(body)
	for r.Next() {
		if f := r.Field(); f.Num == num {
			return f.Uint
		}
	}
	return 0
}

func lookupAnswer(id uint64, url string, kind uint64) []byte {
	b := pbfield.AppendString(nil, 1, "pulsar://"+url)
	return pbfield.AppendBool(pbfield.AppendUint(pbfield.AppendUint(b, 3, kind), 4, id), 5, true)
}

// message is a frame with an entry of one message.
func message(consumer uint64, ledger, entry int64, value string) []byte {
	meta := pbfield.AppendInt(pbfield.AppendInt(pbfield.AppendString(nil, 1, "p"), 2, 0), 3, 1)
	payload := append(binary.BigEndian.AppendUint32(nil, uint32(len(meta))), meta...)
	payload = append(payload, value...)
	m := base(cmdMessage, appendID(pbfield.AppendUint(nil, 1, consumer), 2, MessageID{ledger, entry, -1}))
	b := binary.BigEndian.AppendUint32(nil, uint32(len(m)+4+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
	return append(append(b, m...), payload...)
}

func newTestClient(t *testing.T, addr string) *Client {
	t.Helper()
	c, err := New(Config{Service: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestSubscriptionFollowsRedirections: the broker that a look-up names in the end is the one that is subscribed at; what
// is asked for is what the messages received leave, and the end of the connection is an error.
func TestSubscriptionFollowsRedirections(t *testing.T) {
	const connect, redirect = 1, 0
	var owner *fakeBroker
	asked := uint64(0)
	owner = newFake(t, func(c *conn, cmd int, body []byte) {
		switch cmd {
		case cmdLookup:
			if uintField(body, 3) != 1 {
				t.Error("the second look-up is not authoritative, though the first answer was")
			}
			_ = c.send(cmdLookupIs, lookupAnswer(uintField(body, 2), owner.addr(), connect))
		case cmdSubscribe:
			if uintField(body, 15) != 0 || !bytes.Contains(body, []byte("topic")) {
				t.Error("the subscription would make the topic")
			}
			_ = c.send(cmdSuccess, pbfield.AppendUint(nil, 1, uintField(body, 5)))
		case cmdFlow:
			before := asked
			asked += uintField(body, 2)
			for i := before; i < asked && i < 100; i++ {
				_, _ = c.nc.Write(message(uintField(body, 1), 7, int64(i), "v"))
			}
			if asked >= 100 {
				_ = c.nc.Close()
			}
		}
	})
	first := newFake(t, func(c *conn, cmd int, body []byte) {
		if cmd == cmdLookup {
			_ = c.send(cmdLookupIs, lookupAnswer(uintField(body, 2), owner.addr(), redirect))
		}
	})
	client := newTestClient(t, "127.0.0.1:1,"+first.addr()) // the first one is down
	k, err := client.Subscribe(t.Context(), Subscription{Topic: "persistent://a/b/topic", Name: "s", Start: MessageID{7, 0, -1}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(100) {
		d, err := k.Receive(t.Context())
		if err != nil || d.ID != (MessageID{7, i, -1}) || string(d.Entry.Payload) != "v" || d.Corrupt != nil {
			t.Fatalf("message %d: %+v, %v", i, d.ID, err)
		}
	}
	if _, err := k.Receive(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("the end of the connection gave %v", err)
	}
}

// TestRefusalsAreErrors: what a broker refuses comes with its words, and a request ends with its connection.
func TestRefusalsAreErrors(t *testing.T) {
	f := newFake(t, func(c *conn, cmd int, body []byte) {
		switch cmd {
		case cmdPartitions:
			b := pbfield.AppendUint(pbfield.AppendUint(nil, 2, uintField(body, 2)), 3, 1)
			_ = c.send(cmdPartitionsIs, pbfield.AppendString(pbfield.AppendUint(b, 4, CodeAuthorization), 5, "not for you"))
		case cmdTopics:
			_ = c.nc.Close()
		}
	})
	client := newTestClient(t, f.addr())
	_, err := client.Partitions(t.Context(), "persistent://a/b/c")
	var refused *ServerError
	if !errors.As(err, &refused) || refused.Code != CodeAuthorization || !strings.Contains(err.Error(), "not for you") || refused.Passing() {
		t.Errorf("a refusal gave %v", err)
	}
	if _, err := client.Topics(t.Context(), "a/b", ""); !errors.Is(err, ErrLost) {
		t.Errorf("a closed connection gave %v", err)
	}
	client.Close()
	if _, err := client.Partitions(t.Context(), "persistent://a/b/c"); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed client gave %v", err)
	}
}

// FuzzFrames: whatever a broker sends ends the connection at worst (I8).
func FuzzFrames(f *testing.F) {
	f.Add(message(1, 2, 3, "v"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		defer theirs.Close()
		c := &conn{nc: ours, maxFrame: 1 << 20, calls: map[uint64]chan answer{1: make(chan answer, 1)}, consumers: map[uint64]*Consumer{}, done: make(chan struct{}),
			auth: Auth{Data: func(context.Context) ([]byte, error) { return nil, nil }}}
		k := &Consumer{c: c, target: 1, wake: make(chan struct{}, 1)}
		c.consumers[1] = k
		in := bufio.NewReader(bytes.NewReader(b))
		for {
			cmd, body, rest, err := c.frame(in)
			if err != nil {
				break
			}
			if c.take(cmd, body, rest) != nil {
				break
			}
		}
		for {
			_, ok, err := k.TryReceive()
			if !ok || err != nil {
				break
			}
		}
		_ = ours.Close()
	})
}
