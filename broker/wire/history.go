package wire

import (
	"context"
	"errors"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// errHistory marks a lake that cannot be read now.
var errHistory = errors.New("the history cannot be read now")

// inHistory says whether a range begins below the log's start and in the history.
func (s *Server) inHistory(ctx context.Context, sl *fetchSlot, b broker.Bounds) bool {
	if s.cfg.History == nil {
		return false
	}
	sl.lake, sl.tiers = s.cfg.History.Start(ctx, sl.r.TP)
	return sl.tiers && sl.r.From < b.Start && sl.r.From >= sl.lake
}

// fetchHistory answers the ranges that begin below the log's start and gives back the others, with the
// bytes that it used of the limit. It waits for the memory that it takes; its error is that of the request's context.
func (s *Server) fetchHistory(r *request, slots []*fetchSlot, limit int) (rest []*fetchSlot, used int, err error) {
	if s.cfg.History == nil {
		return slots, 0, nil
	}
	ctx := r.ctx
	var mem *lease
	for _, sl := range slots {
		b, err := s.log.Bounds(ctx, sl.r.TP)
		if err != nil {
			rest = append(rest, sl) // the Log says it again, in its answer
			continue
		}
		if !s.inHistory(ctx, sl, b) {
			rest = append(rest, sl)
			continue
		}
		if mem == nil {
			if mem, err = s.waitLease(ctx, int64(limit)+historyRead); err != nil {
				return nil, 0, err
			}
			r.done = mem.release
		}
		if used >= limit {
			s.fillBounds(sl, b) // nothing this time; the client asks again
			continue
		}
		n := s.fillHistory(ctx, sl, b, min(sl.r.MaxBytes, limit-used))
		if used += n; n == 0 {
			rest = append(rest, sl)
		}
	}
	if mem != nil {
		mem.keep(used)
	}
	return rest, used, nil
}

// fillHistory answers one range from the history and gives the bytes that it took; 0: the log is to answer.
func (s *Server) fillHistory(ctx context.Context, sl *fetchSlot, b broker.Bounds, maxBytes int) int {
	from := sl.r.From
	for from < b.Start {
		batches, next, err := s.cfg.History.Fetch(ctx, sl.r.TP, from, maxBytes)
		if err != nil {
			s.lg.Error("fetch from history", "partition", sl.r.TP.String(), "offset", int64(from), "err", err)
			sl.out.ErrorCode = codeOf(errors.Join(errHistory, err))
			return 1
		}
		if len(batches) > 0 {
			s.fillBounds(sl, b)
			sl.out.RecordBatches = batches
			s.metrics.history.Add(int64(len(batches)))
			return len(batches)
		}
		if next <= from { // I4: a gap between history and log is said, never jumped over
			s.lg.Error("neither history nor log hold an offset", "partition", sl.r.TP.String(), "offset", int64(from), "logStart", int64(b.Start))
			s.fillBounds(sl, b)
			sl.out.ErrorCode = codeOffsetOutOfRange
			return 1
		}
		from = next // a hole without records
	}
	// Only holes up to the log: what comes next is in the log.
	sl.r.From = from // it answers, with the isolation and the wait that were asked for
	return 0
}

// clientStart is the log start that clients see.
func (s *Server) clientStart(ctx context.Context, tp record.TopicPartition, b broker.Bounds) record.Offset {
	if s.cfg.History != nil {
		if o, ok := s.cfg.History.Start(ctx, tp); ok {
			return min(o, b.Start)
		}
	}
	return b.Start
}
