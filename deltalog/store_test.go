package deltalog

import (
	"context"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func put(t testing.TB, store objstore.Store, key string, data []byte) {
	t.Helper()
	if err := store.Put(t.Context(), key, data); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, store objstore.Store, key string) []byte {
	t.Helper()
	b, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func remove(t testing.TB, store objstore.Store, key string) {
	t.Helper()
	if err := store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

func keys(t testing.TB, store objstore.Store) []string {
	t.Helper()
	var out []string
	for info, err := range store.List(t.Context(), objstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Key)
	}
	return out
}

// clone copies the objects whose key passes.
func clone(t testing.TB, store objstore.Store, pass func(key string) bool) *mem.Store {
	t.Helper()
	out := mem.New()
	for info, err := range store.List(t.Context(), objstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if pass(info.Key) {
			put(t, out, info.Key, get(t, store, info.Key))
		}
	}
	return out
}

// putLog writes commits from their lines; version i of the map's key.
func putLog(t testing.TB, store objstore.Store, commits map[Version]string) {
	t.Helper()
	for v, lines := range commits {
		put(t, store, commitName(v), []byte(strings.TrimSpace(lines)+"\n"))
	}
}

const (
	protocolLine = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}` + "\n"
	metadataLine = `{"metaData":{"id":"m","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"configuration":{}}}` + "\n"
)

func addLine(path string) string {
	return `{"add":{"path":"` + path + `","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}` + "\n"
}

func removeLine(path string) string {
	return `{"remove":{"path":"` + path + `","deletionTimestamp":99999999999999,"dataChange":true}}` + "\n"
}

func loadAll(t testing.TB, store objstore.Store) *Snapshot {
	t.Helper()
	s, err := load(t.Context(), store, -1, false)
	if err != nil {
		t.Fatal(err)
	}
	return s.snapshot()
}

func paths(s *Snapshot) string {
	var out []string
	for a := range s.Files() {
		out = append(out, a.Path)
	}
	return strings.Join(out, " ")
}

// truncating is a store that loses the end of checkpoints.
type truncating struct{ objstore.Store }

func (s truncating) Create(ctx context.Context, key string) (objstore.Writer, error) {
	w, err := s.Store.Create(ctx, key)
	return &truncatingWriter{Writer: w}, err
}

type truncatingWriter struct {
	objstore.Writer
	data []byte
}

func (w *truncatingWriter) Write(p []byte) (int, error) {
	w.data = append(w.data, p...)
	return len(p), nil
}

func (w *truncatingWriter) Close() error {
	if _, err := w.Writer.Write(w.data[:len(w.data)-10]); err != nil {
		return err
	}
	return w.Writer.Close()
}

// putHook calls before ahead of each PutIfAbsent.
func putHook(before func()) mem.Hook {
	return func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent {
			before()
		}
		return mem.Fault{}
	}
}
