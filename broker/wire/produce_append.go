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
	produceTogether = 64 << 10 // bytes of them that the log gets at once: of more it writes some while others are checked
)

// producing are the batches of one Produce request on their way into the log. The server's context goes with them: what
// was begun is not given up because a client goes away.
type producing struct {
	s     *Server
	txn   produceTxn
	alone bool            // there is one batch at most
	log   broker.Appender // nil: the log has none

	here     []broker.Append // checked one after the other, for the log to take together
	bytes    int             // of them
	queueing sync.WaitGroup  // batches that are checked side by side
	sem      chan struct{}
	left     atomic.Int32  // batches that wait, and one while more may come
	ready    chan struct{} // closed when none is left
	told     func()        // called then; may be nil
}

func (s *Server) newProducing(r *request, req *kmsg.ProduceRequest) *producing {
	p := &producing{
		s: s, txn: produceTxn{id: deref(req.TransactionID), version: r.version},
		alone: len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1, ready: make(chan struct{}), told: r.told,
	}
	p.log, _ = s.log.(broker.Appender)
	p.left.Store(1)
	return p
}

// begin appends a batch. out is written until ready.
func (p *producing) begin(tp record.TopicPartition, batch []byte, out *kmsg.ProduceResponseTopicPartition) {
	p.left.Add(1)
	if p.log != nil && (p.alone || len(batch) <= produceHere) {
		if a, ok := p.check(tp, batch, out); ok {
			p.here, p.bytes = append(p.here, a), p.bytes+len(batch)
		}
		if p.bytes >= produceTogether || p.txn.id != "" {
			p.appendHere() // a batch holds its transaction open: one that is kept back would keep the next from being checked, if the transaction's end waits
		}
		return
	}
	if p.sem == nil {
		p.sem = make(chan struct{}, produceParallel)
	}
	p.sem <- struct{}{}
	p.queueing.Go(func() {
		if a, ok := p.check(tp, batch, out); ok {
			p.append(a)
		}
		<-p.sem
	})
}

// begun waits until all batches have their offsets, so that those of the next request come behind them.
func (p *producing) begun() {
	p.queueing.Wait()
	p.appendHere()
	p.done()
}

func (p *producing) appendHere() {
	if len(p.here) > 0 {
		p.log.AppendThen(p.s.hardCtx, p.here...)
		p.here, p.bytes = nil, 0
	}
}

func (p *producing) done() {
	if p.left.Add(-1) == 0 {
		close(p.ready)
		if p.told != nil {
			p.told()
		}
	}
}

// check says whether a batch may go into the log. Its transaction stays open until the log has answered.
func (p *producing) check(tp record.TopicPartition, batch []byte, out *kmsg.ProduceResponseTopicPartition) (a broker.Append, ok bool) {
	s := p.s
	h, code, err := checkBatch(batch, p.txn.version)
	var leave func()
	if err == nil {
		leave, code, err = s.enterTxn(p.txn, tp, h)
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = code, msgOf(err)
		p.done()
		return a, false
	}
	return broker.Append{TP: tp, Batch: batch, Then: func(res broker.AppendResult, err error) {
		leave()
		appended(res, err, out)
		p.done()
	}}, true
}

// append waits until a batch has its offset; where the log can no better, until it is durable.
func (p *producing) append(a broker.Append) {
	if p.log == nil {
		a.Then(p.s.log.Append(p.s.hardCtx, a.TP, a.Batch))
		return
	}
	p.log.AppendThen(p.s.hardCtx, a)
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
