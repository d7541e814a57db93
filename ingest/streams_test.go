package ingest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func routes(t *testing.T, text string) ([]Route, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "streams.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadRoutes(name)
}

// Many topics go to many tables: lists, patterns, one topic to two tables, two topics to one.
func TestExpand(t *testing.T) {
	rs, err := routes(t, `
streams:
  - topics: [orders, returns]
    table: /lake/{topic}
    group: lake-{topic}
    memory: 1048576
    flush-age: 5s
  - pattern: web\..*
    table: /lake/web
    as-is: true
  - topics: [orders]
    table: /archive/orders
`)
	if err != nil || !NeedTopics(rs) {
		t.Fatal(err)
	}
	streams, err := Expand(rs, []string{"web.eu", "orders", "__consumer_offsets", "web.us", "notweb.x"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	keys := map[string]bool{}
	for i := range streams {
		s := &streams[i]
		got = append(got, s.Name())
		keys[s.Key()] = true
		if s.Shared != (s.Route.Table == "/lake/web") || s.Route.App != s.Topic {
			t.Errorf("%s: shared %v, app %s", s.Name(), s.Shared, s.Route.App)
		}
	}
	want := "orders -> /lake/orders, returns -> /lake/returns, web.eu -> /lake/web, web.us -> /lake/web, orders -> /archive/orders"
	if strings.Join(got, ", ") != want || len(keys) != 5 {
		t.Errorf("got %v, %d keys", got, len(keys))
	}
	if streams[0].Route.Group != "lake-orders" || streams[0].Route.FlushAge.Seconds() != 5 {
		t.Errorf("%+v", streams[0])
	}
	before := streams[0].Key()
	rs[0].Memory++
	if streams, err = Expand(rs, nil); err != nil || streams[0].Key() == before {
		t.Errorf("a changed budget is no change: %v", err)
	}
}

// What makes no sense is said with its place (I8).
func TestRoutesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"streams: [{table: x}]":                          "stream 1: topics or a pattern",
		"streams: [{topics: [a]}]":                       "stream 1: a table",
		"streams: [{pattern: '(', table: x}]":            "pattern",
		"streams: [{topics: [a], table: x, memory: -1}]": "negative",
		"streams: 7": "streams",
	} {
		if _, err := routes(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	rs, err := routes(t, "streams: [{topics: [a, b], table: x, app: same}]")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Expand(rs, nil); err == nil || !strings.Contains(err.Error(), "app of its own") {
		t.Errorf("two topics under one app: %v", err)
	}
	if rs, err = routes(t, "streams: [{topics: [a], table: x, app: one}, {pattern: 'a|b', table: x}]"); err != nil {
		t.Fatal(err)
	}
	if _, err := Expand(rs, []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one topic under two apps: %v (I3)", err)
	}
}
