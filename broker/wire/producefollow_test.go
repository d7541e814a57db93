package wire

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/record"
)

// lateLog tells of what is durable when the test lets it.
type lateLog struct {
	*local.Log
	durable chan func()
}

func (l *lateLog) AppendThen(ctx context.Context, tp record.TopicPartition, batch []byte, then func(broker.AppendResult, error)) {
	l.Log.AppendThen(ctx, tp, batch, func(res broker.AppendResult, err error) {
		if err != nil {
			then(res, err)
			return
		}
		l.durable <- func() { then(res, err) }
	})
}

// The Produce requests of a connection are begun one behind the other, so that one sync is for all of them; they are answered
// in their order, whichever is durable first, and another request behind them is answered last and sees what they did (I1, I2).
func TestProduceFollowsProduce(t *testing.T) {
	const n = 5
	l, err := local.Open(t.Context(), local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := &lateLog{l, make(chan func(), n)}
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	s := start(t, log, nil)
	nc := dial(t, s)
	for i := range n {
		topic := "t"
		if i == 3 {
			topic = "none" // refused at once, and told of when it is its turn
		}
		if _, err := nc.Write(frameOf(produceRequest(t, -1, topic, fmt.Sprint(i)), 9, int32(i))); err != nil {
			t.Fatal(err)
		}
	}
	ends := kmsg.NewPtrListOffsetsRequest()
	lt := kmsg.NewListOffsetsRequestTopic()
	lp := kmsg.NewListOffsetsRequestTopicPartition()
	lp.Timestamp = -1
	lt.Topic, lt.Partitions = "t", append(lt.Partitions, lp)
	ends.Topics = append(ends.Topics, lt)
	if _, err := nc.Write(frameOf(ends, 5, n)); err != nil {
		t.Fatal(err)
	}
	// The three before the one that is refused are all begun before the first of them is told of.
	var then []func()
	for range 3 {
		then = append(then, <-log.durable)
	}
	for i := range then {
		then[len(then)-1-i]()
	}
	for i, want := range []int64{0, 1, 2, -1} {
		corr, body := readAnswer(t, nc)
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		if err := resp.ReadFrom(body[1:]); err != nil {
			t.Fatal(err)
		}
		p := resp.Topics[0].Partitions[0]
		if corr != int32(i) || p.BaseOffset != want || (p.ErrorCode != 0) != (want < 0) {
			t.Fatalf("answer %d: correlation %d, offset %d, code %d", i, corr, p.BaseOffset, p.ErrorCode)
		}
	}
	(<-log.durable)()
	if corr, _ := readAnswer(t, nc); corr != n-1 {
		t.Fatalf("answer %d instead of the last batch's", corr)
	}
	corr, body := readAnswer(t, nc)
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Version = 5
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if p := resp.Topics[0].Partitions[0]; corr != n || p.Offset != n-1 {
		t.Fatalf("the end behind them: correlation %d, %+v", corr, p)
	}
}
