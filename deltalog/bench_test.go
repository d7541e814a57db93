package deltalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// bigCommit is a commit with n adds of a table with 100 partitions.
func bigCommit(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}` + "\n")
	b.WriteString(`{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":[],"configuration":{}}}` + "\n")
	for i := range n {
		fmt.Fprintf(&b, `{"add":{"path":"p=%d/part-%05d-3f2b7a52-2e0c-4a2e-9a52-%012d.snappy.parquet","partitionValues":{"p":"%d"},"size":%d,"modificationTime":1700000000000,"dataChange":true}}`+"\n", i%100, i, i, i%100, 1000+i)
	}
	return b.Bytes()
}

func BenchmarkReplay30k(b *testing.B) {
	data := bigCommit(30_000)
	store := newFake()
	store.set(commitName(0), data)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			s, err := load(b.Context(), store, -1)
			if err != nil || s.files.live != 30_000 {
				b.Fatal(err, s)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			files := map[string]*Add{}
			for row := range bytes.Lines(data) {
				var line struct {
					Add *Add `json:"add"`
				}
				if err := json.Unmarshal(row, &line); err != nil {
					b.Fatal(err)
				}
				if line.Add != nil {
					files[line.Add.Path] = line.Add
				}
			}
			if len(files) != 30_000 {
				b.Fatal(len(files))
			}
		}
	})
}

// BenchmarkCorpus300k replays the largest table of the corpus.
func BenchmarkCorpus300k(b *testing.B) {
	dir := b.TempDir()
	for _, a := range []string{"kernel-rs.tar.gz", "delta-rs.tar.gz", "kernel-rs-golden.tar.gz", "delta-golden.tar.gz"} {
		extract(b, filepath.Join(corpusDir(b), a), dir)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*", "300k-add-files-100-col-partitioned"))
	if len(found) == 0 {
		b.Skip("the corpus has no 300k table")
	}
	store := openFolder(b, found[0])
	var s *state
	var err error
	b.ReportAllocs()
	for b.Loop() {
		if s, err = load(b.Context(), store, -1); err != nil {
			b.Fatal(err)
		}
	}
	store = nil
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/1e6, "heapMB")
	runtime.KeepAlive(s)
}

func BenchmarkCheckpoint30k(b *testing.B) {
	store := newFake()
	store.set(commitName(0), bigCommit(30_000))
	s, err := load(b.Context(), store, -1)
	if err != nil {
		b.Fatal(err)
	}
	snap := s.snapshot()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := encodeCheckpoint(snap, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
