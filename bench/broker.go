package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	brokerTimeout = 5 * time.Minute

	brokerSmallBatch = 16 << 10 // bytes, batch.size of Kafka's own client where nobody sets it

	brokerConsume = 1 << 30 // bytes read at least, in whole passes: processor time is counted in hundredths of a second
)

var brokerPartitions = []int{1, 12, 1000}

// RunBroker measures the Kafka port beside a real Kafka, with the same client on the same machine: records produced and
// consumed a second and a CPU second of the server, how long a record waits for its acknowledgement at 5,000 a
// second, memory, and the time to start. Both are measured as they are by default there (no sync a batch) and
// durable: ours with --durability group, Kafka with flush.messages=1. Servers run in processes of their own, both at once, and
// are measured in turns. What is consumed is counted; what is sent is acknowledged, and of the durable topics not read back. A third
// server of ours, alone, has a topic whose history is only in its table, and every value that comes of it is compared.
func RunBroker(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	scratch, remove, err := cfg.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	r := &Report{Scenario: "broker", Machine: Machine(), Time: time.Now().UTC(), Notes: []string{
		"CPU seconds and memory are those of the server alone; the client runs on the same processors",
		"our server and Kafka run at once and are measured in turns, each step by one and then by the other; what is compared is the median of each round's ratio. Up to 2026-12-01 one ran after the other, a minute apart",
		"what was written and removed before is synced before a pair of servers starts: else it waits for that (the file system tells the disk of freed blocks)",
		"Kafka has the heap of its start script, -Xms1G -Xmx1G: reports up to November 2026 gave it a smaller JVM, so their memory ratios cannot be compared with these",
		"Kafka's JVM has the options that its own start script gives it",
		"a disk sync is an append of 4 KiB with fdatasync at the pace of the load, one a millisecond, for a quarter of a second before each second of the load that is durable",
		"the client of 5,000 records a second runs on one processor at a time, of whatever server: on two it takes 0.1 ms and more of each wait by waking its own threads; reports up to 2026-12-01 had it on two",
		"batches are as large as the client makes them, up to 1 MB, or up to the 16 KiB that Kafka's own client makes where nobody sets it",
		"latency beside flush.messages=1 is not measured at 1000 partitions: that Kafka does not keep up with 5,000 records a second there",
	}}
	w := &brokerWork{Config: cfg, scratch: scratch, report: r, values: brokerValues(cfg)}
	for _, name := range cfg.Cases {
		if !slices.Contains(brokerCases, name) {
			return nil, fmt.Errorf("scenario broker has no case %q; there are %q", name, brokerCases)
		}
	}
	for round := range cfg.Rounds {
		if err := w.round(ctx, round); err != nil {
			return nil, err
		}
	}
	if len(cfg.Cases) == 0 { // else there is nothing to compare with
		brokerGoals(r)
	}
	historyGoals(r)
	return r, nil
}

// brokerCases are the sides that may be asked for.
var brokerCases = []string{sideOurs, sideDurable, sideHistory, sideKafka}

// brokerWork is one run of the scenario.
type brokerWork struct {
	Config
	scratch string
	report  *Report
	values  [][]byte
}

// wants says whether a side was asked for.
func (w *brokerWork) wants(side string) bool {
	return len(w.Cases) == 0 || slices.Contains(w.Cases, side)
}

// round measures each side once. What is durable comes first: a virtual disk that has written much is slower for a while.
func (w *brokerWork) round(ctx context.Context, round int) error {
	for _, p := range []brokerPair{
		{ours: sideDurable, durability: "group", theirs: sideFlush, settings: map[string]string{"flush.messages": "1"}},
		{ours: sideOurs, durability: "none", theirs: sideKafka},
	} {
		if err := w.runPair(ctx, p, round); err != nil {
			return err
		}
	}
	if !w.wants(sideHistory) {
		return nil
	}
	return w.runHistory(ctx, round)
}

// brokerValues makes the values once, so that making them is not measured.
func brokerValues(cfg Config) [][]byte {
	e := NewEvents(cfg.Seed, start(), time.Millisecond)
	out := make([][]byte, cfg.Records)
	for i := range out {
		_, out[i] = e.Next(nil, nil)
	}
	return out
}

// brokerCase names a case.
func brokerCase(side, what string, partitions int) string {
	return fmt.Sprintf("%s, %s, %d partitions", side, what, partitions)
}

// produceCase names the case of produce with batches up to a size, 0 for the client's own.
func produceCase(side string, batch, partitions int) string {
	what := "produce"
	if batch > 0 {
		what = fmt.Sprintf("produce in batches of %d KiB", batch>>10)
	}
	return brokerCase(side, what, partitions)
}

// produce sends all values to a topic and takes what it cost the server.
func (w *brokerWork) produce(ctx context.Context, s brokerSide, topic string, batch, partitions, round int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, brokerTimeout, fmt.Errorf("%s: not done within %s", s.name, brokerTimeout))
	defer cancel()
	p, err := kafka.NewProducer(ctx, kafka.ProducerConfig{Config: kafka.Config{Brokers: []string{s.addr}}, Codec: "none", MaxBatchBytes: batch})
	if err != nil {
		return err
	}
	defer p.Close()
	// The connection and the topic's metadata are not measured.
	if err := p.Send(ctx, topic, 0, nil, w.values[0]); err != nil {
		return err
	}
	if err := p.Flush(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	sample := Sample{Case: produceCase(s.name, batch, partitions), Round: round, Records: int64(len(w.values) - 1)}
	cpu, begin := s.cpu(), time.Now()
	for i, v := range w.values[1:] {
		sample.Bytes += int64(len(v))
		if err := p.Send(ctx, topic, int32((i+1)%partitions), nil, v); err != nil {
			return err
		}
	}
	if err := p.Flush(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	sample.Seconds, sample.CPUSeconds, sample.MaxMB = time.Since(begin).Seconds(), (s.cpu() - cpu).Seconds(), s.peakMB()
	w.report.Samples = append(w.report.Samples, sample)
	return nil
}

// brokerRead is a topic to consume.
type brokerRead struct {
	side, topic string
	partitions  int
	check       func(partition int32, b record.Batch) error // of each batch; nil: its records are counted alone
}

// consume reads a topic from its start, again and again, and counts what is there.
func (w *brokerWork) consume(ctx context.Context, s *brokerServer, read brokerRead, round int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, brokerTimeout, fmt.Errorf("%s: not done within %s", read.side, brokerTimeout))
	defer cancel()
	src, err := kafka.Open(ctx, kafka.Config{Brokers: []string{s.addr}})
	if err != nil {
		return err
	}
	defer src.Close()
	if _, err := src.Bounds(ctx, record.TopicPartition{Topic: read.topic}); err != nil {
		return err
	}
	var bytes int64
	for _, v := range w.values {
		bytes += int64(len(v))
	}
	sample := Sample{Case: brokerCase(read.side, "consume", read.partitions), Round: round}
	cpu, begin := s.cpu(), time.Now()
	for sample.Bytes < brokerConsume {
		n, err := read.once(ctx, src, int64(len(w.values)))
		if err == nil && n != int64(len(w.values)) {
			err = fmt.Errorf("wrong result: %d records of %d", n, len(w.values))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", read.side, err)
		}
		sample.Records, sample.Bytes = sample.Records+n, sample.Bytes+bytes
	}
	sample.Seconds, sample.CPUSeconds, sample.MaxMB = time.Since(begin).Seconds(), (s.cpu() - cpu).Seconds(), s.peakMB()
	w.report.Samples = append(w.report.Samples, sample)
	return nil
}

// once reads until it has seen so many records, and says how many there were.
func (r brokerRead) once(ctx context.Context, src broker.Source, want int64) (records int64, err error) {
	ranges := make([]broker.FetchRange, r.partitions)
	for i := range ranges {
		ranges[i] = broker.FetchRange{TP: record.TopicPartition{Topic: r.topic, Partition: int32(i)}, MaxBytes: 1 << 20}
	}
	for records < want {
		got, err := src.Fetch(ctx, ranges, broker.FetchOptions{MinBytes: 1, MaxWait: time.Second, MaxBytes: 50 << 20})
		if err != nil {
			return 0, err
		}
		for i, f := range got {
			if f.Err != nil {
				return 0, f.Err
			}
			for raw := f.Batches; len(raw) > 0; {
				h, err := record.ParseHeader(raw)
				if err != nil {
					return 0, err
				}
				if r.check != nil {
					if err := r.check(int32(i), record.Batch{BatchHeader: h, Raw: raw[:h.Size()]}); err != nil {
						return 0, err
					}
				}
				records += int64(h.LastOffset()-h.BaseOffset) + 1
				ranges[i].From, raw = h.LastOffset()+1, raw[h.Size():]
			}
		}
	}
	return records, nil
}
