package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A topic of each format on a real Kafka, with all that goes wrong in its life, one after the other while records come: a
// process is killed, partitions move, the producers' schema changes, the registry is out of order, retention takes what
// nobody has read, the topic is made again. Each record is a row once, with what its schema has (I3), none is a dead
// letter for a fault (I7), and what nobody can decide alone ends with the flag that decides it (I8).
//
// One case runs by default; LEDGERLAKE_MATRIX=1 runs all: make ingest-matrix.
func TestIngestMatrix(t *testing.T) {
	k := harness.Kafka(t)
	formats, partitions := []string{"avro-confluent"}, []int32{3}
	if os.Getenv("LEDGERLAKE_MATRIX") != "" {
		formats, partitions = []string{"json", "json-registry", "avro-confluent", "protobuf-confluent", "csv"}, []int32{1, 6}
	}
	for _, format := range formats {
		for _, n := range partitions {
			t.Run(fmt.Sprintf("%s in %d", format, n), func(t *testing.T) {
				s := newStage(t, k.Addr, format, n)
				s.disturb(t)
				s.lose(t)
				s.makeAgain(t)
			})
		}
	}
}

// stage is one topic on its way into one table.
type stage struct {
	addr, topic, table string
	args               []string
	cl                 *kgo.Client
	admin              *kadm.Client
	registry           *srfake.Registry
	down               atomic.Bool  // the registry
	refused            atomic.Int64 // its answers while it was down
	encode             func(version, n int) []byte
	widens             bool // versions from the second on have one field more
	version            atomic.Int64

	mu   sync.Mutex
	next int
	at   map[int]harness.Position // acknowledged records
	wide map[int]bool             // those with the field extra
	lost map[int]bool             // retention took them
	err  error
}

const matrixSchema = `{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}},{"name":"text","type":"string","nullable":true,"metadata":{}},
{"name":"extra","type":"long","nullable":true,"metadata":{}},{"name":"tail","type":"string","nullable":true,"metadata":{}}]}`

func newStage(t *testing.T, addr, format string, partitions int32) *stage {
	t.Helper()
	s := &stage{addr: addr, topic: fmt.Sprintf("%s-%d", format, partitions), at: map[int]harness.Position{}, wide: map[int]bool{}, lost: map[int]bool{},
		registry: srfake.New(), widens: format != "csv"}
	t.Cleanup(s.registry.Close)
	s.registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if !s.down.Load() {
			return false
		}
		s.refused.Add(1)
		http.Error(w, "the database is down", http.StatusInternalServerError)
		return true
	})
	s.version.Store(1)
	s.encode = s.encoder(t, format)
	schema := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(schema, []byte(matrixSchema), 0o600); err != nil {
		t.Fatal(err)
	}
	s.table = filepath.Join(t.TempDir(), s.topic)
	s.args = []string{"ingest", "--brokers", addr, "--topic", s.topic, "--table", s.table, "--format", format, "--schema", schema,
		"--transform", "tail: substr(text, `4`, `3`)", "--log-level", "warn"}
	if format == "csv" {
		s.args = append(s.args, "--csv-fields", "n,text")
	} else if format != "json" {
		s.args = append(s.args, "--registry", s.registry.URL())
	}
	harness.CreateTopic(t, addr, s.topic, partitions)
	var err error
	s.cl, err = kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(s.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.UnknownTopicRetries(-1)) // of one that is made again
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cl.Close)
	s.admin = kadm.NewClient(s.cl)
	return s
}

// encoder makes values of record n. The third schema says no more than the second, under another id.
func (s *stage) encoder(t *testing.T, format string) func(version, n int) []byte {
	t.Helper()
	text := func(n int) string { return fmt.Sprintf("row %d", n) }
	json := func(version, n int) []byte {
		extra := ""
		if version > 1 {
			extra = fmt.Sprintf(`,"extra":%d`, 2*n)
		}
		return fmt.Appendf(nil, `{"n":%d,"text":"%s"%s}`, n, text(n), extra)
	}
	register := func(version int, kind sr.SchemaType, schema string) []byte {
		id, _, err := s.registry.RegisterSchema(s.topic+"-value", sr.Schema{Type: kind, Schema: schema})
		if err != nil {
			t.Fatalf("schema %d: %v", version, err)
		}
		return binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
	}
	var heads [4][]byte
	switch format {
	case "csv":
		return func(_, n int) []byte { return fmt.Appendf(nil, "%d,%s", n, text(n)) }
	case "json":
		return json
	case "json-registry":
		for v := 1; v < 4; v++ {
			heads[v] = register(v, sr.TypeJSON, fmt.Sprintf(`{"type":"object","title":"version %d"}`, v))
		}
		return func(version, n int) []byte { return append(append([]byte{}, heads[version]...), json(version, n)...) }
	case "protobuf-confluent":
		for v := 1; v < 4; v++ {
			heads[v] = append(register(v, sr.TypeProtobuf, `syntax = "proto3"; message R { int64 n = 1; string text = 2; `+[]string{"", "", "optional int64 extra = 3;",
				"optional int64 extra = 3; // again"}[v]+"\n}"), 0)
		}
		return func(version, n int) []byte {
			b := append([]byte{}, heads[version]...)
			b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), uint64(n))
			b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), text(n))
			if version > 1 {
				b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(2*n))
			}
			return b
		}
	}
	var schemas [4]*avro.Schema
	for v := 1; v < 4; v++ {
		source := fmt.Sprintf(`{"type":"record","name":"R","doc":"version %d","fields":[{"name":"n","type":"long"},{"name":"text","type":"string"}%s]}`, v,
			[]string{"", "", `,{"name":"extra","type":["null","int"]}`, `,{"name":"extra","type":["null","int"]}`}[v])
		heads[v] = register(v, sr.TypeAvro, source)
		var err error
		if schemas[v], err = avro.Parse(source); err != nil {
			t.Fatal(err)
		}
	}
	return func(version, n int) []byte {
		row := map[string]any{"n": int64(n), "text": text(n)}
		if version > 1 {
			row["extra"] = int32(2 * n)
		}
		b, err := schemas[version].AppendEncode(append([]byte{}, heads[version]...), row)
		if err != nil {
			panic(err) // of a row that is right above
		}
		return b
	}
}

// send sends some records to the partitions in turn, and waits until all are acknowledged.
func (s *stage) send(ctx context.Context, count int) error {
	partitions := int32(s.partitions())
	for range count {
		s.mu.Lock()
		n, version := s.next, int(s.version.Load())
		s.next++
		s.mu.Unlock()
		s.cl.Produce(ctx, &kgo.Record{Partition: int32(n) % partitions, Value: s.encode(version, n)}, func(r *kgo.Record, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				s.err = err
				return
			}
			s.at[n], s.wide[n] = harness.Position{Partition: r.Partition, Offset: r.Offset}, version > 1 && s.widens
		})
	}
	if err := s.cl.Flush(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *stage) partitions() (n int) {
	_, _ = fmt.Sscan(s.topic[strings.LastIndexByte(s.topic, '-')+1:], &n)
	return n
}

func (s *stage) acked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// disturb kills a process, moves partitions, changes the schema and stops the registry while records come.
func (s *stage) disturb(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := s.send(context.WithoutCancel(ctx), 10); err != nil {
				done <- err
				return
			}
			<-tick.C
		}
		done <- nil
	}()
	member := append(append([]string{}, s.args...), "--group", s.topic, "--session-timeout", "6s", "--flush-age", "200ms")
	one, two := harness.Start(t, member...), harness.Start(t, member...)
	goOn := func() {
		t.Helper()
		awaitRows(t, s.table, s.acked()+100)
	}
	goOn()
	one.Kill()
	one = harness.Start(t, member...)
	goOn()
	two.Stop(t) // its partitions go to the other
	goOn()
	two = harness.Start(t, member...)
	s.version.Store(2)
	goOn()
	if strings.Contains(s.topic, "confluent") { // JSON needs its schema for a check alone, and there is none
		s.down.Store(true)
		s.version.Store(3)
		harness.Eventually(t, time.Minute, func() error {
			if n := s.refused.Load(); n < 3 {
				return fmt.Errorf("the registry was asked %d times", n)
			}
			return nil
		})
		s.down.Store(false)
		goOn()
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	awaitRows(t, s.table, s.acked())
	one.Stop(t)
	two.Stop(t)
	s.check(t, "after all the faults")
}

// lose lets retention take records that nobody has read.
func (s *stage) lose(t *testing.T) {
	t.Helper()
	before := s.acked()
	if err := s.send(t.Context(), 60); err != nil {
		t.Fatal(err)
	}
	ends, err := s.admin.ListEndOffsets(t.Context(), s.topic)
	if err == nil {
		_, err = s.admin.DeleteRecords(t.Context(), ends.Offsets())
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := before; n < s.next; n++ {
		s.lost[n] = true
	}
	if err := s.send(t.Context(), 40); err != nil {
		t.Fatal(err)
	}
	s.refuses(t, "--on-gap")
	s.check(t, "while the gap is not decided", 40)
	harness.Run(t, nil, append(s.args, "--until-latest", "--on-gap", "earliest")...)
	s.check(t, "behind the gap")
}

// makeAgain deletes the topic and restores it, with the same records at the same offsets and some more.
func (s *stage) makeAgain(t *testing.T) {
	t.Helper()
	if _, err := s.admin.DeleteTopic(t.Context(), s.topic); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, func() error { // it goes in the background
		_, err := s.admin.CreateTopic(t.Context(), int32(s.partitions()), 1, nil, s.topic)
		return err
	})
	s.cl.PurgeTopicsFromClient(s.topic)
	was := map[harness.Position]int{}
	for n, at := range s.at {
		was[at] = n
	}
	for p := range int32(s.partitions()) {
		for o := int64(0); ; o++ {
			n, ok := was[harness.Position{Partition: p, Offset: o}]
			if !ok {
				break
			}
			version := 1
			if s.wide[n] {
				version = 2
			}
			s.cl.Produce(t.Context(), &kgo.Record{Partition: p, Value: s.encode(version, n)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("restore record %d: %v", n, err)
				}
			})
		}
	}
	if err := errors.Join(s.cl.Flush(t.Context()), s.send(t.Context(), 30)); err != nil {
		t.Fatal(err)
	}
	s.refuses(t, "--accept-new-topic")
	harness.Run(t, nil, append(s.args, "--until-latest", "--accept-new-topic")...)
	s.check(t, "in the topic that was made again")
}

// refuses runs to the ends, which must end with an error that names a flag.
func (s *stage) refuses(t *testing.T, flag string) {
	t.Helper()
	r := harness.RunBoth(t, nil, append(s.args, "--until-latest")...)
	if r.Err == nil || !strings.Contains(string(r.Stderr), flag) {
		t.Fatalf("ingest is to end and name %s: %v\n%s", flag, r.Err, r.Stderr)
	}
}

// check reads the table: each record that is not lost is a row once, as it was sent, but for some at the end that are not
// there yet; and there is no dead letter.
func (s *stage) check(t *testing.T, when string, open ...int) {
	t.Helper()
	left := 0
	if len(open) > 0 {
		left = open[0]
	}
	rows := map[int]bool{}
	for _, row := range readTable(t, s.table) {
		n := int(harness.Int(t, row, "n"))
		text := fmt.Sprintf("row %d", n)
		extra, tail := "<nil>", text[4:min(len(text), 7)]
		if s.wide[n] {
			extra = fmt.Sprint(2 * n)
		}
		at, sent := s.at[n]
		if got := harness.PositionOf(t, row); !sent || rows[n] || s.lost[n] || got != at || row["text"] != text || fmt.Sprint(row["extra"]) != extra || row["tail"] != tail {
			t.Fatalf("%s: record %d, at %s, lost %v, is the row %v; there before: %v", when, n, at, s.lost[n], row, rows[n])
		}
		rows[n] = true
	}
	if want := len(s.at) - len(s.lost) - left; len(rows) != want {
		t.Fatalf("%s: %d rows, want %d", when, len(rows), want)
	}
	if _, err := os.Stat(s.table + "_dead_letters"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s: there are dead letters: %s", when, harness.Run(t, nil, "read", s.table+"_dead_letters"))
	}
}
