package wire

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	produceParallel = 64       // batches of one request that are checked at a time
	produceHere     = 16 << 10 // batches up to this size are checked one after the other
)

// producing are the batches of one Produce request on their way into the log. The server's context goes with them: what
// was begun is not given up because a client goes away.
type producing struct {
	s     *Server
	txn   produceTxn
	alone bool            // there is one batch at most
	log   broker.Appender // nil: the log has none

	queueing sync.WaitGroup // batches without an offset yet
	sem      chan struct{}
	left     atomic.Int32  // batches that wait, and one while more may come
	ready    chan struct{} // closed when none is left
}

func (s *Server) newProducing(r *request, req *kmsg.ProduceRequest) *producing {
	p := &producing{
		s: s, txn: produceTxn{id: deref(req.TransactionID), version: r.version},
		alone: len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1, ready: make(chan struct{}),
	}
	p.log, _ = s.log.(broker.Appender)
	p.left.Store(1)
	return p
}

// begin appends a batch. out is written until ready.
func (p *producing) begin(tp record.TopicPartition, batch []byte, out *kmsg.ProduceResponseTopicPartition) {
	p.left.Add(1)
	if p.alone || p.log != nil && len(batch) <= produceHere {
		p.append(tp, batch, out)
		return
	}
	if p.sem == nil {
		p.sem = make(chan struct{}, produceParallel)
	}
	p.sem <- struct{}{}
	p.queueing.Go(func() {
		p.append(tp, batch, out)
		<-p.sem
	})
}

// begun waits until all batches have their offsets, so that those of the next request come behind them.
func (p *producing) begun() {
	p.queueing.Wait()
	p.done()
}

func (p *producing) done() {
	if p.left.Add(-1) == 0 {
		close(p.ready)
	}
}

// append checks a batch and gives it to the log, and waits until it has its offset; where the log can no better, until it is
// durable. The transaction of the batch stays open until then.
func (p *producing) append(tp record.TopicPartition, batch []byte, out *kmsg.ProduceResponseTopicPartition) {
	s := p.s
	h, code, err := checkBatch(batch, p.txn.version)
	var leave func()
	if err == nil {
		leave, code, err = s.enterTxn(p.txn, tp, h)
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = code, msgOf(err)
		p.done()
		return
	}
	then := func(res broker.AppendResult, err error) {
		leave()
		appended(res, err, out)
		p.done()
	}
	if p.log == nil {
		then(s.log.Append(s.hardCtx, tp, batch))
		return
	}
	p.log.AppendThen(s.hardCtx, tp, batch, then)
}

// appended puts what the Log said of a batch into the answer. The log's own goroutine calls it: it does not block.
func appended(res broker.AppendResult, err error, out *kmsg.ProduceResponseTopicPartition) {
	if err != nil {
		out.ErrorCode, out.ErrorMessage, out.ErrorRecords = codeOf(err), msgOf(err), errorRecords(err)
		return
	}
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = int64(res.Base), res.LogAppendTime, int64(res.LogStart)
}

// errorRecords tells a producer which records of its batch are at fault, so that it can send the others again (KIP-467).
func errorRecords(err error) (out []kmsg.ProduceResponseTopicPartitionErrorRecord) {
	var e *broker.RecordsError
	if !errors.As(err, &e) {
		return nil
	}
	for _, i := range e.Records {
		o := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		o.RelativeOffset, o.ErrorMessage = i, &e.Reason
		out = append(out, o)
	}
	return out
}
