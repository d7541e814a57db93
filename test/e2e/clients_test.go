package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// message is what clients.py prints of a record that it sent or read.
type message struct {
	I         int
	Partition int32
	Offset    int64
	Key       []byte // base64 in JSON
	Value     []byte
	Headers   [][2]*string
	Timestamp int64
	Sent      int64
	Member    string
}

func (m message) at() harness.Position {
	return harness.Position{Partition: m.Partition, Offset: m.Offset}
}

func client(t *testing.T, args ...string) []message {
	t.Helper()
	var out []message
	for line := range strings.Lines(string(harness.RunPython(t, nil, "clients.py", args...))) {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("clients.py printed %q: %v", line, err)
		}
		out = append(out, m)
	}
	return out
}

// librdkafka produces with every codec, with and without idempotence, and reads back the same bytes at
// the offsets that it was told: I2, and I4 for a client that reads the log alone.
func TestLibrdkafkaRoundTrip(t *testing.T) {
	harness.Python(t)
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering")
	for _, c := range []struct{ codec, mode string }{
		{"none", "plain"}, {"gzip", "plain"}, {"snappy", "idempotent"}, {"lz4", "idempotent"}, {"zstd", "plain"},
	} {
		t.Run(c.codec, func(t *testing.T) {
			const n = 2000
			topic := "codec-" + c.codec
			acks := client(t, "produce", s.Addr, topic, fmt.Sprint(n), c.codec, c.mode)
			if len(acks) != n {
				t.Fatalf("%d acknowledgements, want %d", len(acks), n)
			}
			got := map[harness.Position]message{}
			for _, m := range client(t, "consume", s.Addr, topic, "g-"+c.codec, fmt.Sprint(n)) {
				if _, twice := got[m.at()]; twice {
					t.Fatalf("the record at %s comes twice", m.at())
				}
				got[m.at()] = m
			}
			for _, a := range acks {
				m, ok := got[a.at()]
				want := fmt.Sprintf(`{"n":%d,"name":"librdkafka %d"}`, a.I, a.I)
				if !ok || string(m.Value) != want || string(m.Key) != fmt.Sprintf("k%d", a.I%50) || m.Timestamp != a.Sent {
					t.Fatalf("message %d was acknowledged at %s, where %+v is", a.I, a.at(), m)
				}
				if h := m.Headers; len(h) != 3 || *h[0][0] != "i" || h[1][1] == nil || *h[1][1] != "" || h[2][1] != nil {
					t.Fatalf("message %d came with headers %v", a.I, h)
				}
			}
		})
	}
}

// A group goes on where it committed, and two members share the partitions: each record goes to one.
func TestLibrdkafkaGroups(t *testing.T) {
	harness.Python(t)
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "shared:4")
	client(t, "produce", s.Addr, "shared", "1000", "none")
	first := client(t, "consume", s.Addr, "shared", "g", "600")
	rest := client(t, "consume", s.Addr, "shared", "g", "400")
	seen := map[harness.Position]bool{}
	for _, m := range append(first, rest...) {
		if seen[m.at()] {
			t.Fatalf("the record at %s was read twice, though the first read was committed", m.at())
		}
		seen[m.at()] = true
	}

	by := map[string]map[int32]bool{}
	clear(seen)
	for _, m := range client(t, "share", s.Addr, "shared", "sharers", "1000") {
		if seen[m.at()] {
			t.Fatalf("two members read the record at %s", m.at())
		}
		seen[m.at()] = true
		if by[m.Member] == nil {
			by[m.Member] = map[int32]bool{}
		}
		by[m.Member][m.Partition] = true
	}
	if len(by) != 2 {
		t.Errorf("only %v read: the partitions were not shared", by)
	}
}

// The high and low ends and the lookup by time agree with what was sent.
func TestLibrdkafkaOffsets(t *testing.T) {
	harness.Python(t)
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "times:2")
	acks := client(t, "produce", s.Addr, "times", "500", "lz4")
	at := acks[len(acks)/2].Sent
	for line := range strings.Lines(string(harness.RunPython(t, nil, "clients.py", "offsets", s.Addr, "times", fmt.Sprint(at)))) {
		var o struct {
			Partition     int32
			Low, High, At int64
			Error         string
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil || o.Error != "" {
			t.Fatalf("offsets: %q: %v", line, err)
		}
		var high, first int64 = 0, -1
		for _, a := range acks {
			if a.Partition != o.Partition {
				continue
			}
			high = max(high, a.Offset+1)
			if a.Sent >= at && (first < 0 || a.Offset < first) {
				first = a.Offset
			}
		}
		if o.Low != 0 || o.High != high || first >= 0 && o.At != first {
			t.Errorf("partition %d: low %d, high %d, at the time %d; want 0, %d, %d", o.Partition, o.Low, o.High, o.At, high, first)
		}
	}
}

// The log is dropped below what is in the table, and a foreign consumer still reads from offset 0: the
// server answers from the table with the same offsets, keys, headers, times and values (I4, I6).
func TestForeignConsumerReadsHistoryFromTheTable(t *testing.T) {
	harness.Python(t)
	s := harness.Serve(t, t.TempDir(), "", "--topic", "old:1", "--flush-age", "200ms", "--format", "json",
		"--schema", harness.WriteEventSchema(t), "--segment-bytes", "65536", "--retention-bytes", "65536", "--retention-interval", "100ms")
	const n = 6000
	acks := client(t, "produce", s.Addr, "old", fmt.Sprint(n), "none")
	awaitRows(t, s.Table("old"), n)
	harness.Eventually(t, time.Minute, func() error {
		if first := filepath.Base(segmentFiles(t, s.Dir, "old")[0]); first == "00000000000000000000.log" {
			return errors.New("the first segment is still there: the log holds all, and nothing would be read from the table")
		}
		return nil
	})
	got := client(t, "consume", s.Addr, "old", "late", fmt.Sprint(n))
	byAt := map[harness.Position]message{}
	for i, m := range got {
		if i > 0 && m.Offset != got[i-1].Offset+1 {
			t.Fatalf("offset %d follows %d", m.Offset, got[i-1].Offset)
		}
		byAt[m.at()] = m
	}
	for _, a := range acks {
		m := byAt[a.at()]
		if string(m.Value) != fmt.Sprintf(`{"n":%d,"name":"librdkafka %d"}`, a.I, a.I) || m.Timestamp != a.Sent || len(m.Headers) != 3 {
			t.Fatalf("message %d was sent to %s, where %+v is", a.I, a.at(), m)
		}
	}
}

// kcat is a client that operators have at hand.
func TestKcat(t *testing.T) {
	kcat, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("kcat is not installed; it is optional, librdkafka itself is tested above")
	}
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "k:1")
	send := exec.CommandContext(t.Context(), kcat, "-P", "-b", s.Addr, "-t", "k", "-K:")
	send.Stdin = strings.NewReader("a:1\nb:2\nc:3\n")
	if out, err := send.CombinedOutput(); err != nil {
		t.Fatalf("kcat -P: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), kcat, "-C", "-b", s.Addr, "-t", "k", "-e", "-q", "-f", "%o %k %s\n").Output()
	if err != nil || string(out) != "0 a 1\n1 b 2\n2 c 3\n" {
		t.Fatalf("kcat -C: %v, printed %q", err, out)
	}
}
