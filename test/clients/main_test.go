package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// need skips unless the clients are asked for.
func need(t *testing.T) {
	t.Helper()
	if os.Getenv("LEDGERLAKE_CLIENTS") == "" {
		t.Skip("installs clients of others and starts JVMs: run 'make clients'")
	}
}

func script(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(harness.Top(t), "test", "services", name)
}

// run runs a command of clients.sh and gives what it printed.
func run(t *testing.T, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.RunTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, script(t, "clients.sh"), args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &complaints, 5*time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s\n%s", args, err, out.Bytes(), complaints.Bytes())
	}
	return out.Bytes()
}

// send produces values with the keys k0 to k4 in turn, over all partitions.
func send(t *testing.T, addr, topic string, values []string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression())) // the clients come without codecs
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	var recs []*kgo.Record
	for i, v := range values {
		recs = append(recs, &kgo.Record{Key: fmt.Appendf(nil, "k%d", i%5), Value: []byte(v)})
	}
	if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// onlyInTheLake waits until the table holds all n records of a topic and then drops them from the log.
func onlyInTheLake(t *testing.T, s *harness.Server, topic string, n int64) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		var r struct{ Rows int64 }
		out, err := harness.TryRun(t, nil, "inspect", s.Table(topic), "--json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal(out, &r); err != nil || r.Rows != n {
			return fmt.Errorf("%d rows in the table, want %d (%v)", r.Rows, n, err)
		}
		return nil
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	adm := kadm.NewClient(cl)
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := adm.DeleteRecords(ctx, ends.Offsets())
	if err != nil {
		t.Fatal(err)
	}
	var dropped int64
	cut.Each(func(r kadm.DeleteRecordsResponse) { dropped += r.LowWatermark })
	if dropped != n {
		t.Fatalf("the log starts at %d of %d records: some would be read from it", dropped, n)
	}
}

func tool(t *testing.T, class string, args ...string) string {
	t.Helper()
	out, _ := harness.KafkaTool(t, strings.NewReader(""), class, args...)
	return out
}
