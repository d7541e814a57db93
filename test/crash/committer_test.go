package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Three committers are killed and paused at random moments, the leader more often than the others, under 32 writers;
// delta-rs appends to the same table now and then. One writer sends large requests now and then, which go by way of the
// store, and one asks for early answers. In the end each row that was acknowledged is in the table once, and
// no other (I3, I5).
//
// LEDGERLAKE_KILLS=100 is the long form; with LEDGERLAKE_SPARK=1 a Spark appends beside as well.
func TestCommittersAreKilledAndPaused(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 5))
	url := filepath.Join(t.TempDir(), "events")
	store := newPlainTable(t, url)
	g := harness.Committers(t, 3)
	stopDeltaRS, stopSpark := startAppender(t, url), startSpark(t, url)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writers := make([]*plainWriter, 32)
	var wg sync.WaitGroup
	for i := range writers {
		w := &plainWriter{id: int32(i), store: store, tab: g.Client(t).Table(url).Staging(store), large: i == 0, early: i == 1}
		writers[i] = w
		wg.Go(func() { w.run(ctx) })
	}
	progress := func() (n record.Offset) {
		for _, w := range writers {
			n += w.at()
		}
		return n
	}
	kills := harness.Kills(t, 5)
	worst := time.Duration(0)
	for range kills {
		time.Sleep(time.Duration(200+rng.IntN(800)) * time.Millisecond)
		i := rng.IntN(3)
		if rng.IntN(3) > 0 {
			i, _ = g.Leader(t)
		}
		before, start := progress(), time.Now()
		if rng.IntN(2) == 0 {
			g.Nodes[i].Kill()
			g.Start(t, i)
		} else {
			g.Nodes[i].Pause(t)
			time.Sleep(time.Duration(100+rng.IntN(2500)) * time.Millisecond)
			g.Nodes[i].Resume(t)
		}
		harness.Eventually(t, time.Minute, func() error {
			if progress() < before+200 {
				return errors.New("the writers do not go on")
			}
			return nil
		})
		worst = max(worst, time.Since(start))
	}
	harness.Eventually(t, time.Minute, func() error {
		if writers[0].staged.Load() == 0 {
			return errors.New("no large request was sent")
		}
		return nil
	})
	cancel()
	wg.Wait()
	deltaRS, spark := stopDeltaRS(), stopSpark()
	for _, w := range writers {
		if w.err != nil {
			t.Errorf("writer %d: %v", w.id, w.err)
		}
		w.settle(t)
	}
	harness.Eventually(t, time.Minute, func() error { // what was answered early is put
		if _, s := g.Leader(t); len(s.Tables) != 1 || s.Tables[0].Pending > 0 {
			return fmt.Errorf("%+v", s.Tables)
		}
		return nil
	})
	wantPlainRows(t, url, writers, append(deltaRS, spark...))
	status := string(harness.Run(t, nil, "committer", "status", "--committer", g.List()))
	t.Logf("%d rows of 32 writers (%d large requests), %d of delta-rs and %d of Spark through %d kills and pauses; 200 rows more came within %v of the worst\n%s",
		progress(), writers[0].staged.Load(), len(deltaRS), len(spark), kills, worst.Round(time.Millisecond), status)
	harness.Run(t, nil, "check", url)
}

// wantPlainRows reads the table row by row: each that was acknowledged is there once, and no other (I3). Rows of others
// are named "-P:O".
func wantPlainRows(t *testing.T, url string, writers []*plainWriter, others []string) {
	t.Helper()
	want := map[string]bool{}
	for _, at := range others {
		want[at] = true
	}
	for _, w := range writers {
		for o := range w.next {
			want[fmt.Sprintf("%d:%d", w.id, o)] = true
		}
	}
	for row := range harness.Rows(t, "read", url, "--output", "ndjson") {
		at := fmt.Sprintf("%d:%d", harness.Int(t, row, "p"), harness.Int(t, row, "o"))
		if !want[at] {
			t.Errorf("row %s is in the table, and was not acknowledged, or is there twice", at)
		}
		delete(want, at)
	}
	for at := range want {
		t.Errorf("row %s was acknowledged and is not in the table", at)
	}
}

// newPlainTable makes a table with two columns: p, the writer, and o, its count.
func newPlainTable(t *testing.T, url string) objstore.Store {
	t.Helper()
	store, err := dir.Open(dir.Config{Root: url, FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := deltalog.ParseSchema(`{"type":"struct","fields":[{"name":"p","type":"integer","nullable":true,"metadata":{}},
		{"name":"o","type":"long","nullable":true,"metadata":{}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: schema}, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return store
}

// plainWriter commits files of a few rows each, one after the other.
type plainWriter struct {
	id     int32
	store  objstore.Store
	tab    *rpc.Table
	err    error
	large  bool         // each 20th request is too large for the log of the group
	early  bool         // asks for early answers
	staged atomic.Int32 // large requests that were sent

	mu   sync.Mutex
	next record.Offset       // all before it are acknowledged
	open []committer.Request // without an answer, when the writer was stopped
}

func (w *plainWriter) at() record.Offset {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

func (w *plainWriter) run(ctx context.Context) {
	rng := rand.New(rand.NewPCG(uint64(w.id), 1))
	for n := 1; ctx.Err() == nil; n++ {
		from := w.at()
		to := from + 1 + record.Offset(rng.IntN(5))
		add, err := w.file(from, to)
		if err != nil {
			w.err = err
			return
		}
		req := committer.Request{App: "app", Ranges: []committer.Range{{Partition: w.id, From: from, To: to}}, Adds: []deltalog.Add{add}, Early: w.early}
		if w.large && n%20 == 0 {
			pad := strings.Repeat("x", 1200<<10)
			req.Adds[0].Tags = map[string]*string{"pad": &pad}
			w.staged.Add(1)
		}
		_, err = w.tab.Commit(ctx, req)
		switch {
		case err == nil:
			w.mu.Lock()
			w.next = to
			w.mu.Unlock()
		case ctx.Err() != nil:
			w.open = append(w.open, req)
		default: // the only owner of its partition: nothing may be refused
			w.err = err
			return
		}
	}
}

// settle finds out about the request that had no answer yet: the same request gets the same answer.
func (w *plainWriter) settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	for _, req := range w.open {
		if _, err := w.tab.Commit(ctx, req); err != nil {
			t.Errorf("writer %d: %v", w.id, err)
			continue
		}
		w.next = req.Ranges[0].To
	}
}

var plainColumns = arrow.NewSchema([]arrow.Field{{Name: "p", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "o", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)

// file puts a data file with rows [from, to) into the table's folder.
func (w *plainWriter) file(from, to record.Offset) (deltalog.Add, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, plainColumns)
	defer b.Release()
	for o := from; o < to; o++ {
		b.Field(0).(*array.Int32Builder).Append(w.id)
		b.Field(1).(*array.Int64Builder).Append(int64(o))
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	var out bytes.Buffer
	pw, err := pqarrow.NewFileWriter(plainColumns, &out, nil, pqarrow.DefaultWriterProps())
	if err == nil {
		err = errors.Join(pw.Write(rec), pw.Close())
	}
	if err != nil {
		return deltalog.Add{}, err
	}
	name := fmt.Sprintf("w%d-%d-%d.parquet", w.id, from, to)
	if err := w.store.Put(context.Background(), name, out.Bytes()); err != nil {
		return deltalog.Add{}, err
	}
	return deltalog.Add{Path: name, Size: int64(out.Len()), ModificationTime: time.Now().UnixMilli(), DataChange: true,
		Stats: fmt.Sprintf(`{"numRecords":%d}`, to-from)}, nil
}

// startAppender runs delta-rs beside, when it is installed. The function it gives stops it and says what it wrote.
func startAppender(t *testing.T, url string) func() []string {
	t.Helper()
	if !harness.HasPython(t) {
		if os.Getenv("CI") == "true" {
			harness.Missing(t, "the Python environment", "run 'make services'")
		}
		t.Log("without a delta-rs writer: the Python environment is missing, run 'make services'")
		return func() []string { return nil }
	}
	stop := filepath.Join(t.TempDir(), "stop")
	out := make(chan []byte, 1)
	go func() { out <- harness.RunPython(t, nil, "appender.py", url, stop) }()
	return func() []string {
		if err := os.WriteFile(stop, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return named("-1", strings.Fields(string(<-out)))
	}
}

// named gives the rows of another writer as wantPlainRows names them.
func named(writer string, acked []string) []string {
	for i, n := range acked {
		acked[i] = writer + ":" + n
	}
	return acked
}

// startSpark runs a Spark beside, when LEDGERLAKE_SPARK asks for it, as startAppender runs delta-rs. It waits until Spark
// has made its first commit.
func startSpark(t *testing.T, url string) func() []string {
	t.Helper()
	if os.Getenv("LEDGERLAKE_SPARK") == "" {
		t.Log("without a Spark writer: LEDGERLAKE_SPARK=1 adds one")
		return func() []string { return nil }
	}
	dir := t.TempDir()
	stop, acks := filepath.Join(dir, "stop"), filepath.Join(dir, "acks")
	out := make(chan error, 1)
	cmd := exec.Command(harness.SparkPython(t), "spark_appender.py", url, stop, acks)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+filepath.Join(harness.Top(t), "test", "services"))
	if os.Getenv("LEDGERLAKE_CACHE") == "" {
		cmd.Env = append(cmd.Env, "LEDGERLAKE_CACHE="+filepath.Join(harness.Top(t), ".cache"))
	}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	ended := harness.StartCommand(t, cmd)
	go func() {
		err := cmd.Wait()
		ended()
		out <- err
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	harness.Eventually(t, 3*time.Minute, func() error {
		if b, err := os.ReadFile(acks); err != nil || len(b) == 0 {
			return errors.New("Spark has not begun")
		}
		return nil
	})
	return func() []string {
		if err := os.WriteFile(stop, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := <-out; err != nil {
			t.Errorf("Spark: %v\n%s", err, log.String())
		}
		b, err := os.ReadFile(acks)
		if err != nil {
			t.Fatal(err)
		}
		return named("-2", strings.Fields(string(b)))
	}
}
