package wire

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	maxFetchWait = 5 * time.Minute // bounds a long poll, whatever the client asks for
	smallAnswer  = 256 << 10       // size of an answer for which no memory is set aside

	zstdFetchVersion = 10 // the first that may be answered with zstd
)

// Fetch, key 1, versions 4 to 18 (topic ids from 13).
//
// Waits for MinBytes up to MaxWait; the wait ends when the connection dies or the server drains. With a
// session (KIP-227) requests and answers hold only what has changed; one that there is no memory for is not made, and
// the answer says so by session id 0. The first batch comes whole, however small the limits. Offsets below the log start come from Config.History.
// Memory for large answers is bounded by Config.MemoryBudget: when it is taken, answers from the log are
// small, and those from the history wait.
// Below version 10 a topic of compression.type=zstd is refused, as by Kafka.
// With read_committed only what is below the last stable offset is given, with the aborted transactions.
func apiFetch() api {
	return api{key: keyFetch, name: "Fetch", min: 4, max: 18, handle: (*Server).fetch}
}

// fetchSlot joins a range with its place in the answer.
type fetchSlot struct {
	out   *kmsg.FetchResponseTopicPartition
	key   sessionKey
	r     broker.FetchRange
	lake  record.Offset // start of the history, when there is one
	tiers bool          // there is history
}

func (s *Server) fetch(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	session, incremental, code := s.sessions.begin(r, req)
	if code != codeNone {
		resp.ErrorCode = code
		return resp, nil
	}
	err := s.fetchAll(r, req, resp)
	if err == nil {
		r.mute = s.quotas.charge(r, fetchQuota, answeredBytes(resp, r.files))
		resp.ThrottleMillis = int32(r.mute.Milliseconds())
	}
	if err == nil && session != nil {
		s.sessions.finish(session, incremental, resp, r.files)
	}
	return resp, err
}

// fetchAll answers a full request.
func (s *Server) fetchAll(r *request, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) error {
	slots, failed := s.fetchSlots(r, req, resp)
	opts := broker.FetchOptions{
		MinBytes:  int(req.MinBytes),
		MaxWait:   min(time.Duration(req.MaxWaitMillis)*time.Millisecond, maxFetchWait),
		MaxBytes:  min(max(int(req.MaxBytes), 1), s.cfg.MaxFetchBytes),
		Isolation: broker.Isolation(req.IsolationLevel),
		InFiles:   true,
	}
	if failed {
		opts.MaxWait = 0
	}
	if opts.MaxWait > 0 {
		leave, ok := s.mayPoll(r)
		if !ok {
			opts.MaxWait = 0
		}
		defer leave()
	}
	return s.fetchSides(r, slots, opts)
}

// fetchSides asks the history for what lies below the log's start, and the Log for the rest.
func (s *Server) fetchSides(r *request, slots []*fetchSlot, opts broker.FetchOptions) error {
	slots, used, err := s.fetchHistory(r, slots, opts.MaxBytes)
	if err != nil {
		return err
	}
	if used > 0 {
		opts.MaxWait, opts.MinBytes = 0, 0
		opts.MaxBytes = max(min(opts.MaxBytes-used, smallAnswer), 1)
	}
	if len(slots) == 0 || used >= s.cfg.MaxFetchBytes {
		return nil
	}
	return s.fetchLog(r, slots, opts)
}

// mayPoll says whether a request may wait: large ones only as far as others still find memory. leave ends the wait.
func (s *Server) mayPoll(r *request) (leave func(), ok bool) {
	if r.weight <= controlWeight*smallFrame {
		return func() {}, true
	}
	if !s.polls.TryAcquire(r.weight) {
		return func() {}, false
	}
	return func() { s.polls.Release(r.weight) }, true
}

// fetchLog asks the Log, for a large answer at once and then, if there is less than MinBytes, for a small one
// when it comes, unless a limit keeps back what is there. So only answers that are there hold memory, not those that are waited for.
func (s *Server) fetchLog(r *request, slots []*fetchSlot, opts broker.FetchOptions) error {
	ranges := make([]broker.FetchRange, len(slots))
	for i, sl := range slots {
		ranges[i] = sl.r
	}
	if opts.MaxBytes > smallAnswer {
		if mem := s.tryLease(int64(opts.MaxBytes)); mem.n > 0 {
			now := opts
			now.MaxWait = 0
			got, err := s.log.Fetch(r.ctx, ranges, now)
			n, inMemory, failed := fetchedBytes(got)
			if err != nil || failed || n >= opts.MinBytes || opts.MaxWait <= 0 || broker.KeptBack(ranges, got, opts.Isolation) {
				mem.keep(inMemory)
				r.done = mem.release
				return s.fillAll(r, slots, got, err)
			}
			for _, f := range got {
				if f.File != nil {
					f.File.Release()
				}
			}
			mem.release()
		}
		opts.MaxBytes = smallAnswer
	}
	got, err := s.log.Fetch(r.ctx, ranges, opts)
	return s.fillAll(r, slots, got, err)
}

func fetchedBytes(got []broker.Fetched) (n, inMemory int, failed bool) {
	for _, f := range got {
		inMemory += len(f.Batches)
		if f.File != nil {
			n += f.File.Size
		}
		failed = failed || f.Err != nil
	}
	return n + inMemory, inMemory, failed
}

// fetchSlots lays out the answer and collects what to ask the Log for.
func (s *Server) fetchSlots(r *request, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) (slots []*fetchSlot, failed bool) {
	resp.Topics = make([]kmsg.FetchResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, ot := &req.Topics[i], &resp.Topics[i]
		*ot = kmsg.NewFetchResponseTopic()
		ot.Topic, ot.TopicID = rt.Topic, rt.TopicID
		name, err := s.resolveFor(r.ctx, r, acl.Read, rt.Topic, rt.TopicID, r.version >= 13)
		if err == nil && r.version < zstdFetchVersion {
			err = s.refuseZstd(r.ctx, name)
		}
		ot.Partitions = make([]kmsg.FetchResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			rp, op := &rt.Partitions[j], &ot.Partitions[j]
			*op = kmsg.NewFetchResponseTopicPartition()
			op.Partition, op.HighWatermark = rp.Partition, -1
			op.RecordBatches = []byte{} // null is not understood by all clients
			if err != nil {
				op.ErrorCode, failed = codeOf(err), true
				continue
			}
			slots = append(slots, &fetchSlot{out: op, key: sessionKey{rt.Topic, rt.TopicID, rp.Partition}, r: broker.FetchRange{
				TP:       record.TopicPartition{Topic: name, Partition: rp.Partition},
				From:     record.Offset(rp.FetchOffset),
				MaxBytes: min(max(int(rp.PartitionMaxBytes), 1), s.cfg.MaxFetchBytes),
			}})
		}
	}
	return slots, failed
}

// refuseZstd: who asks in an old version does not know the codec that a topic of compression.type=zstd has (KIP-110). What
// a producer chose by itself is given all the same, as by Kafka.
func (s *Server) refuseZstd(ctx context.Context, topic string) error {
	in, err := s.topics.get(ctx, topic)
	if err == nil && in.Config.Compression == record.Zstd.String() {
		return errOldForZstd
	}
	return nil // an unknown topic is for the Log to tell
}

func (s *Server) fillAll(r *request, slots []*fetchSlot, got []broker.Fetched, err error) error {
	if err != nil {
		if r.ctx.Err() != nil {
			return errors.Join(errPollCut, context.Cause(r.ctx))
		}
		for _, sl := range slots {
			sl.out.ErrorCode = codeOf(err)
		}
		s.lg.Error("fetch", "err", err)
		return nil
	}
	for i, sl := range slots {
		if i < len(got) {
			s.fillFetch(r, sl, got[i])
		}
	}
	return nil
}

func (s *Server) fillFetch(r *request, sl *fetchSlot, f broker.Fetched) {
	var oor *broker.OutOfRangeError
	if errors.As(f.Err, &oor) {
		// Retention may have passed the offset after it was checked against the history: the client asks again.
		if s.inHistory(r.ctx, sl, oor.Bounds) {
			s.fillBounds(sl, oor.Bounds)
			return
		}
		f.Bounds = oor.Bounds
	}
	out := sl.out
	out.ErrorCode = codeOf(f.Err)
	if f.Err != nil && oor == nil {
		return
	}
	s.fillBounds(sl, f.Bounds)
	if f.Err != nil {
		return
	}
	if f.Batches != nil {
		out.RecordBatches = f.Batches
	}
	if f.File != nil {
		r.leaveInFile(sl, f.File)
	}
	for _, a := range f.Aborted {
		t := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		t.ProducerID, t.FirstOffset = a.ProducerID, int64(a.First)
		out.AbortedTransactions = append(out.AbortedTransactions, t)
	}
}

// leaveInFile has batches sent from their file. Of a partition that stands twice in a request, the second place gets
// nothing this time.
func (r *request) leaveInFile(sl *fetchSlot, f *broker.FileRange) {
	if r.files[sl.key] != nil {
		f.Release()
		return
	}
	if r.files == nil {
		r.files = files{}
	}
	r.files[sl.key], sl.out.RecordBatches = f, nil
}

func (s *Server) fillBounds(sl *fetchSlot, b broker.Bounds) {
	sl.out.HighWatermark = int64(b.End)
	sl.out.LastStableOffset = int64(b.Stable)
	sl.out.LogStartOffset = int64(b.Start)
	if sl.tiers {
		sl.out.LogStartOffset = int64(min(b.Start, sl.lake))
	}
}

// fetchSize is about what the answer takes when encoded.
func fetchSize(f *kmsg.FetchResponse) int {
	n := 64
	for i := range f.Topics {
		n += 64 + len(f.Topics[i].Topic)
		for j := range f.Topics[i].Partitions {
			p := &f.Topics[i].Partitions[j]
			n += 64 + len(p.RecordBatches) + 16*len(p.AbortedTransactions)
		}
	}
	return n
}

func answeredBytes(f *kmsg.FetchResponse, in files) (n int) {
	for i := range f.Topics {
		for j := range f.Topics[i].Partitions {
			n += in.batchBytes(&f.Topics[i], &f.Topics[i].Partitions[j])
		}
	}
	return n
}
