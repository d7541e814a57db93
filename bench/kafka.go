package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/record"
)

// kafkaNode is a real Kafka that the bench has started.
type kafkaNode struct {
	addr, script, dir string
	env               []string // of the script, beside our own
}

// startKafka starts a node of test/services, which must be below the working directory.
func startKafka(ctx context.Context, scratch string, env ...string) (*kafkaNode, func(), error) {
	script, err := filepath.Abs(filepath.Join("test", "services", "kafka.sh"))
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(script); err != nil {
		return nil, nil, errors.New("this scenario starts a real Kafka with test/services/kafka.sh: run it at the top of the repository")
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, nil, err
	}
	k := &kafkaNode{addr: addr, script: script, dir: filepath.Join(scratch, "kafka"), env: env}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, err
	}
	if err := k.run(ctx, "start", k.dir, port); err != nil {
		return nil, nil, fmt.Errorf("start Kafka: %w", err)
	}
	// The node is only of this run: there is nothing to end cleanly.
	return k, func() { _ = k.run(context.WithoutCancel(ctx), "kill", k.dir) }, nil
}

func (k *kafkaNode) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, k.script, args...)
	cmd.Env = append(os.Environ(), k.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %.2000s", err, out)
	}
	return nil
}

// again ends the node cleanly and starts it over its directory; it gives the process and how long the start took.
func (k *kafkaNode) again(ctx context.Context) (pid int, took time.Duration, err error) {
	if err := k.run(ctx, "stop", k.dir); err != nil {
		return 0, 0, err
	}
	_, port, err := net.SplitHostPort(k.addr)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := k.run(ctx, "start", k.dir, port); err != nil {
		return 0, 0, err
	}
	took = time.Since(begin)
	raw, err := os.ReadFile(filepath.Join(k.dir, "pid"))
	if err != nil {
		return 0, 0, err
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(raw)))
	return pid, took, err
}

func (k *kafkaNode) createTopic(ctx context.Context, topic string, partitions int) error {
	return k.run(ctx, "tool", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", k.addr,
		"--create", "--topic", topic, "--partitions", strconv.Itoa(partitions))
}

// topicLoad sends the messages of a shape to a topic, partition by partition in turn.
type topicLoad struct {
	topic      string
	partitions int
	next       func([]byte) []byte
	again      func() func([]byte) []byte // from the first message on
	id         func([]byte) []byte
	producer   *kafka.Producer

	mu    sync.Mutex
	want  content
	bytes int64
	sent  [][]time.Time // when a record was handed to the producer, by partition and offset
}

// newLoad begins a load of the case's messages.
func (w *ingestWork) newLoad(ctx context.Context, topic string) (*topicLoad, error) {
	p, err := kafka.NewProducer(ctx, kafka.ProducerConfig{Config: kafka.Config{Brokers: []string{w.node.addr}}, Codec: w.codec})
	if err != nil {
		return nil, err
	}
	return &topicLoad{
		topic: topic, partitions: w.partitions, next: w.kind.make(w.Seed), again: func() func([]byte) []byte { return w.kind.make(w.Seed) },
		id: w.kind.id, producer: p, sent: make([][]time.Time, w.partitions),
	}, nil
}

// send sends n more messages; flush waits for them.
func (l *topicLoad) send(ctx context.Context, n int) error {
	now := time.Now()
	for range n {
		// The producer keeps the bytes until they are acknowledged.
		value := l.next(nil)
		l.mu.Lock()
		p := int(l.want.records) % l.partitions
		l.want.add(l.id(value))
		l.bytes += int64(len(value))
		l.sent[p] = append(l.sent[p], now)
		l.mu.Unlock()
		if err := l.producer.Send(ctx, l.topic, int32(p), nil, value); err != nil {
			return err
		}
	}
	return nil
}

func (l *topicLoad) flush(ctx context.Context) error { return l.producer.Flush(ctx) }

// ends gives the last offset of each partition.
func (l *topicLoad) ends() map[int32]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[int32]int64{}
	for p, sent := range l.sent {
		if len(sent) > 0 {
			out[int32(p)] = int64(len(sent)) - 1
		}
	}
	return out
}

// upTo is the content of the first messages of each partition, up to the offsets at.
func (l *topicLoad) upTo(at map[int32]int64) (want content) {
	next, value := l.again(), []byte(nil)
	for i := range l.want.records {
		value = next(value[:0])
		last, ok := at[int32(i%int64(l.partitions))]
		if ok && i/int64(l.partitions) <= last {
			want.add(l.id(value))
		}
	}
	return want
}

// since gives for the offsets [from, to] of a partition how long before now they were sent.
func (l *topicLoad) since(p int32, from, to int64, now time.Time) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []time.Duration
	for _, at := range l.sent[p][from : to+1] {
		out = append(out, now.Sub(at))
	}
	return out
}

// checkEnds looks whether the topic's partitions end where the load thinks they do.
func (l *topicLoad) checkEnds(ctx context.Context, k *kafkaNode) error {
	src, err := kafka.Open(ctx, kafka.Config{Brokers: []string{k.addr}})
	if err != nil {
		return err
	}
	defer src.Close()
	for p, last := range l.ends() {
		b, err := src.Bounds(ctx, record.TopicPartition{Topic: l.topic, Partition: p})
		if err != nil {
			return err
		}
		if int64(b.End) != last+1 {
			return fmt.Errorf("topic %s, partition %d ends at %d after %d records were sent", l.topic, p, b.End, last+1)
		}
	}
	return nil
}
