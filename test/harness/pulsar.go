package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RealPulsar is a running Apache Pulsar: a broker and a bookie.
type RealPulsar struct {
	Addr string // host:port of the broker
	Web  string // http://host:port of the admin API
	dir  string
	port int
	web  int
	env  []string
}

// needPulsarJars skips without Java or the jars of a real Pulsar.
func needPulsarJars(t testing.TB) {
	t.Helper()
	if os.Getenv("LEDGERLAKE_PULSAR") == "" {
		t.Skip("Pulsar costs minutes: run 'make pulsar'")
	}
	if _, err := exec.LookPath("java"); err != nil && os.Getenv("JAVA_HOME") == "" {
		Missing(t, "Java", "install Java 17")
	}
	if jars, _ := filepath.Glob(filepath.Join(cache(t), "pulsar", "*", "pulsar-broker-*.jar")); len(jars) == 0 {
		Missing(t, "the Pulsar jars", "run 'test/services/pulsar.sh prepare'")
	}
}

// Pulsar starts a real Pulsar that is killed when the test ends. A ledger is sealed at so many entries. config has
// lines of key=value that win over those of pulsar.sh. Where it asks for a token, PULSAR_TOKEN must be in the environment.
func Pulsar(t testing.TB, entries int, config ...string) *RealPulsar {
	t.Helper()
	needPulsarJars(t)
	p := &RealPulsar{dir: filepath.Join(t.TempDir(), "pulsar"), port: FreePort(t, 0), web: FreePort(t, 0),
		env: []string{"PULSAR_ENTRIES=" + strconv.Itoa(entries), "PULSAR_CONFIG=" + strings.Join(config, "\n"), "LEDGERLAKE_CACHE=" + cache(t)}}
	p.Addr, p.Web = fmt.Sprintf("127.0.0.1:%d", p.port), fmt.Sprintf("http://127.0.0.1:%d", p.web)
	ended := serviceEnds(t, script(t, "pulsar.sh"), "kill", p.dir)
	t.Cleanup(func() {
		defer ended()
		// KILL: a clean stop takes seconds, and its data goes with the folder.
		if out, err := exec.Command(script(t, "pulsar.sh"), "kill", p.dir).CombinedOutput(); err != nil {
			t.Errorf("end Pulsar: %v\n%s", err, out)
		}
		if t.Failed() {
			if raw, err := os.ReadFile(filepath.Join(p.dir, "broker.log")); err == nil {
				t.Logf("the end of the broker's log:\n%s", raw[max(0, len(raw)-3000):])
			}
		}
	})
	p.Start(t)
	return p
}

// Kill ends it at once.
func (p *RealPulsar) Kill(t testing.TB) {
	t.Helper()
	if _, err := command(t, nil, p.env, script(t, "pulsar.sh"), "kill", p.dir); err != nil {
		t.Fatal(err)
	}
}

// Start starts it again after Kill.
func (p *RealPulsar) Start(t testing.TB) {
	t.Helper()
	if _, err := command(t, nil, p.env, script(t, "pulsar.sh"), "start", p.dir, strconv.Itoa(p.port), strconv.Itoa(p.web)); err != nil {
		t.Fatal(err)
	}
}

// URL is what Pulsar's clients connect to.
func (p *RealPulsar) URL() string { return "pulsar://" + p.Addr }

// Admin sends a request to the admin API and gives the answer. body is sent as JSON; nil sends none.
func (p *RealPulsar) Admin(t testing.TB, method, path string, body any) []byte {
	t.Helper()
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, p.Web+"/admin/v2/"+path, in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("PULSAR_TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, raw, err)
	}
	return raw
}

// Tool runs Pulsar's own Java client: see test/services/PulsarTool.java.
func (p *RealPulsar) Tool(t testing.TB, what string, args ...string) []byte {
	t.Helper()
	out, err := commandWithin(t, 5*RunTimeout, nil, p.env, script(t, "pulsar.sh"), append([]string{"java", filepath.Join(Top(t), "test", "services", "PulsarTool.java"), what, p.URL()}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// JavaTool runs another class of test/services with Pulsar's jars.
func (p *RealPulsar) JavaTool(t testing.TB, class string, args ...string) []byte {
	t.Helper()
	out, err := commandWithin(t, 5*RunTimeout, nil, p.env, script(t, "pulsar.sh"), append([]string{"java", filepath.Join(Top(t), "test", "services", class)}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// StartTool is Tool beside the test: wait gives its end.
func (p *RealPulsar) StartTool(t testing.TB, what string, args ...string) (wait func() error) {
	t.Helper()
	cmd := exec.Command(script(t, "pulsar.sh"), append([]string{"java", filepath.Join(Top(t), "test", "services", "PulsarTool.java"), what, p.URL()}, args...)...)
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), p.env...), &out, &out
	cmd.WaitDelay = lastWords
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan error, 1), programEnds(t, cmd.Process.Pid)
	go func() {
		err := cmd.Wait()
		ended()
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s", what, err, out.Bytes())
		}
		done <- err
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func() error {
		look := time.NewTicker(2 * time.Second)
		defer look.Stop()
		for {
			select {
			case err := <-done:
				return err
			case <-look.C:
				if err := p.lostLedger(); err != nil {
					return err
				}
			}
		}
	}
}

// lostLedger tells of a ledger that a killed Pulsar cannot open any more: its one bookie has no second copy of an entry that
// the kill tore in its journal, which has no checksums. Whoever writes to the topic would wait for ever.
func (p *RealPulsar) lostLedger() error {
	raw, err := os.ReadFile(filepath.Join(p.dir, "broker.log"))
	if err != nil {
		return nil // it has none yet
	}
	tries := map[string]int{}
	for _, m := range macMismatch.FindAllSubmatch(raw, -1) {
		ledger := string(m[1])
		if tries[ledger]++; tries[ledger] == 20 {
			return fmt.Errorf("the Pulsar that was killed cannot open its ledger %s any more: its only bookie has a torn entry; run the test again", ledger)
		}
	}
	return nil
}

var macMismatch = regexp.MustCompile(`Mac mismatch for ledger: (\d+)`)

// PulsarMessage is a message as Pulsar's own Java client reads it.
type PulsarMessage struct {
	Ledger, Entry, Sequence, PublishTime, EventTime int64
	Batch                                           int32
	Producer, Key, Properties, Value                string // Value in base64, or "null"
}

// ID is the message's place, as our rows have it.
func (m *PulsarMessage) ID() [3]int64 { return [3]int64{m.Ledger, m.Entry, int64(m.Batch)} }

// ReadPulsar gives all messages of one partition, read by Pulsar's Java client.
func (p *RealPulsar) ReadPulsar(t testing.TB, topic string) []PulsarMessage {
	t.Helper()
	return p.ReadPartitions(t, topic)[0]
}

// ReadPartitions is ReadPulsar for several partitions in one process: starting it takes longer than reading.
func (p *RealPulsar) ReadPartitions(t testing.TB, topics ...string) [][]PulsarMessage {
	t.Helper()
	return p.ReadSealed(t, "", topics...)
}

// ReadSealed is ReadPartitions by the private keys NAME.pem of a folder; none: encrypted messages as they are.
func (p *RealPulsar) ReadSealed(t testing.TB, keys string, topics ...string) [][]PulsarMessage {
	t.Helper()
	args := []string{strings.Join(topics, ",")}
	if keys != "" {
		args = append(args, "decrypt="+keys)
	}
	out := make([][]PulsarMessage, len(topics))
	for line := range strings.Lines(string(p.Tool(t, "read", args...))) {
		number, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		at, err := strconv.Atoi(number)
		f := strings.Split(rest, "\t")
		if err != nil || at >= len(topics) || len(f) != 10 {
			t.Fatalf("PulsarTool printed %q", line)
		}
		var n [6]int64
		for i := range n {
			v, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				t.Fatalf("PulsarTool printed %q: %v", line, err)
			}
			n[i] = v
		}
		out[at] = append(out[at], PulsarMessage{Ledger: n[0], Entry: n[1], Batch: int32(n[2]), Sequence: n[3], PublishTime: n[4], EventTime: n[5],
			Producer: f[6], Key: f[7], Properties: f[8], Value: f[9]})
	}
	return out
}
