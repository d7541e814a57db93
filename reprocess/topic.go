package reprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Producer sends records that become visible together.
type Producer interface {
	// Send queues a record; partition -1 chooses by its key. Its bytes do not change before Commit.
	Send(ctx context.Context, topic string, partition int32, rec *record.Record) error
	// Commit makes what was sent since the last one visible at once. After an error that may have happened or not.
	Commit(ctx context.Context) error
	Close()
}

// TopicOutlet is a topic as a sink, of any log that speaks the Kafka protocol, in whose transactions each record is once.
//
// A transaction has the results of some records and the offset behind them, a position, as a record of the compacted
// topic PositionsTopic. What a run finds there, after it took over the transactional id, is what consumers with
// read_committed see in the sink. A consumer group's offsets would do for that too, but Kafka forgets those of a group
// without members after a week, and a job that was stopped for longer would begin again.
//
// What the logs hold if we stop after
//
//	records in an open transaction   nothing that a committed read shows; the next Open aborts it
//	a position, before the end       the same
//	the coordinator's decision       records and position; the coordinator ends it, and Open waits for that
//	the commit, before the job's     the position in the sink is ahead: the next run begins there, and brings the
//	table has its position           table up to it
//
// Refused records go to DeadLetters in the same transaction, as they were, with the reason as a header (I7).
type TopicOutlet struct {
	Topic string
	Log   broker.Source // of the sink
	// Producer takes a transactional id over, and with it ends what its last owner left open; an empty one means no
	// transactions.
	Producer func(ctx context.Context, id string) (Producer, error)
	// Create makes a topic; broker.ErrTopicExists when it is there.
	Create func(ctx context.Context, topic string, partitions int32, settings map[string]string) error

	ByKey       bool // partition by key; else each record keeps the number of its partition
	Origin      bool // headers say which record it was
	AtLeastOnce bool // no transactions: what a run sent that was cut off is sent again by the next

	id [16]byte // of the topic when the job was opened
}

// Headers of a record in a sink that is a topic.
const (
	HeaderTopic     = "ledgerlake.topic"
	HeaderPartition = "ledgerlake.partition"
	HeaderOffset    = "ledgerlake.offset"
	HeaderError     = "ledgerlake.error" // in the topic of dead letters alone
)

// PositionsTopic is where the positions of jobs whose sink is a topic stand. serve does not tier it.
func PositionsTopic(sink string) string { return "__" + sink + "_positions" }

// DeadLettersTopic takes what the transform refused.
func DeadLettersTopic(sink string) string { return sink + "_dead_letters" }

// Prepare implements Outlet.
func (o *TopicOutlet) Prepare(ctx context.Context, from SourceTopic) (id string, err error) {
	if _, err := o.Log.Partitions(ctx, o.Topic); from.Planned && errors.Is(err, broker.ErrUnknownTopic) {
		return "", fmt.Errorf("%w: the sink %s, which the job has begun to fill, was deleted: %w", ErrOtherJob, o.Topic, err)
	}
	err = errors.Join(o.ensure(ctx, o.Topic, from.Partitions, nil), o.ensure(ctx, DeadLettersTopic(o.Topic), 1, nil))
	if !o.AtLeastOnce {
		err = errors.Join(err, o.ensure(ctx, PositionsTopic(o.Topic), 1, map[string]string{"cleanup.policy": "compact"}))
	}
	if err != nil {
		return "", err
	}
	have, err := o.Log.Partitions(ctx, o.Topic)
	if err != nil {
		return "", fmt.Errorf("partitions of the sink %s: %w", o.Topic, err)
	}
	if !o.ByKey && int(from.Partitions) > len(have) {
		return "", fmt.Errorf("%w: topic %s has %d partitions, and the sink %s has %d: give it more, or say \"partitions: key\"", ErrSpec, from.Topic, from.Partitions, o.Topic, len(have))
	}
	is, err := o.identity(ctx)
	if err != nil || is == [16]byte{} {
		return "", err
	}
	if from.ID == is {
		return "", fmt.Errorf("%w: the sink is the source's topic %s itself", ErrSpec, from.Topic)
	}
	o.id = is
	return table.FormatTopicID(is), nil
}

// identity is the id of the sink's topic; zero when its log has none.
func (o *TopicOutlet) identity(ctx context.Context) ([16]byte, error) {
	ids, ok := o.Log.(broker.TopicIdentifier)
	if !ok {
		return [16]byte{}, nil
	}
	id, err := ids.TopicID(ctx, o.Topic)
	if err != nil {
		return id, fmt.Errorf("id of the sink %s: %w", o.Topic, err)
	}
	return id, nil
}

// newTopicTime is how long a topic that was made may be unknown: brokers hear of it one after the other.
const newTopicTime = 30 * time.Second

func (o *TopicOutlet) ensure(ctx context.Context, topic string, partitions int32, settings map[string]string) error {
	_, err := o.Log.Partitions(ctx, topic)
	if !errors.Is(err, broker.ErrUnknownTopic) {
		return err
	}
	if err := o.Create(ctx, topic, partitions, settings); err != nil && !errors.Is(err, broker.ErrTopicExists) {
		return err
	}
	limit := time.NewTimer(newTopicTime)
	defer limit.Stop()
	for {
		_, err := o.Log.Partitions(ctx, topic)
		if !errors.Is(err, broker.ErrUnknownTopic) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Open implements Outlet.
func (o *TopicOutlet) Open(ctx context.Context, w Work) (Delivery, error) {
	switch now, err := o.identity(ctx); {
	case err != nil:
		return nil, err
	case now != o.id:
		return nil, fmt.Errorf("%w: the sink %s was made again while the job was at work", ErrOtherJob, o.Topic)
	}
	id := ""
	if !o.AtLeastOnce {
		id = fmt.Sprintf("ledgerlake-%s-%.8s", w.App, w.State)
	}
	p, err := o.Producer(ctx, id)
	if errors.Is(err, broker.ErrNoTransactions) {
		return nil, fmt.Errorf("%w: %w: without them a job that was cut off sends some records twice; say \"delivery: %s\" if that may be", broker.ErrGiveUp, err, AtLeastOnce)
	}
	if err != nil {
		return nil, err
	}
	return &topicDelivery{o: o, w: w, p: p}, nil
}

type topicDelivery struct {
	o *TopicOutlet
	w Work
	p Producer
}

// Positions implements Delivery: none of a sink without transactions. It waits until transactions that others have open over the topic of positions have
// ended: before that nobody can tell what is committed behind them.
func (d *topicDelivery) Positions(ctx context.Context) (map[int32]record.Offset, error) {
	if d.o.AtLeastOnce {
		return nil, nil
	}
	out := map[int32]record.Offset{}
	err := committedRecords(ctx, d.o.Log, record.TopicPartition{Topic: PositionsTopic(d.o.Topic)}, func(rec *record.Record) error {
		var key positionKey
		var value position
		if err := json.Unmarshal(rec.Key, &key); err != nil || key.State != d.w.State || key.App != d.w.App {
			return nil // of another job
		}
		if err := json.Unmarshal(rec.Value, &value); err != nil {
			return fmt.Errorf("position at offset %d of %s: %w", rec.Offset, PositionsTopic(d.o.Topic), err)
		}
		out[key.Partition] = value.Next
		return nil
	})
	return out, err
}

// positionKey and position are the key and the value of a record of PositionsTopic. The id of the job's table keeps a
// job apart from an older one of its name.
type positionKey struct {
	App       string `json:"app"`
	Partition int32  `json:"partition"`
	State     string `json:"state"`
}

type position struct {
	Next record.Offset `json:"next"` // the first offset of the source that is not decided
}

// Deliver implements Delivery.
func (d *topicDelivery) Deliver(ctx context.Context, in []Record, results []Result) error {
	for i := range in {
		r := &results[i]
		if r.Drop && r.Err == nil {
			continue
		}
		rec := in[i].Record
		topic, partition := d.o.Topic, in[i].Partition
		if d.o.ByKey {
			partition = -1
		}
		if d.o.Origin || r.Err != nil {
			rec.Headers = append(rec.Headers[:len(rec.Headers):len(rec.Headers)], d.origin(&in[i])...)
		}
		if r.Err == nil {
			rec.Value = r.Value
		} else {
			rec.Headers = append(rec.Headers, record.Header{Key: []byte(HeaderError), Value: []byte(r.Err.Error())})
			topic, partition = DeadLettersTopic(d.o.Topic), 0
		}
		if err := d.p.Send(ctx, topic, partition, &rec); err != nil {
			return err
		}
	}
	return nil
}

func (d *topicDelivery) origin(r *Record) []record.Header {
	return []record.Header{
		{Key: []byte(HeaderTopic), Value: []byte(d.w.Topic)},
		{Key: []byte(HeaderPartition), Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
		{Key: []byte(HeaderOffset), Value: strconv.AppendInt(nil, int64(r.Offset), 10)},
	}
}

// Commit implements Delivery.
func (d *topicDelivery) Commit(ctx context.Context, next map[int32]record.Offset) error {
	if !d.o.AtLeastOnce {
		// Last of all, so that the topic of positions waits for this transaction as short as can be.
		for p, n := range next {
			key, err1 := json.Marshal(positionKey{d.w.App, p, d.w.State})
			value, err2 := json.Marshal(position{n})
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			rec := record.Record{Timestamp: time.Now().UnixMilli(), Key: key, Value: value}
			if err := d.p.Send(ctx, PositionsTopic(d.o.Topic), 0, &rec); err != nil {
				return err
			}
		}
	}
	return d.p.Commit(ctx)
}

// Close implements Delivery.
func (d *topicDelivery) Close() error {
	d.p.Close()
	return nil
}

// committedRecords gives the committed records of a partition up to the end that it has at the call, for which it waits
// while transactions are open below it.
func committedRecords(ctx context.Context, log broker.Source, tp record.TopicPartition, each func(*record.Record) error) error {
	b, err := log.Bounds(ctx, tp)
	if err != nil {
		return fmt.Errorf("bounds of %s: %w", tp, err)
	}
	stable := b.Stable // before the fetch: what an empty answer leaves out was not open
	for next := b.Start; next < b.End; {
		got, err := log.Fetch(ctx, []broker.FetchRange{{TP: tp, From: next, MaxBytes: 1 << 20}},
			broker.FetchOptions{Isolation: broker.ReadCommitted, MinBytes: 1, MaxWait: time.Second})
		if err == nil {
			err = got[0].Err
		}
		var beyond *broker.OutOfRangeError
		if errors.As(err, &beyond) && next < beyond.Bounds.Start {
			next = beyond.Bounds.Start // retention was here since: nothing below it counts
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", tp, err)
		}
		in, to, err := recordsOf(&got[0], next, b.End)
		if err != nil {
			return fmt.Errorf("read %s: %w", tp, err)
		}
		for i := range in {
			if err := each(&in[i].Record); err != nil {
				return err
			}
		}
		if len(got[0].Batches) == 0 && stable >= b.End {
			return nil // compaction took the end, and the last offsets have no batch
		}
		next, stable = to, max(stable, got[0].Bounds.Stable)
	}
	return nil
}
