package wire

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/wire/share"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// shareGiving is one ShareFetch that looks for records to give, until it has some or its time is over.
type shareGiving struct {
	s       *Server
	r       *request
	who     shareReader
	session *shareSession
	answer  *shareAnswer
	cfg     groupConfig
	limits  share.Limits
	claim   share.Claim // without its time
	most    int         // bytes
	until   time.Time

	taken  int64                   // records that were given
	failed bool                    // a partition has an error: nobody waits
	moved  bool                    // there is something new to look at
	waits  []broker.FetchRange     // where the next record may come
	busy   []shareKey              // somebody else reads the log for them
	topics map[[16]byte]shareTopic // looked up once in a round
}

type shareTopic struct {
	name string
	err  error
}

func newShareGiving(s *Server, r *request, req *kmsg.ShareFetchRequest, who shareReader, session *shareSession, a *shareAnswer) *shareGiving {
	cfg := s.tuned.of(who.group)
	wait := min(time.Duration(req.MaxWaitMillis)*time.Millisecond, maxFetchWait)
	return &shareGiving{
		s: s, r: r, who: who, session: session, answer: a, cfg: cfg, limits: cfg.limits(),
		claim: share.Claim{Owner: who.member, Max: int64(req.MaxRecords), Whole: req.ShareAcquireMode == 0},
		most:  min(max(int(req.MaxBytes), 1), smallAnswer), until: time.Now().Add(wait), topics: map[[16]byte]shareTopic{},
	}
}

// give fills the answer. What was given is in it, durably: an error, which is that of the request's context or of memory, is only
// for who was given nothing.
func (g *shareGiving) give() error {
	parts := g.s.reading.partitions(g.session)
	if g.claim.Max <= 0 || len(parts) == 0 {
		return nil
	}
	leave, mayWait := g.s.mayPoll(g.r)
	defer leave()
	for {
		bell, begun := g.s.shares.bell(g.who.group)
		err := g.round(parts, mayWait)
		switch {
		case g.taken > 0:
			return nil
		case err != nil:
			return err
		case g.failed:
			return nil
		case g.moved || !begun:
			continue
		case !mayWait || !time.Now().Before(g.until):
			return nil
		}
		if err := g.wait(bell, g.deadline(parts)); err != nil {
			return err
		}
	}
}

// round looks at all partitions once: at those that others read when nothing is in the rest, in its turn.
func (g *shareGiving) round(parts []shareKey, mayWait bool) error {
	g.moved, g.waits, g.busy = false, g.waits[:0], g.busy[:0]
	clear(g.topics) // a topic may have been made again
	for _, k := range parts {
		if g.taken >= g.claim.Max || g.answer.bytes >= g.most || g.r.done != nil { // one answer from the history at a time
			return nil
		}
		if err := g.part(k, false); err != nil {
			return err
		}
	}
	for _, k := range g.busy {
		if !mayWait || g.taken > 0 || g.failed {
			return nil
		}
		if err := g.part(k, true); err != nil {
			return err
		}
	}
	return nil
}

// deadline is when the request is over, or the first lock is.
func (g *shareGiving) deadline(parts []shareKey) time.Time {
	next := g.until
	for _, k := range parts {
		g.s.shares.see(g.who.group, k, g.limits, func(p *share.Partition) {
			if ms, ok := p.Deadline(); ok && time.UnixMilli(ms).Before(next) {
				next = time.UnixMilli(ms)
			}
		})
	}
	return next
}

// wait ends when there may be more to give: the bell rings, a record comes, or a lock runs out.
func (g *shareGiving) wait(bell context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(g.r.ctx, until)
	defer cancel()
	defer context.AfterFunc(bell, cancel)()
	if len(g.waits) == 0 {
		<-ctx.Done()
	} else {
		opts := broker.FetchOptions{MinBytes: 1, MaxBytes: 1, MaxWait: time.Until(until) + time.Second, Isolation: g.cfg.isolation(), InFiles: true}
		got, err := g.s.log.Fetch(ctx, g.waits, opts)
		for _, f := range got {
			if f.File != nil {
				f.File.Release()
			}
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	if g.r.ctx.Err() != nil {
		return g.cut()
	}
	return nil
}

// name looks a topic up, for somebody who wants to read it.
func (g *shareGiving) name(id [16]byte) (string, error) {
	t, ok := g.topics[id]
	if !ok {
		t.name, t.err = g.s.resolveFor(g.r.ctx, g.r, acl.Read, "", id, true)
		g.topics[id] = t
	}
	return t.name, t.err
}

// cut is the error of a request that is over.
func (g *shareGiving) cut() error { return errors.Join(errPollCut, context.Cause(g.r.ctx)) }

// fail says that a partition has an error; its own is of memory.
func (g *shareGiving) fail(k shareKey, code int16, err error) error {
	if g.answer.at[k] == nil {
		if err := g.s.charge(g.r, shareSaid); err != nil {
			return err
		}
	}
	p := g.answer.of(k)
	p.ErrorCode, p.ErrorMessage = code, msgOf(err)
	g.failed = true
	return nil
}

// reserve sets memory aside for n bytes of the answer, all that settle will want: what is given must be sent.
func (g *shareGiving) reserve(n int) error {
	if g.r.made+int64(n) <= smallAnswer {
		g.r.made += int64(n)
		return nil
	}
	err := g.s.charge(g.r, n+smallAnswer)
	g.r.made -= smallAnswer
	return err
}

// part gives what it can of one partition. Where another reads it, it is busy, or waited for. Its error is that of the request's context.
func (g *shareGiving) part(k shareKey, waits bool) error {
	s, ctx := g.s, g.r.ctx
	name, err := g.name(k.Topic)
	tp := record.TopicPartition{Topic: name, Partition: k.Partition}
	if err == nil {
		err = s.checkPartition(ctx, tp)
	}
	if err == nil {
		err = s.shares.begin(ctx, g.who.group, k, false, func() (record.Offset, error) { return s.shareStart(ctx, tp, g.cfg) })
	}
	if err != nil {
		if ctx.Err() != nil {
			return g.cut()
		}
		code := codeOf(err)
		if errors.Is(err, errNoMemory) {
			code = codeStorageError // clients try again
		}
		return g.fail(k, code, err)
	}
	leave, err := g.turn(k, waits)
	if leave == nil {
		return err
	}
	defer leave()
	var from record.Offset
	var more bool
	s.shares.see(g.who.group, k, g.limits, func(p *share.Partition) { from, more = p.Next(g.limits) })
	if !more {
		return nil
	}
	return g.read(k, tp, from)
}

// turn gets the turn to read the log for a partition, until leave; without one there is nothing to read now.
func (g *shareGiving) turn(k shareKey, waits bool) (leave func(), err error) {
	turn, ok := g.s.shares.turn(g.who.group, k)
	if !ok { // it was forgotten
		g.moved = true
		return nil, nil
	}
	leave = func() { <-turn }
	select {
	case turn <- struct{}{}:
		return leave, nil
	default:
	}
	if !waits {
		g.busy = append(g.busy, k)
		return nil, nil
	}
	over := time.NewTimer(time.Until(g.until))
	defer over.Stop()
	select {
	case turn <- struct{}{}:
		return leave, nil
	case <-over.C:
		return nil, nil
	case <-g.r.ctx.Done():
		return nil, g.cut()
	}
}

// read reads a partition as Fetch does, on either side of the log's start, and gives what is free of that.
func (g *shareGiving) read(k shareKey, tp record.TopicPartition, from record.Offset) error {
	out := kmsg.NewFetchResponseTopicPartition()
	most := g.most - g.answer.bytes
	slots := []*fetchSlot{{out: &out, r: broker.FetchRange{TP: tp, ID: k.Topic, From: from, MaxBytes: most}}}
	gave := g.answer.bytes
	defer func() {
		if done := g.r.done; done != nil && g.answer.bytes == gave {
			done()
			g.r.done = nil
		} else if done != nil { // the answer's own memory, when it is large, counts beside it
			g.r.done = func() { done(); g.r.mem.release() }
		}
	}()
	if err := g.s.fetchSides(g.r, slots, broker.FetchOptions{MaxBytes: most, Isolation: g.cfg.isolation()}); err != nil {
		return err
	}
	switch {
	case out.ErrorCode == codeOffsetOutOfRange && from < record.Offset(out.LogStartOffset):
		_, err := g.change(k, func(p *share.Partition, _ int64) { p.Skip(record.Offset(out.LogStartOffset)) })
		return err
	case out.ErrorCode == codeOffsetOutOfRange && from > record.Offset(out.HighWatermark):
		// Not every write was synced, and the log has lost its end: what comes there is new.
		_, err := g.change(k, func(p *share.Partition, _ int64) { p.Truncate(record.Offset(out.HighWatermark)) })
		return err
	case out.ErrorCode == codeOffsetOutOfRange:
		return g.fail(k, codeStorageError, errHistory) // I4: a gap is never jumped over
	case out.ErrorCode != codeNone:
		return g.fail(k, out.ErrorCode, nil)
	}
	batches, what, err := batchesOf(&out, from, g.cfg.isolation())
	if err != nil {
		return g.fail(k, codeCorruptMessage, err)
	}
	if len(out.RecordBatches) == 0 {
		g.waits = append(g.waits, slots[0].r)
		return nil
	}
	return g.acquire(k, batches, what)
}

// acquire gives what is free of what was read.
func (g *shareGiving) acquire(k shareKey, batches []shareBatch, what share.Read) error {
	most := shareSaid + acquiredSize*int(g.limits.Locks)
	for _, b := range batches {
		most += len(b.raw)
	}
	if err := g.reserve(most); err != nil {
		return err
	}
	had := g.answer.bytes
	defer func() { // what it did not take
		if used := g.answer.bytes - had; used > 0 {
			most -= shareSaid + used
		}
		if g.r.made -= int64(most); g.r.made <= smallAnswer {
			g.r.mem.release()
		}
	}()
	var got []share.Acquired
	kept, err := g.change(k, func(p *share.Partition, now int64) {
		c := g.claim
		c.Now, c.Max = now, c.Max-g.taken
		got = p.Acquire(what, c, g.limits)
	})
	if kept {
		g.fill(k, batches, got)
	}
	return err
}

// change changes a partition durably, says whether the change is kept, and that there is something new to look at.
func (g *shareGiving) change(k shareKey, do func(*share.Partition, int64)) (kept bool, err error) {
	kept, err = g.s.shares.change(g.r.ctx, g.who.group, k, g.limits, func(p *share.Partition, now int64) error {
		do(p, now)
		return nil
	})
	g.moved = true
	switch {
	case err == nil:
		return kept, nil
	case g.r.ctx.Err() != nil:
		return false, g.cut()
	case !errors.Is(err, errNoMemory): // as its clients are told, again and again
		g.s.lg.Error("keep what a share group was given", "group", g.who.group, "err", err)
	}
	return false, g.fail(k, codeStorageError, err)
}

// shareBatch is a batch where it lies in what was read.
type shareBatch struct {
	share.Span
	raw []byte
}

// batchesOf gives the batches that were read, and what of them is records for the group: neither markers nor, for read_committed,
// what was aborted.
func batchesOf(out *kmsg.FetchResponseTopicPartition, from record.Offset, iso broker.Isolation) ([]shareBatch, share.Read, error) {
	var aborted record.AbortFilter
	var list []record.AbortedTxn
	if iso == broker.ReadCommitted {
		for _, a := range out.AbortedTransactions {
			list = append(list, record.AbortedTxn{ProducerID: a.ProducerID, First: record.Offset(a.FirstOffset)})
		}
	}
	aborted.Reset(list)
	var batches []shareBatch
	what := share.Read{From: from, To: from}
	for raw := out.RecordBatches; len(raw) > 0; {
		b, err := record.ReadBatch(raw)
		if errors.Is(err, record.ErrTruncated) {
			break
		}
		if err != nil {
			return nil, what, err
		}
		if aborted.Keep(b) {
			span := share.Span{First: b.BaseOffset, Last: b.LastOffset()}
			what.Batches = append(what.Batches, span)
			batches = append(batches, shareBatch{span, raw[:b.Size()]})
		}
		raw = raw[b.Size():]
		what.To = max(what.To, b.LastOffset()+1)
	}
	return batches, what, nil
}

// acquiredSize is what an answer takes to say who has neighbours.
const acquiredSize = 20

// fill puts what was acquired into the answer, with the batches that hold it.
func (g *shareGiving) fill(k shareKey, batches []shareBatch, got []share.Acquired) {
	if len(got) == 0 {
		return
	}
	p := g.answer.of(k)
	for i, b := 0, 0; b < len(batches); b++ {
		for i < len(got) && got[i].Last < batches[b].First {
			i++
		}
		if i < len(got) && got[i].First <= batches[b].Last {
			p.Records = append(p.Records, batches[b].raw...)
		}
	}
	for _, a := range got {
		ar := kmsg.NewShareFetchResponseTopicPartitionAcquiredRecord()
		ar.FirstOffset, ar.LastOffset, ar.DeliveryCount = int64(a.First), int64(a.Last), a.Attempts
		p.AcquiredRecords = append(p.AcquiredRecords, ar)
		g.taken += int64(a.Last-a.First) + 1
	}
	g.answer.bytes += len(p.Records) + acquiredSize*len(got)
}
