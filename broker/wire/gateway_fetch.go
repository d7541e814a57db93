package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/record"
)

// gatewayFetch asks the cluster for what its log holds, and the lake for what lies before it. The client's session is
// ours, so that its partitions can move from one to the other; the cluster is asked without one.
//
// Who reads the tail costs the cluster and us one request each, as without a gateway: the lake is asked for a partition
// only after the cluster has said that an offset is out of its range.
func (s *Server) gatewayFetch(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	session, incremental, code := s.sessions.begin(r, req)
	if code != codeNone {
		resp.ErrorCode = code
		return resp, nil
	}
	if err := r.up.ready(r.ctx); err != nil {
		return nil, err
	}
	f := &relayedFetch{s: s, r: r, up: r.up, resp: resp, began: time.Now(), limit: min(max(int(req.MaxBytes), 1), s.cfg.MaxFetchBytes)}
	r.done = f.release
	leave, ok := s.mayPoll(r)
	if !ok {
		req.MaxWaitMillis = 0
	}
	defer leave()
	if err := f.run(req); err != nil {
		return nil, err
	}
	if session != nil && resp.ErrorCode == codeNone {
		s.sessions.finish(session, incremental, resp, nil)
	}
	return resp, nil
}

// relayedFetch is one Fetch on its way.
type relayedFetch struct {
	s     *Server
	r     *request
	up    *upstreamConn
	resp  *kmsg.FetchResponse
	began time.Time
	limit int // bytes of records, about
	used  int // ... that came from the lake
	mem   []*lease
	room  *lease // of mem, for what comes from the lake; nil: not taken
}

func (f *relayedFetch) release() {
	for _, m := range f.mem {
		m.release()
	}
}

// wanted is a partition that was asked for.
type wanted struct {
	key   sessionKey
	asked kmsg.FetchRequestTopicPartition
}

func (f *relayedFetch) run(req *kmsg.FetchRequest) error {
	var tail, lake []wanted
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			w := wanted{sessionKey{t.Topic, t.TopicID, p.Partition}, p}
			if j := f.s.gateway.seams.known(w.key); j != nil && j.holds(record.Offset(p.FetchOffset)) {
				lake = append(lake, w)
			} else {
				tail = append(tail, w)
			}
		}
	}
	more, err := f.fromLake(lake)
	if err != nil {
		return err
	}
	// At most twice: what the cluster says is out of range is looked for in the lake, and where that has only a hole up
	// to the log, the log is asked behind it.
	tail = append(tail, more...)
	for again := false; len(tail) > 0; again = true {
		below, err := f.fromLog(req, tail)
		if err != nil || len(below) == 0 || again {
			return err
		}
		if tail, err = f.fromLake(below); err != nil {
			return err
		}
		if len(tail) > 0 {
			req.MaxWaitMillis = 0 // others have answered already
		}
	}
	return nil
}

// fromLog asks the cluster, and gives what it does not hold.
func (f *relayedFetch) fromLog(req *kmsg.FetchRequest, parts []wanted) (below []wanted, err error) {
	ask := *req
	ask.SessionID, ask.SessionEpoch, ask.ForgottenTopics = 0, epochNoSession, nil
	ask.ReplicaID, ask.ReplicaState = -1, kmsg.NewFetchRequestReplicaState() // nobody is a follower here
	ask.MaxWaitMillis = min(ask.MaxWaitMillis, int32(maxFetchWait.Milliseconds()))
	ask.MaxBytes = int32(f.limit)
	x := exchange{weight: 1, wait: true, lend: f.s.waitLease}
	if f.used > 0 { // there is an answer already, and its memory is held: what comes at once and is small may come along
		ask.MaxWaitMillis, ask.MinBytes, ask.MaxBytes = 0, 0, int32(max(min(f.limit-f.used, smallAnswer/2), 1))
		x.lend = f.s.spareLease
	}
	offsets := map[sessionKey]wanted{}
	ask.Topics = nil
	for _, w := range parts {
		offsets[w.key] = w
		if n := len(ask.Topics); n == 0 || ask.Topics[n-1].Topic != w.key.topic || ask.Topics[n-1].TopicID != w.key.id {
			ask.Topics = append(ask.Topics, kmsg.FetchRequestTopic{Topic: w.key.topic, TopicID: w.key.id})
		}
		t := &ask.Topics[len(ask.Topics)-1]
		t.Partitions = append(t.Partitions, w.asked)
	}
	got := ask.ResponseKind().(*kmsg.FetchResponse)
	mem, err := f.up.askWith(f.r.ctx, &ask, got, f.r.clientID, x)
	if err != nil {
		if f.used > 0 && f.r.ctx.Err() == nil {
			f.s.lg.Warn("fetch of the tail beside history", "err", err)
			return nil, nil
		}
		return nil, err
	}
	f.mem = append(f.mem, mem)
	return f.take(got, offsets)
}

// take puts what the cluster answered into the answer.
func (f *relayedFetch) take(got *kmsg.FetchResponse, asked map[sessionKey]wanted) (below []wanted, err error) {
	if _, err := f.s.gateway.replace(f.r.local, got); err != nil {
		return nil, err
	}
	f.resp.Brokers = append(f.resp.Brokers, got.Brokers...)
	f.resp.ThrottleMillis = max(f.resp.ThrottleMillis, got.ThrottleMillis)
	if got.ErrorCode != codeNone {
		f.resp.ErrorCode = got.ErrorCode
	}
	for i := range got.Topics {
		t := &got.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			k := sessionKey{t.Topic, t.TopicID, p.Partition}
			w, ok := asked[k]
			if !ok {
				continue
			}
			if p.ErrorCode == codeOffsetOutOfRange {
				below = append(below, w)
			} else if s := f.s.gateway.seams.known(k); s != nil && p.LogStartOffset >= 0 {
				p.LogStartOffset = min(p.LogStartOffset, int64(s.start()))
			}
			if p.RecordBatches == nil {
				p.RecordBatches = []byte{} // null is not understood by all clients
			}
			f.put(k, *p)
		}
	}
	return below, nil
}

// put adds a partition to the answer, or replaces it.
func (f *relayedFetch) put(k sessionKey, p kmsg.FetchResponseTopicPartition) {
	for i := range f.resp.Topics {
		t := &f.resp.Topics[i]
		if t.Topic != k.topic || t.TopicID != k.id {
			continue
		}
		for j := range t.Partitions {
			if t.Partitions[j].Partition == k.partition {
				t.Partitions[j] = p
				return
			}
		}
		t.Partitions = append(t.Partitions, p)
		return
	}
	t := kmsg.NewFetchResponseTopic()
	t.Topic, t.TopicID, t.Partitions = k.topic, k.id, append(t.Partitions, p)
	f.resp.Topics = append(f.resp.Topics, t)
}

// fromLake answers partitions whose offsets are below the log. It gives back those that are the log's after all, at
// the offset to ask it for.
func (f *relayedFetch) fromLake(parts []wanted) (tail []wanted, err error) {
	for _, w := range parts {
		out := kmsg.NewFetchResponseTopicPartition()
		out.Partition, out.RecordBatches = w.key.partition, []byte{}
		j, err := f.up.seam(f.r.ctx, w.key, time.Now().Add(-seamAge))
		if err == nil && !j.holds(record.Offset(w.asked.FetchOffset)) { // only what is known to be so now is an offset out of range
			j, err = f.up.seam(f.r.ctx, w.key, f.began)
		}
		switch {
		case errors.Is(err, errHistory):
			f.s.lg.Error("fetch from history", "topic", w.key.topic, "partition", w.key.partition, "err", err)
			out.HighWatermark, out.ErrorCode = -1, codeOf(err)
		case err != nil:
			return nil, err
		case j.code != codeNone:
			out.HighWatermark, out.ErrorCode = -1, j.code
		default:
			next, err := f.history(w, j, &out)
			if err != nil {
				return nil, err
			}
			if next >= 0 {
				w.asked.FetchOffset = int64(next)
				tail = append(tail, w)
				continue
			}
		}
		f.put(w.key, out)
	}
	if f.room != nil {
		f.room.keep(f.used)
		f.room = nil
	}
	return tail, nil
}

// history fills in what the lake has from an offset on. Where that is nothing up to the log, it gives the offset to ask the
// log for, else -1.
func (f *relayedFetch) history(w wanted, j *seam, out *kmsg.FetchResponseTopicPartition) (next record.Offset, err error) {
	from := record.Offset(w.asked.FetchOffset)
	out.HighWatermark, out.LastStableOffset, out.LogStartOffset = int64(j.bounds.End), int64(j.bounds.End), int64(j.start())
	if !j.holds(from) {
		if from >= j.bounds.Start && from <= j.bounds.End {
			return from, nil // the log has it, or has it by now
		}
		out.ErrorCode = codeOffsetOutOfRange
		return -1, nil
	}
	if f.used >= f.limit {
		return -1, nil // nothing this time; the client asks again
	}
	if ok, err := f.roomForHistory(f.r.ctx); !ok || err != nil {
		return -1, err
	}
	tp := record.TopicPartition{Topic: j.topic, Partition: w.key.partition}
	for from < j.bounds.Start {
		batches, to, err := f.s.gateway.up.Lake.Fetch(f.r.ctx, tp, from, min(max(int(w.asked.PartitionMaxBytes), 1), f.limit-f.used))
		if err != nil {
			f.s.lg.Error("fetch from history", "partition", tp.String(), "offset", int64(from), "err", err)
			out.ErrorCode = codeOf(errors.Join(errHistory, err))
			return -1, nil
		}
		if len(batches) > 0 {
			out.RecordBatches = withoutEpochs(batches)
			f.used += len(batches)
			f.s.metrics.history.Add(int64(len(batches)))
			return -1, nil
		}
		if to <= from { // I4: a gap between lake and log is said, never jumped over
			f.s.lg.Error("neither history nor log hold an offset", "partition", tp.String(), "offset", int64(from), "logStart", int64(j.bounds.Start))
			out.ErrorCode = codeOffsetOutOfRange
			return -1, nil
		}
		from = to // a hole without records
	}
	return from, nil
}

// roomForHistory takes the memory of an answer from the lake, and waits for it where nothing else is held. Beside an answer
// of the cluster there may be no room: waiting for more would let all wait for all. The client asks again, and then the
// lake comes first.
func (f *relayedFetch) roomForHistory(ctx context.Context) (ok bool, err error) {
	if f.room != nil {
		return f.room.n > 0, nil
	}
	want := int64(f.limit) + historyRead
	if len(f.mem) > 0 {
		f.room = f.s.tryLease(want)
	} else if f.room, err = f.s.waitLease(ctx, want); err != nil {
		return false, err
	}
	f.mem = append(f.mem, f.room)
	return f.room.n > 0, nil
}

// withoutEpochs takes the leader epoch out of batches. It is that of no leader of the cluster, and clients would compare.
func withoutEpochs(batches []byte) []byte {
	const epochAt, header = 12, 17 // behind base offset and length
	for b := batches; len(b) >= header; {
		binary.BigEndian.PutUint32(b[epochAt:], ^uint32(0))
		size := 12 + int64(binary.BigEndian.Uint32(b[8:]))
		if size > int64(len(b)) {
			break
		}
		b = b[size:]
	}
	return batches
}
