package wire

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// slowLog holds up the appends to one topic: each says that it has come, and waits.
type slowLog struct {
	*memLog
	topic     string
	came, let chan struct{}
}

func (l slowLog) Append(ctx context.Context, tp record.TopicPartition, batch []byte) (broker.AppendResult, error) {
	if tp.Topic == l.topic {
		l.came <- struct{}{}
		<-l.let
	}
	return l.memLog.Append(ctx, tp, batch)
}

// I4: while positions of a member are on their way into a transaction, the member may lose its partitions, and their next
// owner asks for stable positions. It must not be told those that the transaction is about to replace: both would
// read the same records, and both transactions commit (KIP-447).
func TestTxnOffsetsOfAMemberThatIsGone(t *testing.T) {
	ctx := within(t, 20*time.Second)
	log := slowLog{memLog: txnLog(t), topic: TransactionsTopic, came: make(chan struct{}), let: make(chan struct{})}
	pass := func() { <-log.came; log.let <- struct{}{} }
	s := start(t, log, nil)
	go pass() // of init
	p, err := s.txns.init(ctx, "x", time.Minute, nop)
	if err != nil {
		t.Fatal(err)
	}
	member, err := s.groups.join(ctx, joinOf(""))
	if err != nil || member.code != codeNone {
		t.Fatalf("join: %+v %v", member, err)
	}
	stable := func() int16 {
		req := kmsg.NewPtrOffsetFetchRequest()
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group, rg.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
		req.Groups, req.RequireStable = append(req.Groups, rg), true
		return handle(t, s, s.offsetFetch, req, 8).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0].ErrorCode
	}
	toc := kmsg.NewPtrTxnOffsetCommitRequest()
	toc.TransactionalID, toc.Group, toc.ProducerID, toc.ProducerEpoch = "x", "g", p.id, p.epoch
	toc.MemberID, toc.Generation = member.member, member.generation
	toc.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 9}}}}
	commit := func() int16 {
		return handle(t, s, s.txnOffsetCommit, toc, 5).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}
	got := make(chan int16, 1)
	go func() { got <- commit() }()
	<-log.came // the member was looked at, and its positions are not in the transaction yet
	if code := s.groups.leave("g", member.member, ""); code != codeNone {
		t.Fatal(code)
	}
	during := stable()
	log.let <- struct{}{}
	if code := <-got; code != codeNone {
		t.Fatalf("the commit of positions: %d", code)
	}
	if after := stable(); during != codeUnstableOffsetCommit || after != codeUnstableOffsetCommit {
		t.Fatalf("the next owner is told %d, and %d when the transaction has the positions; want %d", during, after, codeUnstableOffsetCommit)
	}
	if code := commit(); code != codeUnknownMemberID && code != codeIllegalGeneration {
		t.Fatalf("the commit of a member that is gone: %d", code)
	}
	go func() { pass(); pass() }() // the decision and the end
	if _, err := s.txns.end(ctx, "x", p, false, true); err != nil {
		t.Fatal(err)
	}
	if code := stable(); code != codeNone {
		t.Fatalf("%d after the transaction was aborted", code)
	}
}
