package wire

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// stuckLog takes a batch only when it is let, or its context ends.
type stuckLog struct {
	*memLog
	in, let chan struct{}
}

func (l *stuckLog) Append(ctx context.Context, tp record.TopicPartition, batch []byte) (broker.AppendResult, error) {
	l.in <- struct{}{}
	select {
	case <-l.let:
		return l.memLog.Append(ctx, tp, batch)
	case <-ctx.Done():
		return broker.AppendResult{}, ctx.Err()
	}
}

func stuck(t *testing.T, drain time.Duration) (*stuckLog, *Server) {
	t.Helper()
	log := &stuckLog{memLog: newMemLog(t), in: make(chan struct{}, 1), let: make(chan struct{})}
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Log: log, DrainTimeout: drain})
	if err != nil {
		t.Fatal(err)
	}
	return log, s
}

// A server that is closed answers what it has read, takes nothing new, and ends long polls (I1: who is told of a batch can
// rely on it, and who has sent one is told).
func TestDrainAnswers(t *testing.T) {
	log, s := stuck(t, time.Hour)
	nc, poll := dial(t, s), dial(t, s)
	longPoll(t, poll, 1)
	until(t, within(t, patience), "the poll is read", func() bool { return s.metrics.requests[keyFetch].Load() == 1 })
	req := produceRequest(t, -1, "t", "x")
	if _, err := nc.Write(frameOf(req, 9, 3)); err != nil {
		t.Fatal(err)
	}
	<-log.in
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if n, err := io.Copy(io.Discard, poll); n != 0 || err != nil { // ends with the drain, whose time has hours to go
		t.Errorf("the long poll: %d bytes, %v", n, err)
	}
	if late, err := net.Dial("tcp", s.Addr().String()); err == nil {
		if _, err := late.Read(make([]byte, 1)); err == nil {
			t.Error("a connection after Close is served")
		}
		_ = late.Close()
	}
	close(log.let)
	corr, body := readAnswer(t, nc)
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	if err := resp.ReadFrom(body[1:]); err != nil || corr != 3 || resp.Topics[0].Partitions[0].ErrorCode != codeNone {
		t.Errorf("request %d: %+v, %v", corr, resp, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if n, err := io.Copy(io.Discard, nc); n != 0 || err != nil {
		t.Errorf("behind the last answer: %d bytes, %v", n, err)
	}
}

// What does not end in the time to drain is cut: Close returns, and the batch is not acknowledged.
func TestDrainCuts(t *testing.T) {
	log, s := stuck(t, time.Millisecond)
	nc := dial(t, s)
	if _, err := nc.Write(frameOf(produceRequest(t, -1, "t", "x"), 9, 3)); err != nil {
		t.Fatal(err)
	}
	<-log.in
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out, _ := io.ReadAll(nc); len(out) > 0 {
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		if err := resp.ReadFrom(out[9:]); err != nil || resp.Topics[0].Partitions[0].ErrorCode == codeNone {
			t.Errorf("acknowledged: %+v, %v", resp, err)
		}
	}
}
