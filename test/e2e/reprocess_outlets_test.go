package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// writeJob puts a job's text into a file.
func writeJob(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(file, []byte("name: "+name+"\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// decided is how many offsets of its splits a job has decided.
func decided(t *testing.T, job string) int64 {
	t.Helper()
	var st struct{ Decided int64 }
	if err := json.Unmarshal(harness.Run(t, nil, "reprocess", "status", job, "--json"), &st); err != nil {
		t.Fatal(err)
	}
	return st.Decided
}

// killMidway starts a job, and kills it when it has decided more than before.
func killMidway(t *testing.T, job string, args ...string) {
	t.Helper()
	before := decided(t, job)
	p := harness.Start(t, append([]string{"reprocess", job}, args...)...)
	harness.Eventually(t, time.Minute, func() error {
		select {
		case <-p.Done():
			return nil
		default:
		}
		if n := decided(t, job); n <= before {
			return fmt.Errorf("%d offsets are decided, as before", n)
		}
		return nil
	})
	p.Kill()
}

// A topic that a job fills has each record of the source once, in order, byte for byte, however often the job was
// killed: a topic of a served directory, and one of a real Kafka (I3, I4).
func TestReprocessIntoATopicKilled(t *testing.T) {
	for _, where := range []string{"ledgerlake", "Kafka"} {
		t.Run(where, func(t *testing.T) {
			seed := seedtest.New(t)
			dir := t.TempDir()
			s := harness.Serve(t, dir, "", "--topic", "events:3", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "200ms")
			produce(t, s.Addr, "events", seed, 0, 3000)
			awaitRows(t, s.Table("events"), 3000)
			cutLog(t, s.Addr, "events", 3000)
			produce(t, s.Addr, "events", seed, 3000, 4000)
			sink, addr := "topic:"+dir+"/clean", s.Addr
			if where == "Kafka" {
				addr = harness.Kafka(t).Addr
				sink = "kafka://" + addr + "/clean"
			}
			job := writeJob(t, dir, "copy", "source: "+dir+"/events\nsink: "+sink+"\n")
			for range harness.Kills(t, 3) {
				killMidway(t, job, "--max-rate", "1500", "--flush-rows", "100")
			}
			harness.Run(t, nil, "reprocess", job)
			sameTopics(t, harness.Consume(t, s.Addr, "events"), harness.Consume(t, addr, "clean"))

			for round := range 2 { // killed, and told to end
				on := harness.Start(t, "reprocess", job, "--follow")
				n := 4000 + 300*(round+1)
				produce(t, s.Addr, "events", seed, n-300, n)
				harness.Eventually(t, time.Minute, func() error {
					if have := len(harness.Consume(t, addr, "clean")); have < n {
						return fmt.Errorf("the sink has %d records, want %d", have, n)
					}
					return nil
				})
				if round == 0 {
					on.Kill()
				} else {
					on.Stop(t)
				}
			}
			sameTopics(t, harness.Consume(t, s.Addr, "events"), harness.Consume(t, addr, "clean"))
		})
	}
}

// sameTopics compares what two topics hold, partition by partition.
func sameTopics(t *testing.T, want, got []harness.Record) {
	t.Helper()
	byPartition := func(all []harness.Record) map[int32][]string {
		out := map[int32][]string{}
		for _, r := range all {
			out[r.Partition] = append(out[r.Partition], fmt.Sprintf("%x %x %d", r.Key, r.Value, r.Timestamp))
		}
		return out
	}
	a, b := byPartition(want), byPartition(got)
	for p := range a {
		if len(a[p]) != len(b[p]) {
			t.Errorf("partition %d has %d records, want %d", p, len(b[p]), len(a[p]))
			continue
		}
		for i := range a[p] {
			if a[p][i] != b[p][i] {
				t.Fatalf("partition %d: record %d is %s, want %s", p, i, b[p][i], a[p][i])
			}
		}
	}
	if len(want) != len(got) || len(want) == 0 {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

// A program that a job fills has each record in the end, by place, however often the job was killed (I4).
func TestReprocessIntoAProgramKilled(t *testing.T) {
	seed := seedtest.New(t)
	dir := t.TempDir()
	s := harness.Serve(t, dir, "", "--topic", "events:3", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "200ms")
	produce(t, s.Addr, "events", seed, 0, 1500)
	awaitRows(t, s.Table("events"), 1500)
	script, err := filepath.Abs("load.py")
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "events.db")
	job := writeJob(t, dir, "load", fmt.Sprintf("source: %s/events\nsink: command\nsinkCommand: [%q, %q, %q]\nwhere: n %% 2 == 0\nkeep: [n]\n", dir, harness.Python(t), script, db))
	for range harness.Kills(t, 2) {
		killMidway(t, job, "--max-rate", "500", "--flush-rows", "50")
	}
	harness.Run(t, nil, "reprocess", job)
	got := harness.ByPosition(t, "the program", harness.DecodeRows(t, harness.RunPython(t, nil, "load.py", db, "show")))
	want := 0
	for place, row := range harness.ByPosition(t, "the table", readTable(t, s.Table("events"))) {
		n := harness.Int(t, row, "n")
		loaded, ok := got[place]
		if ok != (n%2 == 0) || ok && harness.Int(t, loaded, "n") != n {
			t.Fatalf("event %d at %v: the program has %v", n, place, loaded)
		}
		if ok {
			want++
		}
	}
	if want != len(got) || want != 750 {
		t.Errorf("the program has %d records, want %d", len(got), want)
	}
}

// The Kubernetes Indexed Job of docs/kubernetes, as local processes: its args, one process an index, some of them killed
// and started again. Status, pause and metrics are of all of them (I3).
func TestReprocessAsIndexedJob(t *testing.T) {
	seed := seedtest.New(t)
	dir := t.TempDir()
	s := harness.Serve(t, dir, "", "--topic", "events:3", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "200ms", "--flush-rows", "500")
	produce(t, s.Addr, "events", seed, 0, 3000)
	awaitRows(t, s.Table("events"), 3000)
	args, count := indexedJob(t)
	job := writeJob(t, dir, "wide", "source: "+dir+"/events\nsink: "+dir+"/wide\nwhere: n != 7\nsplitBytes: 10000\n")

	var preview struct {
		Offsets int64
		Samples []json.RawMessage
	}
	if err := json.Unmarshal(harness.Run(t, nil, "reprocess", job, "--dry-run", "--json"), &preview); err != nil || preview.Offsets != 3000 || len(preview.Samples) == 0 {
		t.Fatalf("dry run: %+v, %v", preview, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "wide")); !os.IsNotExist(err) {
		t.Fatalf("a dry run left something at the sink: %v", err)
	}
	pods := func() (out []*harness.Process) {
		for i := range count {
			var own []string
			for _, a := range args {
				a = strings.ReplaceAll(a, "$(JOB_COMPLETION_INDEX)", fmt.Sprint(i))
				a = strings.ReplaceAll(a, "/etc/ledgerlake/job.yaml", job)
				own = append(own, strings.ReplaceAll(a, ":9100", "127.0.0.1:0"))
			}
			out = append(out, harness.Start(t, own...))
		}
		return out
	}
	harness.Run(t, nil, "reprocess", "pause", job)
	first := pods()
	metrics := scrape(t, first[0])
	if !strings.Contains(metrics, `ledgerlake_reprocess_paused{job="wide",topic="events"} 1`) || !strings.Contains(metrics, `ledgerlake_reprocess_offsets{job="wide",topic="events"} 3000`) {
		t.Errorf("metrics of a paused job:\n%s", metrics)
	}
	if n := decided(t, job); n != 0 {
		t.Errorf("a paused job has decided %d offsets", n)
	}
	harness.Run(t, nil, "reprocess", "throttle", job, "--max-rate", "300")
	harness.Run(t, nil, "reprocess", "resume", job)
	harness.Eventually(t, time.Minute, func() error {
		if decided(t, job) == 0 {
			return fmt.Errorf("nothing is done yet")
		}
		return nil
	})
	for _, p := range first {
		p.Kill()
	}
	harness.Run(t, nil, "reprocess", "throttle", job, "--max-rate", "")
	for _, p := range pods() {
		p.Wait(t, harness.Patience)
	}
	rows := readTable(t, filepath.Join(dir, "wide"))
	harness.ByPosition(t, "the new table", rows) // fails on a place that comes twice
	if len(rows) != 2999 {
		t.Errorf("%d rows, want 2999", len(rows))
	}
	harness.Run(t, nil, "check", filepath.Join(dir, "wide"))
}

// indexedJob reads the manifest, and gives the args of a pod and how many pods there are.
func indexedJob(t *testing.T) (args []string, count int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(harness.Top(t), "docs", "kubernetes", "reprocess-job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var m struct {
			Kind string
			Data map[string]string
			Spec struct {
				CompletionMode string `yaml:"completionMode"`
				Completions    int
				Template       struct {
					Spec struct {
						Containers []struct{ Command, Args []string }
					}
				}
			}
		}
		if err := d.Decode(&m); err != nil {
			t.Fatalf("no Indexed Job in the manifest: %v", err)
		}
		if m.Kind == "ConfigMap" { // its job is one that we would take
			file := filepath.Join(t.TempDir(), "job.yaml")
			if err := os.WriteFile(file, []byte(strings.Replace(m.Data["job.yaml"], "s3://lake/events", t.TempDir(), 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			if r := harness.RunBoth(t, nil, "reprocess", file); r.Err == nil || strings.Contains(string(r.Stderr), "job:") {
				t.Errorf("the job of the manifest: %s", r.Stderr)
			}
			continue
		}
		if m.Kind != "Job" || m.Spec.CompletionMode != "Indexed" || len(m.Spec.Template.Spec.Containers) != 1 {
			t.Fatalf("manifest: %+v", m)
		}
		c := m.Spec.Template.Spec.Containers[0]
		if strings.Join(c.Command, " ") != "ledgerlake" || !strings.Contains(strings.Join(c.Args, " "), fmt.Sprintf("--split-count=%d", m.Spec.Completions)) {
			t.Errorf("command %v %v of %d pods", c.Command, c.Args, m.Spec.Completions)
		}
		return c.Args, m.Spec.Completions
	}
}

// scrape reads the metrics of a process that logs where they are.
func scrape(t *testing.T, p *harness.Process) (text string) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		_, rest, ok := strings.Cut(p.Log(), "msg=metrics addr=")
		if !ok {
			return fmt.Errorf("it does not say where its metrics are:\n%s", p.Log())
		}
		addr, _, _ := strings.Cut(rest, "\n")
		resp, err := http.Get("http://" + strings.Fields(addr)[0] + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		_, err = b.ReadFrom(resp.Body)
		text = b.String()
		if err == nil && !strings.Contains(text, "ledgerlake_reprocess_paused") {
			err = fmt.Errorf("metrics: %s", text)
		}
		return err
	})
	return text
}
