package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/ledgerlake/ledgerlake/decode/avro"
	"github.com/ledgerlake/ledgerlake/decode/decodetest"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// formats runs a script that writes values and says what they hold.
func formats(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(harness.FormatsPython(t), append([]string{script}, args...)...)
	cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := harness.RunCommand(t, cmd); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, complaints.String())
	}
	return out.Bytes()
}

// What fastavro writes of random schemas and values, raw, as single objects and as containers.
func TestAvroThatFastavroWrote(t *testing.T) {
	decodetest.CheckAvro(t, formats(t, "encodeavro.py", fmt.Sprint(seedtest.New(t)), "150", "4"))
}

// What Google's library writes of random messages.
func TestProtobufThatGoogleWrote(t *testing.T) {
	decodetest.CheckProtobuf(t, formats(t, "encodeproto.py", fmt.Sprint(seedtest.New(t)), "100", "4"))
}

// What Confluent's serializers write and register. The registry is franz-go's own in memory; no real one installs here.
func TestValuesThatConfluentsSerializersWrote(t *testing.T) {
	srv := srfake.New()
	defer srv.Close()
	vectors := formats(t, "serializers.py", srv.URL())
	reg, err := registry.Open(registry.Config{URLs: []string{srv.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	rows := map[string][]decodetest.Row{}
	type vector struct {
		Format, Hex string
		Want        map[string]any
	}
	decodetest.Lines(t, vectors, func(v vector) {
		rows[v.Format] = append(rows[v.Format], decodetest.Row{Value: decodetest.Hex(t, v.Hex), Want: v.Want})
	})
	if len(rows["avro"]) != 20 || len(rows["protobuf"]) != 20 {
		t.Fatalf("%d and %d values", len(rows["avro"]), len(rows["protobuf"]))
	}
	decodetest.Check(t, avro.Confluent(reg, ""), rows["avro"])
	decodetest.Check(t, protobuf.Confluent(reg, "", ""), rows["protobuf"])
}

// Confluent's serializers through librdkafka into our log, from there by ingest into tables, while the registry is out
// of order at first: the rows are all there, and none is a dead letter (I3, I7). What comes later is read from the log
// as the same rows, by what the table records (I4), and a second ingest goes on by it.
func TestIngestThroughAnOutageOfTheRegistry(t *testing.T) {
	harness.FormatsPython(t)
	srv := srfake.New()
	defer srv.Close()
	s := harness.Serve(t, t.TempDir(), "", "--topic", "avro:1", "--topic", "protobuf:1", "--format", "raw")
	type vector struct {
		Format string
		Want   map[string]any
	}
	want := map[string][]any{}
	decodetest.Lines(t, formats(t, "serializers.py", srv.URL(), s.Addr), func(v vector) {
		want[v.Format] = append(want[v.Format], v.Want["id"])
	})
	tables := t.TempDir()
	for _, format := range []string{"avro", "protobuf"} {
		var refused atomic.Int64
		srv.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			if n := refused.Add(1); n == 1 || n > 5 { // the first answer makes the table
				return false
			}
			http.Error(w, "the database is down", http.StatusInternalServerError)
			return true
		})
		table := filepath.Join(tables, format)
		args := []string{"ingest", "--brokers", s.Addr, "--topic", format, "--table", table, "--until-latest", "--format", format + "-confluent",
			"--registry", srv.URL(), "--subject", format + "-value"}
		if format == "protobuf" {
			args = append(args, "--message", "shop.Outer.Order")
		}
		harness.Run(t, nil, args...)
		if refused.Load() < 6 {
			t.Fatalf("%s: %d requests", format, refused.Load())
		}
		sameIDs(t, readTable(t, table), want[format])
	}
	decodetest.Lines(t, formats(t, "serializers.py", srv.URL(), s.Addr), func(v vector) {
		want[v.Format] = append(want[v.Format], v.Want["id"])
	})
	for _, format := range []string{"avro", "protobuf"} {
		table := filepath.Join(tables, format)
		sameIDs(t, readTable(t, "kafka://"+s.Addr+"/"+format, "--table", table), want[format])
		harness.Run(t, nil, "ingest", "--brokers", s.Addr, "--topic", format, "--table", table, "--until-latest")
		sameIDs(t, readTable(t, table), want[format])
	}
	s.Stop(t)
}

func sameIDs(t *testing.T, rows []map[string]any, want []any) {
	t.Helper()
	var got []any
	for _, row := range rows {
		got = append(got, row["id"])
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("ids are\n%v\nwant\n%v", got, want)
	}
}
