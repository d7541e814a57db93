package pulsar_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// keyFolder has a private key NAME.pem and a public one NAME.pub of each name.
func keyFolder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		key, private := pulsartest.PrivateKey(t)
		der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		for file, raw := range map[string][]byte{".pem": private, ".pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})} {
			if err := os.WriteFile(filepath.Join(dir, name+file), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// TestMessagesThatPulsarsClientEncrypted: single, batched, compressed and in chunks, encrypted by Pulsar's own client, with plain ones
// between. With the key the tables have what Pulsar's reader has with it; without, each row stands at the offset that it has
// with the key, and has what Pulsar's reader gives without. Who has another key is told which one is missing (I2, I4, I7).
func TestMessagesThatPulsarsClientEncrypted(t *testing.T) {
	p := harness.Pulsar(t, 50)
	keepAll(t, p)
	dir, others := keyFolder(t, "app", "spare"), keyFolder(t, "app")
	kinds := []string{"keys=7 nulls=10", "batch=20 codec=LZ4 keys=5 nulls=7", "chunk=1000 size=4500 codec=LZ4 keys=3", "batch=9"}
	const chunked = 2
	var topics []string
	for i, options := range kinds {
		topic := fmt.Sprint("public/default/sealed-", i)
		topics = append(topics, topic)
		args := append([]string{topic, "0", "120", "encrypt=" + dir + ":app,spare"}, strings.Fields(options)...)
		p.Tool(t, "produce", args...)
	}
	mixed := topics[len(topics)-1]
	p.Tool(t, "produce", mixed, "120", "60", "batch=7")
	p.Tool(t, "produce", mixed, "180", "60", "batch=8", "encrypt="+dir+":app")
	want, sealed := p.ReadSealed(t, dir, topics...), p.ReadSealed(t, "none", slices.Delete(slices.Clone(topics), chunked, chunked+1)...)

	source, root, kept := p.URL()+"/public/default/", t.TempDir(), t.TempDir()
	harness.Run(t, nil, "ingest", source+"~sealed-.*", root, "--pulsar-private-keys", dir, "--format", "raw", "--until-latest", "--log-level", "warn")
	for i, topic := range topics {
		compareRows(t, filepath.Join(root, filepath.Base(topic)), want[i:i+1])
	}
	harness.Run(t, nil, "ingest", source+"~sealed-.*", kept, "--format", "raw", "--until-latest", "--log-level", "warn")
	sealed = slices.Insert(sealed, chunked, nil) // Pulsar's reader gives no chunks that it cannot decrypt
	for i, topic := range topics {
		keptRows(t, filepath.Join(kept, filepath.Base(topic)), want[i], sealed[i])
	}
	_, err := harness.TryRun(t, nil, "ingest", source+filepath.Base(mixed), filepath.Join(t.TempDir(), "others"), "--pulsar-private-keys", others, "--format", "raw", "--until-latest")
	if err == nil || !strings.Contains(err.Error(), "cannot be decrypted") || !strings.Contains(err.Error(), `key "app"`) || !strings.Contains(err.Error(), mixed) {
		t.Errorf("with another key: %v", err)
	}
	rows := 0
	for range harness.Rows(t, "read", source+filepath.Base(mixed), "--table", filepath.Join(kept, filepath.Base(mixed)), "--from", "id:"+idOf(want[len(want)-1][200]), "--pulsar-private-keys", dir, "--columns", "_offset") {
		rows++
	}
	if rows == 0 {
		t.Error("nothing was read from a message of the table on")
	}
}

func idOf(m harness.PulsarMessage) string { return fmt.Sprintf("%d:%d", m.Ledger, m.Entry) }

// keptRows judges a table of messages that nobody decrypted. sealed is what Pulsar's reader gives of them; nil: it gives none.
func keptRows(t *testing.T, lake string, want, sealed []harness.PulsarMessage) {
	t.Helper()
	values := map[string]string{} // an encrypted entry is one message there
	for _, m := range sealed {
		values[idOf(m)] = m.Value
	}
	first, rows, plain := int64(-1), 0, 0
	for row := range harness.Rows(t, "read", lake, "--columns", "_offset,_ledger,_entry,_batch,_value") {
		offset, value := number(t, row["_offset"]), fmt.Sprint(row["_value"])
		if row["_value"] == nil { // the metadata tells it, in the clear
			value = "null"
		}
		if first < 0 {
			first = offset
		}
		m := want[offset-first]
		if at := [2]int64{number(t, row["_ledger"]), number(t, row["_entry"])}; at != [2]int64{m.Ledger, m.Entry} || number(t, row["_batch"]) != int64(m.Batch) {
			t.Fatalf("%s: offset %d is %v, with the key it is %+v", lake, offset, row, m.ID())
		}
		rows++
		if value == m.Value {
			plain++
		} else if sealed != nil && value != values[idOf(m)] {
			t.Fatalf("%s: offset %d is %.100q, Pulsar's reader gives %.100q", lake, offset, value, values[idOf(m)])
		}
	}
	if sealed == nil {
		sealed = want
	}
	if rows != len(sealed) || plain > 60 || rows == plain {
		t.Errorf("%s: %d rows, %d of them plain; Pulsar's reader gives %d", lake, rows, plain, len(sealed))
	}
	t.Logf("%s: %d rows, %d plain, of %d messages", lake, rows, plain, len(want))
}
