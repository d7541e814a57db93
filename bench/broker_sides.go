package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
)

// Sides of scenario broker.
const (
	sideOurs    = "ledgerlake"
	sideDurable = "ledgerlake durable"
	sideHistory = "ledgerlake history"
	sideKafka   = "Kafka"
	sideFlush   = "Kafka flush.messages=1"
)

// brokerServer is a running server, seen from outside.
type brokerServer struct {
	addr string
	pid  int
	peak *atomic.Int64 // kB
}

func (s *brokerServer) cpu() time.Duration { return processCPU(s.pid) }
func (s *brokerServer) peakMB() float64    { return float64(s.peak.Load()) * 1024 / 1e6 }

// brokerSide is a server with the setting of its topics that is measured.
type brokerSide struct {
	*brokerServer
	name     string
	settings map[string]string // of its topics
}

// brokerPair is two servers that are measured in turns.
type brokerPair struct {
	ours, theirs string // names of the sides
	durability   string // of ours
	settings     map[string]string
}

// runPair starts the servers of a pair, as far as they were asked for, and measures them.
func (w *brokerWork) runPair(ctx context.Context, p brokerPair, round int) error {
	settle()
	var sides []brokerSide
	if w.wants(p.ours) {
		dir := filepath.Join(w.scratch, p.durability)
		defer os.RemoveAll(dir)
		begin := time.Now()
		s, end, err := w.startServe(ctx, dir, "--no-tiering", "--durability", p.durability)
		if err != nil {
			return err
		}
		defer end()
		w.started(p.ours, round, time.Since(begin))
		sides = append(sides, brokerSide{brokerServer: s, name: p.ours})
	}
	if w.wants(sideKafka) {
		s, end, err := w.startKafka(ctx, p.theirs, round)
		if err != nil {
			return err
		}
		defer end()
		sides = append(sides, brokerSide{brokerServer: s, name: p.theirs, settings: p.settings})
	}
	return w.runPartitions(ctx, sides, p.durability == "group", round)
}

// startServe starts our own server over a directory, and waits until it is ready. Its log is beside the directory.
func (w *brokerWork) startServe(ctx context.Context, dir string, more ...string) (_ *brokerServer, end func(), err error) {
	binary, err := w.self()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	ready := filepath.Join(dir, "ready.json")
	args := append([]string{"serve", "--dir", dir, "--kafka-listen", "127.0.0.1:0", "--http-listen", "", "--ready-file", ready, "--log-level", "warn"}, more...)
	c, err := startChild(ctx, dir+".log", nil, binary, args...)
	if err != nil {
		return nil, nil, err
	}
	var info struct {
		Kafka string `json:"kafka"`
	}
	for info.Kafka == "" {
		if err := c.ended(); err != nil {
			c.end()
			return nil, nil, err
		}
		if raw, err := os.ReadFile(ready); err == nil && json.Unmarshal(raw, &info) == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return &brokerServer{addr: info.Kafka, pid: c.cmd.Process.Pid, peak: c.peak}, c.end, nil
}

// kafkaAsShipped are the JVM options that Kafka's own start script gives a broker. The small JVM of the other scenarios starts
// faster, and is slower when it runs.
const kafkaAsShipped = "KAFKA_JVM=-Xms1G -Xmx1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 " +
	"-XX:+ExplicitGCInvokesConcurrent"

// startKafka starts a real Kafka and takes how long that is, of a directory that is made already.
func (w *brokerWork) startKafka(ctx context.Context, side string, round int) (_ *brokerServer, end func(), err error) {
	scratch := filepath.Join(w.scratch, "kafka")
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return nil, nil, err
	}
	k, stop, err := startKafka(ctx, scratch, kafkaAsShipped)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(scratch))
	}
	remove := func() {
		stop()
		_ = os.RemoveAll(scratch)
	}
	pid, took, err := k.again(ctx)
	if err != nil {
		remove()
		return nil, nil, err
	}
	w.started(side, round, took)
	peak, unwatch := watchProcess(pid)
	return &brokerServer{addr: k.addr, pid: pid, peak: peak}, func() { unwatch(); remove() }, nil
}

func (w *brokerWork) started(side string, round int, took time.Duration) {
	w.report.Samples = append(w.report.Samples, Sample{Case: side + ", start", Round: round, Seconds: took.Seconds()})
}

// runPartitions measures the sides with topics of each number of partitions. A first pass warms them up and does not count.
func (w *brokerWork) runPartitions(ctx context.Context, sides []brokerSide, durable bool, round int) error {
	if len(sides) == 0 {
		return nil
	}
	warm := *w
	warm.report, warm.values = &Report{}, w.values[:min(len(w.values), 100_000)]
	if err := warm.topics(ctx, sides, "warm", 1, durable, round); err != nil {
		return err
	}
	for _, n := range brokerPartitions {
		if err := w.topics(ctx, sides, "measured", n, durable, round); err != nil {
			return err
		}
		if err := w.steady(ctx, sides, "measured", n, durable, round); err != nil {
			return err
		}
	}
	return nil
}

// topics makes a topic on each side, fills it, and reads it again or fills it once more in small batches: each step by one side
// and then by the other, and each side first in every second round.
func (w *brokerWork) topics(ctx context.Context, sides []brokerSide, prefix string, partitions int, durable bool, round int) error {
	topic := brokerTopic(prefix, partitions)
	for _, s := range sides {
		if err := kafka.CreateTopic(ctx, kafka.Config{Brokers: []string{s.addr}}, topic, int32(partitions), s.settings); err != nil {
			return err
		}
	}
	steps := []func(s brokerSide) error{
		func(s brokerSide) error { return w.produce(ctx, s, topic, 0, partitions, round) },
		func(s brokerSide) error {
			if durable {
				return w.produce(ctx, s, topic, brokerSmallBatch, partitions, round)
			}
			return w.consume(ctx, s.brokerServer, brokerRead{side: s.name, topic: topic, partitions: partitions}, round)
		},
	}
	for _, step := range steps {
		for i := range sides {
			if err := step(sides[(i+round)%len(sides)]); err != nil {
				return err
			}
		}
	}
	return nil
}

func brokerTopic(prefix string, partitions int) string {
	return fmt.Sprintf("%s-%d", prefix, partitions)
}
