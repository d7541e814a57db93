package pulsar_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// offloader makes a folder of offloaders for brokers. kind is "offloader", ours, which writes small blocks, or "jcloud",
// Pulsar's own.
func offloader(t *testing.T, kind string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command(filepath.Join(harness.Top(t), "test", "services", "pulsar.sh"), kind, dir).CombinedOutput(); err != nil {
		t.Fatalf("make the offloader: %v\n%s", err, out)
	}
	return dir
}

// offloadAll makes the broker offload all ledgers of a topic but the last one, and drop them from BookKeeper.
func offloadAll(t *testing.T, p *harness.RealPulsar, topic string) {
	t.Helper()
	p.Admin(t, "PUT", "persistent/"+topic+"/unload", nil) // what is open is sealed
	all := ledgers(t, p, topic)
	p.Admin(t, "PUT", "persistent/"+topic+"/offload", map[string]any{"ledgerId": all[len(all)-1], "entryId": 0, "partitionIndex": -1})
	harness.Eventually(t, harness.RunTimeout, func() error {
		var status struct{ Status, LastError string }
		if err := json.Unmarshal(p.Admin(t, "GET", "persistent/"+topic+"/offload", nil), &status); err != nil {
			return err
		}
		if status.Status == "ERROR" {
			t.Fatalf("offload %s: %s", topic, status.LastError)
		}
		var info struct {
			Ledgers []struct {
				ID        int64 `json:"ledgerId"`
				Entries   int64 `json:"entries"`
				Offloaded bool  `json:"offloaded"`
			} `json:"ledgers"`
		}
		if err := json.Unmarshal(p.Admin(t, "GET", "persistent/"+topic+"/internalStats", nil), &info); err != nil {
			return err
		}
		for _, l := range info.Ledgers {
			if l.Entries > 0 && !l.Offloaded {
				return fmt.Errorf("ledger %d is not offloaded: %+v", l.ID, status)
			}
		}
		return nil
	})
}

// keep copies the objects, the lists and what Pulsar's reader gave to the folder LEDGERLAKE_KEEP, if there is one: so
// broker/pulsar/offload/testdata was made.
func keep(t *testing.T, bucket string, want map[string][][]harness.PulsarMessage, lists map[string]string) {
	t.Helper()
	to := os.Getenv("LEDGERLAKE_KEEP")
	if to == "" {
		return
	}
	put := func(name string, raw []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	objects, err := filepath.Glob(filepath.Join(bucket, "*-ledger-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		raw, err := os.ReadFile(o)
		put(filepath.Base(o), raw, err)
	}
	for name, partitions := range want {
		raw, err := os.ReadFile(lists[name])
		put(name+".ledgers.json", raw, err)
		var lines strings.Builder
		for n, all := range partitions {
			for _, m := range all {
				fmt.Fprintf(&lines, "%d %d:%d:%d %x\n", n, m.Ledger, m.Entry, m.Batch, sha256.Sum256([]byte(m.Key+" "+m.Properties+" "+m.Value)))
			}
		}
		put(name+".messages", []byte(lines.String()), nil)
	}
}

// kind is a topic with messages of one kind.
type kind struct {
	name, options string
	partitions    int
	count         int
}

func offloadedKinds() []kind {
	return []kind{
		{"orders", "batch=10 keys=50 nulls=9", 2, 200},
		{"plain", "keys=7 nulls=10 codec=LZ4", 1, 200},
		{"chunked", "chunk=1000 size=4500 codec=LZ4 keys=3", 1, 200},
		{"txn", "txn=10 batch=4", 1, 200},
	}
}

// TestOffloadedLedgersBecomeATable: a real broker offloads topics of every kind of message to a bucket, in small blocks;
// then it is gone for good, and the objects alone give what Pulsar's own reader gave before: through an S3 server, with the
// list of ledgers, and from the folder without one. A second import adds nothing (I2, I3, I4).
func TestOffloadedLedgersBecomeATable(t *testing.T) {
	s3 := harness.S3(t)
	bucket := s3.Dir
	p := harness.Pulsar(t, 40, "managedLedgerOffloadDriver=aws-s3", "offloadersDirectory="+offloader(t, "offloader"), "managedLedgerOffloadBucket="+bucket,
		"s3ManagedLedgerOffloadBucket="+bucket, "managedLedgerOffloadMaxBlockSizeInBytes=4096", "s3ManagedLedgerOffloadMaxBlockSizeInBytes=4096",
		"managedLedgerOffloadDeletionLagMs=0", "managedLedgerOffloadAutoTriggerSizeThresholdBytes=-1")
	offloadAndImport(t, p, s3, offloadedKinds())
}

// TestPulsarsOwnOffloader: the same with Pulsar's own offloader for object stores, which writes to an S3 server; one topic has
// ledgers of several blocks, which are 5 MiB at least (I2, I3, I4).
func TestPulsarsOwnOffloader(t *testing.T) {
	s3 := harness.S3(t)
	p := harness.Pulsar(t, 40, "managedLedgerOffloadDriver=aws-s3", "offloadersDirectory="+offloader(t, "jcloud"), "managedLedgerOffloadBucket="+s3.Bucket,
		"s3ManagedLedgerOffloadBucket="+s3.Bucket, "s3ManagedLedgerOffloadServiceEndpoint="+s3.Endpoint,
		"managedLedgerOffloadServiceEndpoint="+s3.Endpoint,
		"managedLedgerOffloadMaxBlockSizeInBytes=5242880", "s3ManagedLedgerOffloadMaxBlockSizeInBytes=5242880",
		"managedLedgerOffloadDeletionLagMs=0", "managedLedgerOffloadAutoTriggerSizeThresholdBytes=-1")
	offloadAndImport(t, p, s3, append(offloadedKinds(), kind{"blocks", "size=300000 keys=9", 1, 90}))
}

func offloadAndImport(t *testing.T, p *harness.RealPulsar, s3 *harness.S3Server, kinds []kind) {
	t.Helper()
	keepAll(t, p)
	want, lists := map[string][][]harness.PulsarMessage{}, map[string]string{}
	for _, k := range kinds {
		topic, names := "public/default/"+k.name, []string{"public/default/" + k.name}
		list := "persistent/" + topic + "/internal-info"
		if k.partitions > 1 {
			p.Admin(t, "PUT", "persistent/"+topic+"/partitions", k.partitions)
			names, list = nil, "persistent/"+topic+"/partitioned-internalStats"
			for n := range k.partitions {
				names = append(names, fmt.Sprintf("%s-partition-%d", topic, n))
			}
		}
		p.Tool(t, "produce", append([]string{topic, "0", fmt.Sprint(k.count)}, strings.Fields(k.options)...)...)
		want[k.name] = p.ReadPartitions(t, names...)
		for _, name := range names {
			offloadAll(t, p, name)
		}
		lists[k.name] = filepath.Join(t.TempDir(), "ledgers.json")
		if err := os.WriteFile(lists[k.name], p.Admin(t, "GET", list, nil), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Kill(t)
	keep(t, s3.Dir, want, lists)
	for _, k := range kinds {
		topic := "public/default/" + k.name
		for i, args := range [][]string{{"s3://" + s3.Bucket, "--ledgers", lists[k.name]}, {s3.Dir}} {
			lake := filepath.Join(t.TempDir(), k.name)
			args = append([]string{"import", "pulsar-offload", args[0], lake, "--topic", topic, "--format", "raw", "--log-level", "warn"}, args[1:]...)
			first := harness.RunBoth(t, nil, args...)
			if first.Err != nil {
				t.Fatalf("%s: %v %s", k.name, first.Err, first.Stderr)
			}
			got := harness.RunBoth(t, nil, args...)
			if got.Err != nil || !strings.HasPrefix(string(got.Stderr), "0 records") {
				t.Errorf("%s: importing once more says %v %s", k.name, got.Err, got.Stderr)
			}
			compareRows(t, lake, want[k.name])
			t.Logf("%s way %d: %s", k.name, i, first.Stderr)
		}
	}
}
