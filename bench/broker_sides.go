package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

func (w *brokerWork) runOurs(ctx context.Context, round int) error {
	return w.serve(ctx, sideOurs, "none", round)
}

func (w *brokerWork) runDurable(ctx context.Context, round int) error {
	return w.serve(ctx, sideDurable, "group", round)
}

// serve measures our own server with a durability.
func (w *brokerWork) serve(ctx context.Context, side, durability string, round int) error {
	dir := filepath.Join(w.scratch, durability)
	defer os.RemoveAll(dir)
	begin := time.Now()
	s, end, err := w.startServe(ctx, dir, "--no-tiering", "--durability", durability)
	if err != nil {
		return err
	}
	defer end()
	w.started(side, round, time.Since(begin))
	return w.all(ctx, s, side, round, func(ctx context.Context, topic string, partitions int) error {
		return kafka.CreateTopic(ctx, kafka.Config{Brokers: []string{s.addr}}, topic, int32(partitions), nil)
	})
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

// runKafka measures a real Kafka, with topics of both kinds.
func (w *brokerWork) runKafka(ctx context.Context, round int) error {
	scratch := filepath.Join(w.scratch, fmt.Sprint("kafka-", round))
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	k, stop, err := startKafka(ctx, scratch, kafkaAsShipped)
	if err != nil {
		return err
	}
	defer stop()
	// It is started a second time to measure that without making its directory.
	if err := k.run(ctx, "stop", k.dir); err != nil {
		return err
	}
	_, port, _ := strings.Cut(k.addr, ":")
	begin := time.Now()
	if err := k.run(ctx, "start", k.dir, port); err != nil {
		return err
	}
	w.started(sideKafka, round, time.Since(begin))
	raw, err := os.ReadFile(filepath.Join(k.dir, "pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return err
	}
	peak, end := watchProcess(pid)
	defer end()
	s := &brokerServer{addr: k.addr, pid: pid, peak: peak}
	if err := w.all(ctx, s, sideKafka, round, func(ctx context.Context, topic string, partitions int) error {
		return kafka.CreateTopic(ctx, kafka.Config{Brokers: []string{s.addr}}, topic, int32(partitions), nil)
	}); err != nil {
		return err
	}
	return w.all(ctx, s, sideFlush, round, func(ctx context.Context, topic string, partitions int) error {
		return kafka.CreateTopic(ctx, kafka.Config{Brokers: []string{s.addr}}, topic, int32(partitions), map[string]string{"flush.messages": "1"})
	})
}

func (w *brokerWork) started(side string, round int, took time.Duration) {
	w.report.Samples = append(w.report.Samples, Sample{Case: side + ", start", Round: round, Seconds: took.Seconds()})
}

// all runs everything on one side. A first pass warms it up and does not count.
func (w *brokerWork) all(ctx context.Context, s *brokerServer, side string, round int, create func(context.Context, string, int) error) error {
	durable := side == sideDurable || side == sideFlush
	warm := *w
	warm.report, warm.values = &Report{}, w.values[:min(len(w.values), 100_000)]
	prefix := strings.NewReplacer(" ", "-", "=", "-").Replace(side)
	for i, n := range append([]int{1}, brokerPartitions...) {
		work := w
		if i == 0 {
			work = &warm
		}
		topic := fmt.Sprintf("%s-%d-%d", prefix, i, n)
		if err := create(ctx, topic, n); err != nil {
			return err
		}
		if err := work.produce(ctx, s, side, topic, 0, n, round); err != nil {
			return err
		}
		if durable {
			if err := work.produce(ctx, s, side, topic, brokerSmallBatch, n, round); err != nil {
				return err
			}
		} else {
			if err := work.consume(ctx, s, brokerRead{side: side, topic: topic, partitions: n}, round); err != nil {
				return err
			}
		}
		if i == 0 || side == sideFlush && n > 12 {
			continue
		}
		if durable {
			if err := work.diskSync(side, n, round); err != nil {
				return err
			}
		}
		if err := work.steady(ctx, s, side, topic, n, round); err != nil {
			return err
		}
	}
	return nil
}
