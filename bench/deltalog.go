package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
)

// logCase is a generated Delta log without data files.
type logCase struct {
	name    string
	commits int
	stats   bool
	path    string
	adds    int
	bytes   int64
}

// RunDeltalog measures how fast a log becomes a snapshot: a partitioned table in three commits, and one with
// statistics in 300 commits, without and with a checkpoint. Beside it a plain encoding/json loop in this process,
// and delta-rs and DuckDB in processes of their own where the repository's Python environment is there. A run has
// 1.5 adds a record (300,000 by default).
func RunDeltalog(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	root, remove, err := cfg.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	adds := cfg.Records * 3 / 2
	cases := []*logCase{
		{name: "partitioned", commits: 3, adds: adds},
		{name: "statistics", commits: 300, stats: true, adds: adds},
		{name: "statistics and checkpoint", commits: 300, stats: true, adds: adds},
	}
	for i, c := range cases {
		c.path = filepath.Join(root, fmt.Sprint(i))
		if err := c.generate(); err != nil {
			return nil, fmt.Errorf("generate log %q: %w", c.name, err)
		}
	}
	if err := checkpoint(ctx, cases[2].path); err != nil {
		return nil, err
	}
	r := &Report{Scenario: "deltalog", Machine: Machine(), Time: time.Now().UTC()}
	engines := foreignEngines(cfg)
	for round := range cfg.Rounds {
		for _, c := range cases {
			if err := c.round(ctx, r, engines, round); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range cases {
		c.goals(r, engines)
	}
	return r, errors.Join(refreshes(ctx, cfg, r, root, adds), millionFiles(ctx, r, adds*10/3))
}

// generate writes the commits. Each add has a path, a partition or statistics, as tables in the wild have them.
func (c *logCase) generate() error {
	folder := filepath.Join(c.path, "_delta_log")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	column := func(name, typ string) deltalog.StructField {
		return deltalog.StructField{Name: name, Type: deltalog.Primitive(typ), Nullable: true}
	}
	schema := &deltalog.StructType{Fields: []deltalog.StructField{column("id", "long"), column("name", "string"), column("at", "timestamp")}}
	partitions := "[]"
	if !c.stats {
		schema.Fields = append(schema.Fields, column("partition_col", "string"))
		partitions = `["partition_col"]`
	}
	text, err := json.Marshal(schema.JSON())
	if err != nil {
		return err
	}
	n := 0
	for v := range c.commits {
		var b bytes.Buffer
		fmt.Fprintf(&b, `{"commitInfo":{"timestamp":%d,"operation":"WRITE","operationParameters":{"mode":"Append"},"isBlindAppend":true}}`+"\n", start().UnixMilli()+int64(v))
		if v == 0 {
			b.WriteString(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}` + "\n")
			fmt.Fprintf(&b, `{"metaData":{"id":"bench","format":{"provider":"parquet","options":{}},"schemaString":%s,"partitionColumns":%s,"configuration":{},"createdTime":1}}`+"\n", text, partitions)
		}
		for ; n < c.adds*(v+1)/c.commits; n++ {
			c.add(&b, n)
		}
		c.bytes += int64(b.Len())
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%020d.json", v)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *logCase) add(b *bytes.Buffer, n int) {
	if !c.stats {
		fmt.Fprintf(b, `{"add":{"path":"partition_col=part_%d/file_%d.parquet","partitionValues":{"partition_col":"part_%d"},"size":%d,"modificationTime":%d,"dataChange":true}}`+"\n",
			n%100, n, n%100, 1024+n, start().UnixMilli()+int64(n))
		return
	}
	fmt.Fprintf(b, `{"add":{"path":"part-%05d-3f2b7a52-2e0c-4a2e-9a52-%012d.c000.snappy.parquet","partitionValues":{},"size":%d,"modificationTime":%d,"dataChange":true,`+
		`"stats":"{\"numRecords\":1000,\"minValues\":{\"id\":%d,\"name\":\"a%d\",\"at\":\"2026-01-01T00:00:00.000Z\"},\"maxValues\":{\"id\":%d,\"name\":\"z%d\",\"at\":\"2026-01-02T00:00:00.000Z\"},\"nullCount\":{\"id\":0,\"name\":3,\"at\":0}}"}}`+"\n",
		n%1000, n, 1_000_000+n, start().UnixMilli()+int64(n), n*1000, n, n*1000+999, n)
}

// nothing is a condition in SQL that the log says to hold in no file.
func (c *logCase) nothing() string {
	if c.stats {
		return "id < -1"
	}
	return "partition_col = 'none'"
}

func openStore(path string) (objstore.Store, error) {
	return dir.Open(dir.Config{Root: path, FS: vfs.OS()})
}

func openLog(ctx context.Context, path string) (*deltalog.Log, error) {
	store, err := openStore(path)
	if err != nil {
		return nil, err
	}
	return deltalog.Open(ctx, store, deltalog.Config{CheckpointInterval: -1})
}

func checkpoint(ctx context.Context, path string) error {
	l, err := openLog(ctx, path)
	if err != nil {
		return err
	}
	snap, err := l.Snapshot(ctx)
	if err == nil {
		err = l.Checkpoint(ctx, snap)
	}
	return errors.Join(err, l.Close())
}

// round runs all sides of a case once.
func (c *logCase) round(ctx context.Context, r *Report, engines []foreignEngine, round int) error {
	s, err := measure("ledgerlake, "+c.name, round, func() (int64, int64, error) {
		l, err := openLog(ctx, c.path)
		if err != nil {
			return 0, 0, err
		}
		snap, err := l.Snapshot(ctx)
		if err != nil {
			return 0, 0, err
		}
		n := snap.NumFiles()
		if n != c.adds {
			err = fmt.Errorf("wrong result: %d files, want %d", n, c.adds)
		}
		return int64(n), c.bytes, errors.Join(err, l.Close())
	})
	if err != nil {
		return err
	}
	r.Samples = append(r.Samples, s)
	s, err = measure("encoding/json, "+c.name, round, func() (int64, int64, error) {
		n, err := plainReplay(filepath.Join(c.path, "_delta_log"))
		if err == nil && n != c.adds {
			err = fmt.Errorf("wrong result: %d files, want %d", n, c.adds)
		}
		return int64(n), c.bytes, err
	})
	if err != nil {
		return err
	}
	r.Samples = append(r.Samples, s)
	for _, engine := range engines {
		if err := engine.run(ctx, r, c, round); err != nil {
			return err
		}
	}
	return nil
}

// plainReplay is what a first version of anybody's would be: each line into typed structs, files in a map.
func plainReplay(folder string) (int, error) {
	type dv struct {
		StorageType, PathOrInlineDv string
		SizeInBytes                 int32
		Cardinality                 int64
	}
	type action struct {
		Add *struct {
			Path             string             `json:"path"`
			PartitionValues  map[string]*string `json:"partitionValues"`
			Size             int64              `json:"size"`
			ModificationTime int64              `json:"modificationTime"`
			DataChange       bool               `json:"dataChange"`
			Stats            string             `json:"stats"`
			Tags             map[string]*string `json:"tags"`
			DeletionVector   *dv                `json:"deletionVector"`
		} `json:"add"`
		Remove *struct {
			Path              string `json:"path"`
			DeletionTimestamp int64  `json:"deletionTimestamp"`
			DataChange        bool   `json:"dataChange"`
		} `json:"remove"`
	}
	files := map[string]*action{}
	names, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		for row := range bytes.Lines(data) {
			var a action
			if err := json.Unmarshal(row, &a); err != nil {
				return 0, err
			}
			if a.Add != nil {
				files[a.Add.Path] = &a
			}
			if a.Remove != nil {
				delete(files, a.Remove.Path)
			}
		}
	}
	return len(files), nil
}

// goals states what was measured of a case.
func (c *logCase) goals(r *Report, engines []foreignEngine) {
	seconds := func(s Sample) float64 { return s.Seconds }
	cpu := func(s Sample) float64 { return s.CPUSeconds }
	ours := r.median("ledgerlake, "+c.name, seconds)
	r.atLeast(c.name+": time of the encoding/json loop / ours", 4, r.median("encoding/json, "+c.name, seconds)/ours)
	mine := r.median(own+" process, "+c.name, cpu)
	for _, engine := range engines {
		if other := r.median(engine.name+" process, "+c.name, cpu); other > 0 && mine > 0 && engine.name != own && engine.name != ownWhole {
			r.atLeast(c.name+": CPU seconds of "+engine.name+" / ours", 5, other/mine)
		}
	}
	if mb := r.median(ownWhole+" process, "+c.name, func(s Sample) float64 { return s.MaxMB }); mb > 0 && !c.stats {
		r.atMost(c.name+": resident MB of a process that lists the files", 60, mb)
	}
}

// refreshes measures a refresh after one commit, of a small table and of a large one.
func refreshes(ctx context.Context, cfg Config, r *Report, root string, adds int) error {
	for _, n := range []int{1000, adds} {
		c := &logCase{name: "refresh", commits: 1, adds: n, path: filepath.Join(root, fmt.Sprint("refresh", n))}
		if err := c.generate(); err != nil {
			return err
		}
		if err := c.refresh(ctx, r, cfg.Rounds); err != nil {
			return err
		}
	}
	seconds := func(s Sample) float64 { return s.Seconds }
	small, large := r.median("refresh of 1000 files", seconds), r.median(fmt.Sprintf("refresh of %d files", adds), seconds)
	r.atMost(fmt.Sprintf("refresh after one commit: time at %d files / at 1000", adds), 3, large/small)
	return nil
}

func (c *logCase) refresh(ctx context.Context, r *Report, rounds int) error {
	reader, err := openLog(ctx, c.path)
	if err != nil {
		return err
	}
	writer, err := openLog(ctx, c.path)
	if err != nil {
		return errors.Join(err, reader.Close())
	}
	defer func() { _ = errors.Join(reader.Close(), writer.Close()) }()
	value := "part_0"
	for round := range rounds * 4 { // they are short
		add := deltalog.Add{Path: fmt.Sprint("new-", round), Size: 1, DataChange: true, PartitionValues: map[string]*string{"partition_col": &value}}
		if _, err := writer.Commit(ctx, deltalog.Commit{ReadVersion: deltalog.Version(round), Operation: "WRITE", Adds: []deltalog.Add{add}, BlindAppend: true}); err != nil {
			return err
		}
		s, err := measure(fmt.Sprintf("refresh of %d files", c.adds), round, func() (int64, int64, error) {
			snap, err := reader.Snapshot(ctx)
			if err == nil && snap.NumFiles() != c.adds+round+1 {
				err = fmt.Errorf("wrong result: %d files", snap.NumFiles())
			}
			return 1, 0, err
		})
		if err != nil {
			return err
		}
		r.Samples = append(r.Samples, s)
	}
	return nil
}

// millionFiles writes a checkpoint of a large snapshot and watches how much memory that takes.
func millionFiles(ctx context.Context, r *Report, adds int) error {
	root, remove, err := Config{}.scratch()
	if err != nil {
		return err
	}
	defer remove()
	c := &logCase{commits: 20, stats: true, adds: adds, path: root}
	if err := c.generate(); err != nil {
		return err
	}
	l, err := openLog(ctx, root)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	snap, err := l.Snapshot(ctx)
	if err != nil {
		return err
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	peak, stop := watchHeap()
	s, err := measure(fmt.Sprintf("checkpoint of %d files", adds), 0, func() (int64, int64, error) {
		return int64(adds), c.bytes, l.Checkpoint(ctx, snap)
	})
	stop()
	if err != nil {
		return err
	}
	s.MaxMB = float64(int64(peak.Load())-int64(before.HeapInuse)) / 1e6
	if s.FileBytes, err = sizeOf(filepath.Join(root, "_delta_log", "*.checkpoint*.parquet")); err != nil {
		return err
	}
	r.Samples = append(r.Samples, s)
	r.atMost(fmt.Sprintf("checkpoint of %d files: heap beside the snapshot, MB, half of it garbage not yet collected", adds), float64(before.HeapInuse)/1e6+64, s.MaxMB)
	return checkCheckpoint(ctx, root, adds)
}

// sizeOf is the size of the files of a pattern together.
func sizeOf(pattern string) (sum int64, err error) {
	names, err := filepath.Glob(pattern)
	for _, name := range names {
		info, fault := os.Stat(name)
		if fault != nil {
			return sum, fault
		}
		sum += info.Size()
	}
	return sum, err
}

// checkCheckpoint reads the table from nothing but its checkpoint.
func checkCheckpoint(ctx context.Context, root string, adds int) error {
	names, err := filepath.Glob(filepath.Join(root, "_delta_log", "*.json"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	l, err := openLog(ctx, root)
	if err != nil {
		return err
	}
	snap, err := l.Snapshot(ctx)
	if err == nil && snap.NumFiles() != adds {
		err = fmt.Errorf("wrong result: the checkpoint has %d files, want %d", snap.NumFiles(), adds)
	}
	return errors.Join(err, l.Close())
}

// watchHeap samples the heap in use until stopped.
func watchHeap() (*atomic.Uint64, func()) {
	peak := new(atomic.Uint64)
	return peak, sampled(5*time.Millisecond, func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak.Store(max(peak.Load(), m.HeapInuse))
	})
}

// sampled calls look again and again until the function that it gives is called.
func sampled(every time.Duration, look func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				look()
			}
		}
	}()
	return func() { close(quit); <-done }
}
