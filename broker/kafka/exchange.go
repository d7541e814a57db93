package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// exchange is one fetch request to one broker, for the ranges part.
func (c *call) exchange(ctx context.Context, leader int32, part []int, wait time.Duration, brokers int) []result {
	req := c.request(part, wait, brokers)
	kresp, err := c.client.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return failed(part, fromRequest(ctx, fmt.Errorf("broker %d: %w", leader, err)))
	}
	resp, ok := kresp.(*kmsg.FetchResponse)
	if !ok {
		return failed(part, fmt.Errorf("broker %d: answer of type %T", leader, kresp))
	}
	if err := fromCode(resp.ErrorCode); err != nil {
		return failed(part, fmt.Errorf("broker %d: %w", leader, err))
	}
	return c.read(ctx, leader, part, resp)
}

func failed(part []int, err error) []result {
	out := make([]result, len(part))
	for k, i := range part {
		out[k] = result{i: i, err: err}
	}
	return out
}

// request asks for ranges without a fetch session; topics have their name and their id, because the version
// that the broker agrees to decides which of the two is sent.
func (c *call) request(part []int, wait time.Duration, brokers int) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis = int32(min(max(wait, 0).Milliseconds(), math.MaxInt32))
	req.MinBytes = int32(min(max(c.opts.MinBytes, 1), math.MaxInt32))
	req.IsolationLevel = int8(c.opts.Isolation)
	req.SessionID, req.SessionEpoch = 0, -1
	total := c.s.cfg.MaxFetchBytes
	if c.opts.MaxBytes > 0 {
		total = min(total, max(c.opts.MaxBytes/brokers, 1))
	}
	at := make(map[string]int)
	for _, i := range part {
		r := &c.ranges[i]
		t, ok := at[r.TP.Topic]
		if !ok {
			t = len(req.Topics)
			at[r.TP.Topic] = t
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.TopicID = r.TP.Topic, c.s.meta.get(r.TP.Topic).id
			req.Topics = append(req.Topics, topic)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = r.TP.Partition
		p.FetchOffset = int64(r.From)
		p.PartitionMaxBytes = int32(c.limit[i])
		req.Topics[t].Partitions = append(req.Topics[t].Partitions, p)
		total = max(total, c.grown(i))
	}
	req.MaxBytes = int32(total)
	return req
}

// grown is the limit of a range that needs more than was asked at first, else 0.
func (c *call) grown(i int) int {
	first := c.s.cfg.MaxFetchBytes
	if m := c.ranges[i].MaxBytes; m > 0 {
		first = min(first, m)
	}
	if c.limit[i] > first {
		return c.limit[i]
	}
	return 0
}

// read takes the answer apart. A range that the broker left out is asked for again.
func (c *call) read(ctx context.Context, leader int32, part []int, resp *kmsg.FetchResponse) []result {
	index := make(map[record.TopicPartition]int, len(part))
	names := make(map[[16]byte]string)
	for _, i := range part {
		tp := c.ranges[i].TP
		index[tp] = i
		names[c.s.meta.get(tp.Topic).id] = tp.Topic
	}
	out := make([]result, 0, len(part))
	for t := range resp.Topics {
		topic := &resp.Topics[t]
		name := topic.Topic
		if name == "" {
			name = names[topic.TopicID]
		}
		for p := range topic.Partitions {
			tp := record.TopicPartition{Topic: name, Partition: topic.Partitions[p].Partition}
			if i, ok := index[tp]; ok {
				delete(index, tp)
				out = append(out, c.take(ctx, i, &topic.Partitions[p]))
			}
		}
	}
	for tp, i := range index {
		out = append(out, result{i: i, err: transient(fmt.Errorf("broker %d did not answer for %s", leader, tp))})
	}
	return out
}

// take fills out[i] from the answer for one partition.
func (c *call) take(ctx context.Context, i int, p *kmsg.FetchResponseTopicPartition) result {
	tp := c.ranges[i].TP
	if errors.Is(kerr.ErrorForCode(p.ErrorCode), kerr.OffsetOutOfRange) {
		return result{i: i, err: c.outOfRange(ctx, i)}
	}
	if err := fromCode(p.ErrorCode); err != nil {
		return result{i: i, err: fmt.Errorf("fetch %s: %w", tp, err)}
	}
	whole, need, err := cut(p.RecordBatches)
	if err != nil {
		return result{i: i, err: fmt.Errorf("fetch %s at offset %d: %w: %w", tp, c.ranges[i].From, broker.ErrCorruptBatch, err)}
	}
	if need > 0 { // only the beginning of the first batch came
		if need > c.s.cfg.MaxBatchBytes || c.limit[i] >= c.s.cfg.MaxBatchBytes {
			return result{i: i, err: fmt.Errorf("fetch %s at offset %d: a batch of %d bytes: %w", tp, c.ranges[i].From, need, broker.ErrTooLarge)}
		}
		c.limit[i] = min(max(need, 2*c.limit[i]), c.s.cfg.MaxBatchBytes)
		return result{i: i, more: true}
	}
	f := broker.Fetched{TP: tp, Batches: whole, Bounds: broker.Bounds{
		Start: record.Offset(p.LogStartOffset), Stable: record.Offset(p.LastStableOffset), End: record.Offset(p.HighWatermark)}}
	if f.Bounds.Stable < 0 {
		f.Bounds.Stable = f.Bounds.End
	}
	if f.Bounds.Start < 0 { // before Kafka 1.0
		if f.Bounds.Start, err = c.s.listOffset(ctx, tp, earliest, broker.ReadUncommitted); err != nil {
			return result{i: i, err: fmt.Errorf("log start of %s: %w", tp, err)}
		}
	}
	if c.opts.Isolation == broker.ReadCommitted {
		f.Aborted = aborted(p.AbortedTransactions)
	}
	c.out[i] = f
	return result{i: i}
}

func aborted(from []kmsg.FetchResponseTopicPartitionAbortedTransaction) []broker.AbortedTxn {
	if len(from) == 0 {
		return nil
	}
	out := make([]broker.AbortedTxn, len(from))
	for i, a := range from {
		out[i] = broker.AbortedTxn{ProducerID: a.ProducerID, First: record.Offset(a.FirstOffset)}
	}
	slices.SortStableFunc(out, func(a, b broker.AbortedTxn) int { return cmp.Compare(a.First, b.First) })
	return out
}

// outOfRange asks for the true bounds. A leader that was just elected may not know its high watermark yet and
// refuse what is there; then the fetch is tried again.
func (c *call) outOfRange(ctx context.Context, i int) error {
	r := &c.ranges[i]
	b, err := c.s.Bounds(ctx, r.TP)
	if err != nil {
		return fmt.Errorf("offset %d of %s is out of range, and its bounds are unknown: %w", r.From, r.TP, err)
	}
	e := &broker.OutOfRangeError{TP: r.TP, Offset: r.From, Bounds: b}
	if r.From >= b.Start && r.From <= b.End {
		return transient(e)
	}
	return e
}

// cut gives the whole batches at the start of b; a broker may end an answer inside one. When not even the
// first is whole, need is its size, or at least the next step towards it.
func cut(b []byte) (whole []byte, need int, err error) {
	n := 0
	for n < len(b) {
		h, err := record.ParseHeader(b[n:])
		if errors.Is(err, record.ErrTruncated) {
			if n == 0 {
				return nil, max(2*len(b), record.HeaderSize), nil
			}
			break
		}
		if err != nil {
			if n == 0 {
				return nil, 0, err
			}
			break // what is whole is good; the next fetch begins at the damage and reports it
		}
		if h.Size() > len(b)-n {
			if n == 0 {
				return nil, h.Size(), nil
			}
			break
		}
		n += h.Size()
	}
	return b[:n:n], 0, nil
}
