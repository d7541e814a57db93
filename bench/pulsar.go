package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

const pulsarTopic = "public/default/bench"

// RunPulsar measures a topic of a real Pulsar on its way into a table, and its replay from there, beside Pulsar's own Java
// reader on the same messages and beside the same messages on their way from a real Kafka; in turns, in one run. One
// partition each, the shop events of the other scenarios (Events), about 690 bytes of JSON, in batches.
func RunPulsar(ctx context.Context, cfg Config) (r *Report, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	scratch, remove, err := cfg.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	p, end, err := startPulsar(ctx, scratch)
	if err != nil {
		return nil, err
	}
	defer end()
	k, endKafka, err := startKafka(ctx, scratch)
	if err != nil {
		return nil, err
	}
	defer endKafka()
	w := &pulsarWork{Config: cfg, pulsar: p, kafka: k, scratch: scratch, report: &Report{Scenario: "pulsar", Machine: Machine(), Time: time.Now().UTC()}}
	if err := w.fill(ctx); err != nil {
		return nil, err
	}
	for round := range cfg.Rounds {
		if err := w.round(ctx, round); err != nil {
			return nil, err
		}
	}
	w.goals()
	return w.report, nil
}

// pulsarNode is a real Pulsar that the bench has started.
type pulsarNode struct{ script, tool, dir, url string }

func startPulsar(ctx context.Context, scratch string) (*pulsarNode, func(), error) {
	services, err := filepath.Abs(filepath.Join("test", "services"))
	if err != nil {
		return nil, nil, err
	}
	p := &pulsarNode{script: filepath.Join(services, "pulsar.sh"), tool: filepath.Join(services, "PulsarTool.java"), dir: filepath.Join(scratch, "pulsar")}
	if _, err := os.Stat(p.script); err != nil {
		return nil, nil, errors.New("this scenario starts a real Pulsar with test/services/pulsar.sh: run it at the top of the repository")
	}
	var ports [2]string
	for i := range ports {
		addr, err := freeAddr()
		if err != nil {
			return nil, nil, err
		}
		if _, ports[i], err = net.SplitHostPort(addr); err != nil {
			return nil, nil, err
		}
	}
	p.url = "pulsar://127.0.0.1:" + ports[0]
	if _, err := p.run(ctx, "start", p.dir, ports[0], ports[1]); err != nil {
		return nil, nil, fmt.Errorf("start Pulsar: %w", err)
	}
	return p, func() { _, _ = p.run(context.WithoutCancel(ctx), "kill", p.dir) }, nil
}

func (p *pulsarNode) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.script, args...)
	cmd.Env = append(os.Environ(), "PULSAR_JIT=full", "PULSAR_CONFIG=defaultRetentionTimeInMinutes=-1\ndefaultRetentionSizeInMB=-1")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %.2000s", err, complaints.String())
	}
	return string(out), nil
}

// pulsarWork is the data of the scenario, in both logs.
type pulsarWork struct {
	Config
	pulsar  *pulsarNode
	kafka   *kafkaNode
	scratch string
	bytes   int64
	report  *Report
}

// events are the values of both logs, the same each time.
func (w *pulsarWork) events() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		gen := NewEvents(w.Seed, start(), time.Millisecond)
		for range w.Records {
			if _, v := gen.Next(nil, nil); !yield(v) {
				return
			}
		}
	}
}

// write puts the values into a file, a line each.
func (w *pulsarWork) write(file string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := bufio.NewWriter(f)
	for v := range w.events() {
		_, _ = b.Write(append(v, '\n')) // Flush has the error
		w.bytes += int64(len(v))
	}
	return b.Flush()
}

// fill writes the messages into both logs.
func (w *pulsarWork) fill(ctx context.Context) error {
	file := filepath.Join(w.scratch, "values")
	if err := w.write(file); err != nil {
		return err
	}
	if _, err := w.pulsar.run(ctx, "java", w.pulsar.tool, "produce", w.pulsar.url, pulsarTopic, "0", fmt.Sprint(w.Records), "values="+file, "batch=200"); err != nil {
		return fmt.Errorf("fill Pulsar: %w", err)
	}
	if err := w.kafka.createTopic(ctx, "bench", 1); err != nil {
		return err
	}
	p, err := kafka.NewProducer(ctx, kafka.ProducerConfig{Config: kafka.Config{Brokers: []string{w.kafka.addr}}})
	if err != nil {
		return err
	}
	defer p.Close()
	for v := range w.events() {
		if err := p.Send(ctx, "bench", 0, nil, v); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}

// The sides.
const (
	javaReader = "Pulsar's Java reader"
	fromPulsar = "ledgerlake, Pulsar to table"
	fromKafka  = "ledgerlake, Kafka to table"
	replayed   = "ledgerlake, table to Arrow"
)

// round runs all sides once.
func (w *pulsarWork) round(ctx context.Context, round int) error {
	out, err := w.pulsar.run(ctx, "java", w.pulsar.tool, "rate", w.pulsar.url, pulsarTopic, "warm=1")
	if err != nil {
		return err
	}
	s := Sample{Case: javaReader, Round: round}
	if _, err := fmt.Sscan(out, &s.Records, &s.Bytes, &s.Seconds, &s.CPUSeconds); err != nil || s.Records != int64(w.Records) || s.Bytes != w.bytes {
		return fmt.Errorf("%s says %q (%w), want %d messages of %d bytes together", javaReader, out, err, w.Records, w.bytes)
	}
	w.report.Samples = append(w.report.Samples, s)
	at := filepath.Join(w.scratch, fmt.Sprintf("table%d", round))
	if err := w.ingest(ctx, fromPulsar, round, at, pulsarTopic, w.pulsar.url+"/"+pulsarTopic, at); err != nil {
		return err
	}
	if err := w.ingest(ctx, fromKafka, round, at+"k", "bench", "--brokers", w.kafka.addr, "--topic", "bench", "--table", at+"k"); err != nil {
		return err
	}
	s, err = measure(replayed, round, func() (int64, int64, error) {
		rows, err := replayTopic(ctx, at, pulsarTopic, nil)
		return rows, w.bytes, err
	})
	if err == nil && s.Records != int64(w.Records) {
		err = fmt.Errorf("wrong result: %d rows of %d", s.Records, w.Records)
	}
	w.report.Samples = append(w.report.Samples, s)
	return errors.Join(err, os.RemoveAll(at), os.RemoveAll(at+"k"))
}

// ingest moves a topic into a new table with this program's own command, from the start of the process to its end.
func (w *pulsarWork) ingest(ctx context.Context, name string, round int, at, topic string, args ...string) error {
	self, err := w.self()
	if err != nil {
		return err
	}
	begin := time.Now()
	c, err := startChild(ctx, at+".log", nil, self, append([]string{"ingest", "--until-latest", "--log-level", "warn"}, args...)...)
	if err != nil {
		return err
	}
	err = c.wait(ctx)
	s := Sample{Case: name, Round: round, Seconds: time.Since(begin).Seconds(), CPUSeconds: c.cpu().Seconds(), Records: int64(w.Records), Bytes: w.bytes, MaxMB: float64(c.peak.Load()) * 1024 / 1e6}
	c.stop()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	rows, err := replayTopic(ctx, at, topic, []string{"_offset"})
	if err == nil && rows != s.Records {
		err = fmt.Errorf("wrong result: %s: %d rows of %d", name, rows, s.Records)
	}
	w.report.Samples = append(w.report.Samples, s)
	return err
}

// replayTopic reads a table from a topic's first record to its end, as any caller of package reader does.
func replayTopic(ctx context.Context, at, topic string, columns []string) (rows int64, err error) {
	store, err := openStore(at)
	if err != nil {
		return 0, err
	}
	t, err := table.Open(ctx, store, table.Config{Topic: topic})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	cur, err := reader.Open(ctx, reader.Config{Table: t, Topic: topic, Columns: columns})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cur.Close()) }()
	return countRows(ctx, cur, func(arrow.RecordBatch) {})
}

func (w *pulsarWork) goals() {
	rate := func(s Sample) float64 { return float64(s.Records) / s.Seconds }
	perCPU := func(s Sample) float64 { return float64(s.Records) / max(s.CPUSeconds, 1e-9) }
	r := w.report
	r.atLeast("replay / Pulsar's reader, records a second", 3, r.median(replayed, rate)/r.median(javaReader, rate))
	r.atLeast("replay / Pulsar's reader, records a CPU second", 3, r.median(replayed, perCPU)/r.median(javaReader, perCPU))
	r.Notes = append(r.Notes,
		"Pulsar's reader: the second pass of one JVM is measured, without its start; the broker's processor time is in none of the figures",
		fmt.Sprintf("to table, from Pulsar / from Kafka: %.2f by the clock, %.2f by processor time", r.median(fromPulsar, rate)/r.median(fromKafka, rate), r.median(fromPulsar, perCPU)/r.median(fromKafka, perCPU)))
}
