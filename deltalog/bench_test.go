package deltalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
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
	store := mem.New()
	put(b, store, commitName(0), data)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			s, err := load(b.Context(), store, -1, false)
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

func BenchmarkCheckpoint30k(b *testing.B) {
	store := mem.New()
	put(b, store, commitName(0), bigCommit(30_000))
	s, err := load(b.Context(), store, -1, false)
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

// statsLog is a log of commits with statistics, and a checkpoint of its newest version when asked.
func statsLog(b *testing.B, commits, each int, checkpoint bool) *mem.Store {
	store := mem.New()
	for v := range commits {
		var c bytes.Buffer
		if v == 0 {
			c.WriteString(protocolLine + metadataLine)
		}
		for i := range each {
			n := v*each + i
			fmt.Fprintf(&c, `{"add":{"path":"part-%05d-3f2b7a52-2e0c-4a2e-9a52-%012d.c000.snappy.parquet","partitionValues":{},"size":%d,"modificationTime":1700000000000,"dataChange":true,`+
				`"stats":"{\"numRecords\":1000,\"minValues\":{\"id\":%d,\"name\":\"a%d\",\"at\":\"2026-01-01T00:00:00.000Z\"},\"maxValues\":{\"id\":%d,\"name\":\"z%d\",\"at\":\"2026-01-02T00:00:00.000Z\"},\"nullCount\":{\"id\":0,\"name\":3,\"at\":0}}"}}`+"\n",
				n%1000, n, 1_000_000+n, n*1000, n, n*1000+999, n)
		}
		put(b, store, commitName(Version(v)), c.Bytes())
	}
	if checkpoint {
		l, err := Open(b.Context(), store, Config{CheckpointInterval: -1})
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		if err := l.Checkpoint(b.Context(), mustSnapshot(b, l)); err != nil {
			b.Fatal(err)
		}
	}
	return store
}

func BenchmarkReplayStats(b *testing.B) {
	for _, c := range []struct {
		name       string
		checkpoint bool
	}{{"json", false}, {"checkpoint", true}} {
		b.Run(c.name, func(b *testing.B) {
			store := statsLog(b, 100, 1000, c.checkpoint)
			b.ReportAllocs()
			for b.Loop() {
				if s, err := load(b.Context(), store, -1, false); err != nil || s.files.live != 100_000 {
					b.Fatal(err)
				}
			}
		})
	}
}
