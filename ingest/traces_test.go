package ingest

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// Each commit is a trace with its steps, version and offsets; a collector that is away costs spans and nothing else.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	spans := map[string]*otlp.Span{}
	paths := map[string]bool{}
	down := true
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if down {
			http.Error(w, "not today", http.StatusBadRequest)
			return
		}
		raw, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(raw, &req)
		}
		if err != nil {
			t.Error(err)
		}
		paths[r.URL.Path] = true
		for _, res := range req.ResourceSpans {
			if !strings.Contains(res.Resource.String(), "ledgerlake") {
				t.Errorf("resource %v", res.Resource)
			}
			for _, s := range res.ScopeSpans {
				for _, span := range s.Spans {
					spans[span.Name] = span
				}
			}
		}
	}))
	defer srv.Close()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	step := func(from, to int) tiering.Step {
		return tiering.Step{Start: at.Add(time.Duration(from) * time.Second), End: at.Add(time.Duration(to) * time.Second), Busy: time.Second / 2}
	}
	c := tiering.CommitTrace{Topic: "orders", App: "a", Table: "file:///lake/orders", Version: 7, Rows: 5, Ranges: []committer.Range{{Partition: 3, From: 10, To: 15}},
		Fetch: step(0, 2), Decode: step(1, 3), Upload: step(3, 4), Letters: step(4, 4), Commit: step(4, 6)}
	for _, down = range []bool{true, false} {
		tr, err := OpenTraces(t.Context(), srv.URL, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		tr.Commit(c)
		if err := tr.Close(); err != nil {
			t.Errorf("down %v: %v", down, err)
		}
	}
	root := spans["commit orders"]
	if root == nil || !paths["/v1/traces"] {
		t.Fatalf("spans %v, paths %v", spans, paths)
	}
	names := []string{}
	for name, s := range spans {
		names = append(names, name)
		if s != root && (string(s.ParentSpanId) != string(root.SpanId) || s.StartTimeUnixNano < root.StartTimeUnixNano || s.EndTimeUnixNano > root.EndTimeUnixNano) {
			t.Errorf("span %s is no part of the commit: %v", name, s)
		}
	}
	slices.Sort(names)
	if strings.Join(names, ",") != "commit orders,decode,fetch,upload,version" {
		t.Errorf("spans %v", names)
	}
	if root.StartTimeUnixNano != uint64(at.UnixNano()) || root.EndTimeUnixNano != uint64(at.Add(6*time.Second).UnixNano()) {
		t.Errorf("the commit took from %d to %d", root.StartTimeUnixNano, root.EndTimeUnixNano)
	}
	for _, want := range []string{"3:[10,15)", "ledgerlake.version", "file:///lake/orders"} {
		if !strings.Contains(root.String(), want) {
			t.Errorf("there is no %s in %v", want, root)
		}
	}
	if _, err := OpenTraces(t.Context(), "collector:4318", nil); err == nil || !strings.Contains(err.Error(), "http://") {
		t.Errorf("no address: %v", err)
	}
}
