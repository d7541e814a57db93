package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lateNode is a node that answers what it must to be known, and other requests only once so many of them have come: then
// in their order, each with its number among them as the throttle time.
type lateNode struct {
	ln   net.Listener
	wait int
}

func newLateNode(t *testing.T, wait int) *lateNode {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	n := &lateNode{ln: ln, wait: wait}
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				if err := n.serve(nc); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
					fmt.Println("late node:", err) // the client's test fails by what is missing
				}
			}()
		}
	}()
	return n
}

func (n *lateNode) serve(nc net.Conn) error {
	var late [][]byte
	for count := int32(0); ; {
		var head [4]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			return err
		}
		in := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(nc, in); err != nil {
			return err
		}
		key, version := int16(binary.BigEndian.Uint16(in)), int16(binary.BigEndian.Uint16(in[2:]))
		resp := kmsg.ResponseForKey(key)
		resp.SetVersion(version)
		switch r := resp.(type) {
		case *kmsg.ApiVersionsResponse:
			for _, k := range []int16{keyMetadata, 12, 13, 18} {
				a := kmsg.NewApiVersionsResponseApiKey()
				a.ApiKey, a.MaxVersion = k, kmsg.RequestForKey(k).MaxVersion()
				r.ApiKeys = append(r.ApiKeys, a)
			}
		case *kmsg.HeartbeatResponse:
			r.ThrottleMillis = count
			count++
		}
		out := encode(in[4:8], resp, resp.IsFlexible() && key != keyAPIVersions)
		if key == 12 {
			if late = append(late, out); len(late) < n.wait {
				continue
			}
		}
		for _, b := range append(late, out)[:max(1, len(late))] {
			if _, err := nc.Write(b); err != nil {
				return err
			}
		}
		late = nil
	}
}

// Requests of one connection are with the cluster together, though none of them is answered yet, and the answers come
// back in their order, each to its own request.
func TestGatewayPipelines(t *testing.T) {
	const together = pipelineDepth - 1
	n := newLateNode(t, together)
	s := start(t, nil, func(cfg *Config) {
		cfg.Upstream = &Upstream{Seeds: []string{n.ln.Addr().String()}, Lake: &fakeLake{}, Dial: dialPlain}
	})
	nc := dial(t, s)
	var out []byte
	for i := range int32(3 * together) {
		out = append(out, frameOf(kmsg.NewPtrHeartbeatRequest(), 4, 1000+i)...)
		if i%together == together-1 { // one that the gateway answers itself waits for its turn
			out = append(out, frameOf(kmsg.NewPtrApiVersionsRequest(), 3, 5000+i)...)
		}
	}
	if _, err := nc.Write(out); err != nil {
		t.Fatal(err)
	}
	for i := range int32(3 * together) {
		corr, body := readAnswer(t, nc)
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.Version = 4
		if err := resp.ReadFrom(body[1:]); err != nil || corr != 1000+i || resp.ThrottleMillis != i {
			t.Fatalf("answer %d: to request %d, the cluster's to its %d, %v", i, corr-1000, resp.ThrottleMillis, err)
		}
		if i%together == together-1 {
			if corr, _ := readAnswer(t, nc); corr != 5000+i {
				t.Fatalf("answer to request %d where the gateway's own belongs", corr)
			}
		}
	}
}

// A node that goes away with requests of a client ends that client's connection, and nothing of it is left (I8).
func TestGatewayPipelineBreaks(t *testing.T) {
	n := newLateNode(t, 1000)
	d := &counted{}
	s := start(t, nil, func(cfg *Config) {
		cfg.Upstream = &Upstream{Seeds: []string{n.ln.Addr().String()}, Lake: &fakeLake{}, Dial: d.dial}
	})
	ctx := within(t, patience)
	leaves, breaks := dial(t, s), dial(t, s)
	for i := range int32(5) {
		for _, nc := range []net.Conn{leaves, breaks} {
			if _, err := nc.Write(frameOf(kmsg.NewPtrHeartbeatRequest(), 4, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, ctx, "both clients have a connection to the cluster", func() bool { return d.open.Load() == 2 })
	_ = leaves.Close()
	until(t, ctx, "a client that leaves takes its connection with it", func() bool { return d.open.Load() == 1 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := breaks.Read(make([]byte, 1)); err == nil {
		t.Error("an answer, though the cluster gave none")
	}
	if open := d.open.Load(); open != 0 {
		t.Errorf("%d connections to the cluster are open", open)
	}
}

// Records of a producer with several requests on the way come in their order (I2), through the gateway as without it.
func TestGatewayKeepsOrder(t *testing.T) {
	c, s := throughGateway(t, &fakeLake{}, nil)
	ctx := within(t, patience)
	cl := client(t, s, onlyOurs(t, c), kgo.ProducerLinger(0), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	const n = 2000
	for i := range n {
		cl.Produce(ctx, &kgo.Record{Topic: "t", Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for i, r := range consume(t, ctx, client(t, s, onlyOurs(t, c), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), n) {
		if string(r.Value) != fmt.Sprint(i) || r.Offset != int64(i) {
			t.Fatalf("record %d is %s at offset %d", i, r.Value, r.Offset)
		}
	}
}
