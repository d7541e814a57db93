package wire

import (
	"context"
	"errors"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// Timestamps with a meaning of their own.
const (
	offsetLatest        = -1
	offsetEarliest      = -2
	offsetMaxTimestamp  = -3 // version 7
	offsetEarliestLocal = -4 // version 8
	offsetLatestTiered  = -5 // version 9
	offsetPendingUpload = -6 // version 11
)

// ListOffsets, key 2, versions 1 to 11.
//
// Latest is the high watermark, or the last stable offset with read_committed. Earliest is the start of the
// history when there is one; earliest-local is the log's. A time gives the first record at or after it, with
// that record's timestamp, and -1 when there is none. Latest-tiered is the last offset that the history has decided,
// earliest-pending-upload the one behind it; without a history both have no value, as in a Kafka without tiered storage.
func apiListOffsets() api {
	return api{key: 2, name: "ListOffsets", min: 1, max: 11, handle: (*Server).listOffsets}
}

func (s *Server) listOffsets(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, rt := range req.Topics {
		ot := kmsg.NewListOffsetsResponseTopic()
		ot.Topic = rt.Topic
		denied := s.allowedTopic(r, acl.Describe, rt.Topic)
		for _, rp := range rt.Partitions {
			op := kmsg.NewListOffsetsResponseTopicPartition()
			op.Partition, op.Offset, op.Timestamp, op.LeaderEpoch = rp.Partition, -1, -1, -1
			tp := record.TopicPartition{Topic: rt.Topic, Partition: rp.Partition}
			off, ts, err := record.Offset(-1), int64(-1), denied
			if err == nil {
				off, ts, err = s.listOffset(r.ctx, tp, rp.Timestamp, broker.Isolation(req.IsolationLevel))
			}
			switch {
			case errors.Is(err, errUnknownTimestamp):
				op.ErrorCode = codeUnsupportedVersion
			case err != nil:
				op.ErrorCode = codeOf(err)
			default:
				op.Offset, op.Timestamp = int64(off), ts
				if off >= 0 {
					op.LeaderEpoch = leaderEpoch
				}
			}
			ot.Partitions = append(ot.Partitions, op)
		}
		resp.Topics = append(resp.Topics, ot)
	}
	return resp, nil
}

var errUnknownTimestamp = errors.New("unknown special timestamp")

func (s *Server) listOffset(ctx context.Context, tp record.TopicPartition, ms int64, iso broker.Isolation) (record.Offset, int64, error) {
	b, err := s.log.Bounds(ctx, tp)
	if err != nil {
		return -1, -1, err
	}
	if _, counts := s.log.(broker.Counter); counts {
		switch ms {
		case offsetLatest:
			end, err := broker.StableEnd(ctx, s.log, tp)
			return end, -1, err
		case offsetMaxTimestamp: // dozens of look-ups, each of which reads
			return -1, -1, errUnknownTimestamp
		}
	}
	switch {
	case ms == offsetLatest && iso == broker.ReadCommitted:
		return b.Stable, -1, nil
	case ms == offsetLatest:
		return b.End, -1, nil
	case ms == offsetEarliest:
		return s.clientStart(ctx, tp, b), -1, nil
	case ms == offsetEarliestLocal:
		return b.Start, -1, nil
	case ms == offsetMaxTimestamp:
		return s.maxTimestamp(ctx, tp, b)
	case ms == offsetLatestTiered || ms == offsetPendingUpload:
		return s.tiered(ctx, tp, b, ms == offsetPendingUpload)
	case ms < 0:
		return -1, -1, errUnknownTimestamp
	}
	return s.offsetAtTime(ctx, tp, b, ms)
}

// tieredEnd is a History that knows where it ends: the first offset that it has not decided.
type tieredEnd interface {
	End(ctx context.Context, tp record.TopicPartition, id [16]byte, logStart record.Offset) (record.Offset, bool, error)
}

// tiered gives the last offset that the history has decided, or the one behind it.
func (s *Server) tiered(ctx context.Context, tp record.TopicPartition, b broker.Bounds, behind bool) (record.Offset, int64, error) {
	h, ok := s.cfg.History.(tieredEnd)
	if !ok {
		return -1, -1, nil
	}
	in, err := s.topics.get(ctx, tp.Topic)
	if err != nil {
		return -1, -1, err
	}
	end, ok, err := h.End(ctx, tp, in.ID, b.Stable) // as new as can be known
	switch {
	case err != nil:
		return -1, -1, errors.Join(errHistory, err)
	case ok && behind:
		return end, -1, nil
	case ok:
		return end - 1, -1, nil
	case behind:
		return b.Start, -1, nil
	}
	return -1, -1, nil
}

func (s *Server) offsetAtTime(ctx context.Context, tp record.TopicPartition, b broker.Bounds, ms int64) (record.Offset, int64, error) {
	h, in, start := s.cfg.History, false, b.Start
	o, err := broker.FirstAt(func() (o record.Offset, ok bool, err error) {
		if h == nil {
			return 0, false, nil
		}
		if o, ok, err = h.OffsetForTime(ctx, tp, ms); err != nil {
			return 0, false, errors.Join(errHistory, err)
		}
		in = ok && o < start
		return o, in, nil
	}, func() (record.Offset, error) {
		o, err := s.log.OffsetForTime(ctx, tp, ms)
		start = o // all that lies before it may have been gone from the log by then
		return o, err
	})
	if err != nil {
		return -1, -1, err
	}
	if in {
		raw, _, err := h.Fetch(ctx, tp, o, 1)
		if err != nil {
			return -1, -1, errors.Join(errHistory, err)
		}
		return s.firstAtTime(ctx, raw, o, ms)
	}
	// The Log says End for "none", and End may have grown since: the record itself decides.
	got, err := s.log.Fetch(ctx, []broker.FetchRange{{TP: tp, From: o, MaxBytes: 1}}, broker.FetchOptions{})
	if err != nil {
		return -1, -1, err
	}
	if len(got) != 1 {
		return -1, -1, broker.ErrStorage
	}
	if got[0].Err != nil {
		return -1, -1, got[0].Err
	}
	return s.firstAtTime(ctx, got[0].Batches, o, ms)
}

// firstAtTime finds the first record at or after both an offset and a time in the first batch. What that takes has the share of
// requests that are being decoded (I8): nothing of this one is any more.
func (s *Server) firstAtTime(ctx context.Context, raw []byte, from record.Offset, ms int64) (record.Offset, int64, error) {
	if len(raw) == 0 {
		return -1, -1, nil
	}
	b, err := record.ReadBatch(raw)
	if err != nil {
		return -1, -1, err
	}
	need := min(b.ScanMemory(), s.cfg.decodeMemory())
	if err := s.decoding.Acquire(ctx, need); err != nil {
		return -1, -1, context.Cause(ctx)
	}
	defer s.decoding.Release(need)
	return record.FirstAt(b, from, ms)
}

// maxTimestamp finds the largest timestamp by bisection: OffsetForTime(ms) has an answer for every ms up to
// it and none above. That is some 60 look-ups in the time index, and no scan.
func (s *Server) maxTimestamp(ctx context.Context, tp record.TopicPartition, b broker.Bounds) (record.Offset, int64, error) {
	probe := func(ms int64) (record.Offset, bool, error) {
		o, err := s.log.OffsetForTime(ctx, tp, ms)
		return o, err == nil && o < b.End, err
	}
	best, ok, err := probe(0)
	if err != nil || !ok {
		return -1, -1, err
	}
	lo, hi := int64(0), int64(math.MaxInt64)
	for lo < hi {
		mid := lo + (hi-lo)/2 + (hi-lo)%2
		o, ok, err := probe(mid)
		switch {
		case err != nil:
			return -1, -1, err
		case ok:
			lo, best = mid, o
		default:
			hi = mid - 1
		}
	}
	return best, lo, nil
}
