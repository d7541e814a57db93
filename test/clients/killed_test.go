package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// told is a program that prints acknowledgements and records, an object a line, and what it has printed so far.
type told struct {
	*harness.Process
	lines *bufio.Reader
	part  string // of a line that is not whole yet
	acked map[harness.Position]string
	read  map[harness.Position]string
}

func tell(t *testing.T, program string, args ...string) *told {
	t.Helper()
	p := harness.StartProgram(t, program, args...)
	f, err := os.Open(p.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &told{Process: p, lines: bufio.NewReader(f), acked: map[harness.Position]string{}, read: map[harness.Position]string{}}
}

// listen takes in what was printed since the last time.
func (p *told) listen(t *testing.T) *told {
	t.Helper()
	for {
		line, err := p.lines.ReadString('\n')
		p.part += line
		if err == io.EOF {
			return p
		}
		if err != nil {
			t.Fatal(err)
		}
		line, p.part = p.part, ""
		if !strings.HasPrefix(line, "{") {
			continue // a log line of the client
		}
		var e struct {
			Name, Value string
			Partition   int32
			Offset      int64
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil && strings.Contains(line, "producer_send_success") {
			t.Fatalf("%q: %v", line, err)
		}
		at := harness.Position{Partition: e.Partition, Offset: e.Offset}
		switch e.Name {
		case "producer_send_error":
			t.Fatalf("not delivered: %s", line)
		case "producer_send_success":
			if was, twice := p.acked[at]; twice {
				t.Fatalf("%s is acknowledged twice: %q and %q", at, was, e.Value)
			}
			p.acked[at] = e.Value
		case "record_data":
			if was, again := p.read[at]; again && was != e.Value { // again is fine: a group goes on from what it committed
				t.Fatalf("%s is %q and then %q", at, was, e.Value)
			}
			p.read[at] = e.Value
		}
	}
}

// Producers and consumers that Kafka's and librdkafka's makers wrote go on while the server is killed again and again,
// tiers, and drops from its log what is tiered. What they were told stands: each acknowledged record is where it was
// acknowledged, once, for readers that were there all the time and for later ones (I1, I2, I4, I6).
func TestKilledUnderForeignClients(t *testing.T) {
	need(t)
	seed := seedtest.New(t)
	kills, r := harness.Kills(t, 8), rand.New(rand.NewPCG(seed, 0))
	const rate, between = 1000, 2000 // of each producer
	n := between * (kills + 1)
	dir := t.TempDir()
	flags := []string{"--topic", "killed:3", "--format", "raw", "--flush-age", "150ms", "--segment-bytes", "65536",
		"--retention-bytes", "65536", "--retention-interval", "100ms", "--log-level", "warn"}
	s := harness.Serve(t, dir, "", flags...)

	kafka, python := script(t, "kafka.sh"), harness.Python(t)
	file, err := filepath.Abs("killed.py")
	if err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(t.TempDir(), "producer.properties") // the program's own are without retries
	if err := os.WriteFile(settings, []byte("enable.idempotence=true\nretries=2147483647\ndelivery.timeout.ms=600000\nlinger.ms=5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	java := func(class string, args ...string) *told {
		return tell(t, kafka, append([]string{"tool", "org.apache.kafka.tools." + class, "--bootstrap-server", s.Addr, "--topic", "killed"}, args...)...)
	}
	javaReads := func(group string, more ...string) *told {
		return java("VerifiableConsumer", append([]string{"--group-id", group, "--reset-policy", "earliest", "--verbose"}, more...)...)
	}
	rdkafka := func(args ...string) *told { return tell(t, python, append([]string{file}, args...)...) }

	producers := []*told{
		java("VerifiableProducer", "--max-messages", fmt.Sprint(n), "--throughput", fmt.Sprint(rate), "--acks", "-1", "--value-prefix", "1", "--command-config", settings),
		rdkafka("produce", s.Addr, "killed", fmt.Sprint(n), fmt.Sprint(rate)),
	}
	readers := map[string]*told{
		"Java, classic group": javaReads("classic", "--group-protocol", "classic", "--session-timeout", "6000"),
		"Java, newer group":   javaReads("newer", "--group-protocol", "consumer"),
		"librdkafka":          rdkafka("consume", s.Addr, "killed", "rdkafka"),
	}
	for kill := range kills {
		reached := between*kill + r.IntN(2*between) // of both, so that some kills follow close on another
		harness.Eventually(t, 5*time.Minute, func() error {
			got := 0
			for _, p := range producers {
				got += len(p.listen(t).acked)
			}
			if got < 2*reached && got < 2*n {
				return fmt.Errorf("kill %d: %d acknowledged, want %d", kill, got, 2*reached)
			}
			return nil
		})
		s.Kill()
		s = harness.Serve(t, dir, s.Addr, flags...)
	}
	acked := map[harness.Position]string{}
	for _, p := range producers {
		p.Wait(t, 5*time.Minute)
		for at, v := range p.listen(t).acked {
			if was, twice := acked[at]; twice {
				t.Fatalf("%s is acknowledged twice: %q and %q", at, was, v)
			}
			acked[at] = v
		}
	}
	if len(acked) != 2*n {
		t.Fatalf("%d records are acknowledged, want %d", len(acked), 2*n)
	}
	for who, p := range readers {
		harness.Eventually(t, 5*time.Minute, func() error {
			if got := len(p.listen(t).read); got < len(acked) {
				return fmt.Errorf("%s: %d of %d records came", who, got, len(acked))
			}
			return nil
		})
		p.Kill()
	}
	readers["Java, from 0"] = javaReads("late", "--max-messages", fmt.Sprint(2*n))
	readers["librdkafka, from 0"] = rdkafka("consume", s.Addr, "killed", "laterdkafka", fmt.Sprint(2*n))
	for _, who := range []string{"Java, from 0", "librdkafka, from 0"} {
		readers[who].Wait(t, 5*time.Minute)
	}
	for who, p := range readers {
		wantTold(t, who, p.listen(t).read, acked)
	}
	local := tool(t, "GetOffsetShell", "--bootstrap-server", s.Addr, "--topic", "killed", "--time", "earliest-local")
	if starts := regexp.MustCompile(`(?m)^killed:\d:[1-9]\d*$`).FindAllString(local, -1); len(starts) != 3 {
		t.Errorf("nothing of a partition was dropped, so no reader crossed its seam: the log starts at\n%s", local)
	}
	s.Stop(t)
	harness.Run(t, nil, "check", s.Table("killed"))
	harness.Run(t, nil, "check", dir)
}

// wantTold fails unless a reader got the acknowledged records, where they were acknowledged, and no other.
func wantTold(t *testing.T, who string, read, acked map[harness.Position]string) {
	t.Helper()
	for at, v := range acked {
		if got, there := read[at]; !there || got != v {
			t.Fatalf("%s: %s was acknowledged with %q and is %q (there: %t)", who, at, v, got, there)
		}
	}
	if len(read) != len(acked) {
		t.Errorf("%s: %d records, %d were acknowledged: an idempotent producer leaves no doubles", who, len(read), len(acked))
	}
}
