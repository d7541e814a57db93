package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/bench"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	topic      = "soak"
	ahead      = 1_500_000 // records that the topic has and the table has not
	targetSize = 64 << 20  // of compaction
	look       = 3 * time.Second
)

// limits are what each judged series may grow over the last two thirds of the run. live is what each collection of the
// heap leaves, so what a leak adds to; what is allocated at a moment is mostly garbage on its way.
var limits = map[string]Limit{
	"rss":           {Share: 0.10, Least: 16 << 20},
	"live":          {Share: 0.10, Least: 8 << 20},
	"goroutines":    {Share: 0.10, Least: 5},
	"handles":       {Share: 0.10, Least: 5},
	"small_files":   {Share: 0.20, Least: 16},
	"dropped_files": {Share: 0.20, Least: 50},
	"log_files":     {Share: 0.20, Least: 50},
}

// told are series of the report that prove nothing. The lag stands at what the producer keeps ahead where the producer is
// faster, and near nothing where ingest is, so it moves with what else the machine does; so does the processor time of a million rows.
var told = map[string]Limit{"heap": {Share: 0.10}, "lag": {Share: 0.10}, "cpu_a_million": {Share: 0.10}}

// A long run at full rate: resident memory and live heap, goroutines, handles, and the files that compaction, vacuum and log cleanup keep flat
// show no trend, nothing is lost to retention, and the table has each record once (I3, I8). LEDGERLAKE_SOAK says how long: make soak.
func TestSoak(t *testing.T) {
	text := os.Getenv("LEDGERLAKE_SOAK")
	if text == "" {
		t.Skip("a soak takes its time: make soak SOAK=30m")
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("LEDGERLAKE_SOAK: %v", err)
	}
	s := newRun(t, length)
	s.watch(t)
	s.finish(t)
	s.report(t, "not looked at yet") // what was sampled is not lost when the look ends badly
	s.report(t, s.verify(t))
	s.judge(t)
}

// run is a soak under way.
type run struct {
	length    time.Duration
	start     time.Time
	kafka     *harness.RealKafka
	dir       string // of the table
	http      string
	table     *table.Table
	ingest    *harness.Process
	producer  *producer
	stop      context.CancelFunc
	sending   chan error
	rows      atomic.Int64
	samples   []Sample
	seen      map[string]bool // files that the table had at a look
	profiles  int             // that were kept
	mostKafka int64
}

func newRun(t *testing.T, length time.Duration) *run {
	t.Helper()
	t.Setenv("KAFKA_CONFIG", "log.retention.check.interval.ms=2000\nlog.segment.delete.delay.ms=1000\nlog.initial.task.delay.ms=1000")
	s := &run{length: length, kafka: harness.Kafka(t), dir: filepath.Join(t.TempDir(), topic), sending: make(chan error, 1), seen: map[string]bool{}}
	s.createTopic(t)
	s.createTable(t)
	s.http = freeAddr(t)
	// Each job has many rounds in the part that is judged.
	often := min(max(length/60, 2*time.Second), 10*time.Second)
	s.ingest = harness.Start(t, "ingest", "--brokers", s.kafka.Addr, "--topic", topic, "--table", s.dir, "--group", "soak", "--flush-age", "1s",
		"--optimize-interval", often.String(), "--vacuum-interval", (2 * often).String(), "--optimize-target-size", strconv.Itoa(targetSize),
		"--http-listen", s.http, "--http-pprof", "--log-level", "warn")
	var err error
	if s.producer, err = newProducer(s.kafka.Addr, topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.producer.client.Close)
	harness.Eventually(t, time.Minute, func() error {
		_, err := metrics(t.Context(), s.http)
		return err
	})
	s.start = time.Now()
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	t.Cleanup(stop)
	go func() { s.sending <- s.producer.run(ctx, ahead, &s.rows) }()
	return s
}

// createTopic makes one that keeps a few times of what is ahead of the table.
func (s *run) createTopic(t *testing.T) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	value := func(s string) *string { return &s }
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, map[string]*string{
		"retention.bytes": value(strconv.Itoa(64 << 20)), "segment.bytes": value(strconv.Itoa(16 << 20)), "file.delete.delay.ms": value("1000"),
	}, topic)
	if err != nil {
		t.Fatal(err)
	}
}

func (s *run) createTable(t *testing.T) {
	t.Helper()
	store, err := dir.Open(dir.Config{Root: s.dir, FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := deltalog.ParseSchema(fields)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := deltalog.ToArrow(schema)
	if err != nil {
		t.Fatal(err)
	}
	keep := fmt.Sprintf("interval %d seconds", int(s.keep().Seconds()))
	s.table, err = table.Create(t.Context(), store, payload, table.Config{Topic: topic, DropValue: true,
		Properties: map[string]string{"delta.deletedFileRetentionDuration": keep, "delta.logRetentionDuration": "interval 1 days"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.table.Close() })
}

// keep is how long what has gone from the table stays on disk.
func (s *run) keep() time.Duration { return min(max(s.length/30, 2*time.Second), time.Minute) }

// freeAddr is a loopback address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(harness.FreePort(t, 0)))
}

// watch takes samples until the time is over.
func (s *run) watch(t *testing.T) {
	t.Helper()
	quick, slow, over := time.NewTicker(200*time.Millisecond), time.NewTicker(look), time.After(s.length)
	defer quick.Stop()
	defer slow.Stop()
	for {
		select {
		case <-over:
			return
		case <-s.ingest.Done():
			t.Fatalf("ingest ended before its time\n%s", s.ingest.Log())
		case err := <-s.sending:
			t.Fatalf("the producer ended before its time: %v", err)
		case <-quick.C:
			s.measure(t)
		case <-slow.C:
			v := s.measure(t)
			if err := errors.Join(files(t.Context(), s.table, s.dir, targetSize, s.keep(), s.seen, v), ageLog(s.dir, s.keep())); err != nil {
				t.Fatal(err)
			}
			s.samples = append(s.samples, Sample{At: time.Since(s.start).Round(time.Millisecond), Values: v, Produce: s.producer.total.Load()})
			s.mostKafka = max(s.mostKafka, folderBytes(s.kafka.LogDir()))
			s.keepProfile(t)
			if n := len(s.samples); n%20 == 0 {
				t.Logf("%s: %.0f rows, rss %.0f MiB, live %.0f MiB, %.0f goroutines, %.0f handles, %.0f live files (%.0f small), %.0f log files",
					s.samples[n-1].At.Round(time.Second), v["rows"], v["rss"]/(1<<20), v["live"]/(1<<20), v["goroutines"], v["handles"], v["live_files"], v["small_files"], v["log_files"])
			}
		}
	}
}

// keepProfile writes a heap profile to LEDGERLAKE_SOAK_OUT after each sixth of the run: go tool pprof -diff_base tells what
// has grown between two of them.
func (s *run) keepProfile(t *testing.T) {
	t.Helper()
	out := os.Getenv("LEDGERLAKE_SOAK_OUT")
	if out == "" || time.Since(s.start) < s.length*time.Duration(s.profiles+1)/6 {
		return
	}
	s.profiles++
	profile, err := get(t.Context(), s.http, "/debug/pprof/heap?gc=1")
	if err == nil {
		err = os.WriteFile(filepath.Join(out, fmt.Sprintf("heap-%d.pprof", s.profiles)), profile, 0o600)
	}
	if err != nil {
		t.Fatalf("heap profile: %v", err)
	}
}

// measure reads the process, and tells the producer how far the table is.
func (s *run) measure(t *testing.T) map[string]float64 {
	t.Helper()
	v, err := metrics(t.Context(), s.http)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.ingest.Log())
	}
	s.rows.Store(int64(v["rows"]))
	return v
}

// finish lets everything become rows and looks whether the table is right.
func (s *run) finish(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.sending; err != nil {
		t.Fatalf("produce: %v", err)
	}
	harness.Eventually(t, time.Minute, func() error {
		v := s.measure(t)
		if got, want := s.rows.Load(), s.producer.total.Load(); got != want {
			return fmt.Errorf("%d rows of %d; %.0f lost, %.0f dead letters", got, want, v["lost"], v["dead_letters"])
		}
		return nil
	})
	s.ingest.Stop(t)
	if _, err := os.Stat(s.dir + "_dead_letters"); err == nil {
		t.Error("there are dead letters")
	}
}

// verify lets DuckDB look at the rows, one partition at a time: each look has a time limit, which a whole table would pass.
func (s *run) verify(t *testing.T) string {
	t.Helper()
	for p, n := range s.producer.sent {
		if out := strings.TrimSpace(string(harness.RunPython(t, nil, "verify.py", s.dir, strconv.Itoa(p), strconv.FormatInt(n, 10)))); out != "" {
			t.Errorf("DuckDB finds that the table is not what was produced:\n%s", out)
			return out
		}
	}
	return bench.SoakVerified
}

// verdicts judges each series of some.
func (s *run) verdicts(limits map[string]Limit) (out []Verdict) {
	for name, limit := range limits {
		var series []Point
		for _, sample := range s.samples {
			series = append(series, Point{sample.At, sample.Values[name]})
		}
		out = append(out, Judge(name, series, limit))
	}
	slices.SortFunc(out, func(a, b Verdict) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// addCost adds the processor time of a million rows, of the minute or so before each sample.
func (s *run) addCost() {
	span := max(5, len(s.samples)/30)
	for i := range s.samples {
		now, before := s.samples[i].Values, s.samples[max(0, i-span)].Values
		if rows := now["rows"] - before["rows"]; rows > 0 {
			now["cpu_a_million"] = (now["cpu_seconds"] - before["cpu_seconds"]) / rows * 1e6
		}
	}
}

func (s *run) judge(t *testing.T) {
	t.Helper()
	for _, v := range s.verdicts(limits) {
		if !v.Flat {
			t.Errorf("not flat: %s", v)
		}
	}
}

// report says what the run did, and writes report.json and report.txt to LEDGERLAKE_SOAK_OUT.
func (s *run) report(t *testing.T, verification string) {
	t.Helper()
	s.addCost()
	verdicts, others := s.verdicts(limits), s.verdicts(told)
	last := s.samples[len(s.samples)-1]
	var text bytes.Buffer
	fmt.Fprintf(&text, "soak of %s on %d CPUs (%s): %d records of %d partitions, %.0f a second, %.1f CPU s a million; %d samples\n", s.length, runtime.NumCPU(), runtime.GOARCH,
		s.producer.total.Load(), partitions, last.Values["rows"]/last.At.Seconds(), last.Values["cpu_seconds"]/last.Values["rows"]*1e6, len(s.samples))
	fmt.Fprintf(&text, "version %.0f, %.0f live files of %.0f MiB, %.0f restarts, %.0f conflicts; most in Kafka %d MiB\n", last.Values["version"], last.Values["live_files"],
		last.Values["live_bytes"]/(1<<20), last.Values["restarts"], last.Values["conflicts"], s.mostKafka>>20)
	fmt.Fprintln(&text, verification)
	for _, v := range verdicts {
		fmt.Fprintln(&text, v)
	}
	fmt.Fprintln(&text, "told, not judged:")
	for _, v := range others {
		fmt.Fprintln(&text, v)
	}
	t.Logf("\n%s", text.String())
	// bench report takes this form, older reports too: only add to it.
	raw, err := json.MarshalIndent(map[string]any{"commit": os.Getenv("LEDGERLAKE_SOAK_COMMIT"), "machine": bench.Machine(), "time": time.Now().UTC(),
		"length": s.length.String(), "records": s.producer.total.Load(), "verification": verification,
		"verdicts": verdicts, "told": others, "samples": s.samples}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	out := os.Getenv("LEDGERLAKE_SOAK_OUT")
	if out == "" {
		return
	}
	for name, b := range map[string][]byte{"report.txt": text.Bytes(), "report.json": raw} {
		if err := os.WriteFile(filepath.Join(out, name), b, 0o600); err != nil {
			t.Error(err)
		}
	}
}
