package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/ingest"
)

// streamsOf gives what a file of streams makes of the flags of a command.
func streamsOf(t *testing.T, text string, args ...string) ([]*ingestStream, error) {
	t.Helper()
	f, err := parseIngest(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "streams.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	routes, err := ingest.LoadRoutes(name)
	if err != nil {
		return nil, err
	}
	streams, err := ingest.Expand(routes, nil)
	if err != nil {
		return nil, err
	}
	var out []*ingestStream
	for i := range streams {
		s, err := f.routed(&streams[i], &ingestProcess{log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Each stream of a file has its own transforms, filter and format; what it does not say is as the flags say.
func TestStreamsHaveTheirOwnFlags(t *testing.T) {
	got, err := streamsOf(t, `
streams:
  - topics: [a]
    table: /lake/a
    transform: ['day date: kafka.timestamp', 'n: payload.n']
    filter: kafka.headers.type == 'order'
    partition-by: [day]
    evolve: true
    drop-field: secret
  - {topics: [b], table: /lake/b, format: csv, csv-fields: [x, y], csv-comma: ';', row-group-bytes: 1048576}
  - {topics: [c], table: /lake/c}
`, "--transform", "p: kafka.partition", "--codec", "zstd", "--widen")
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := &got[0].plan, &got[1].plan, &got[2].plan
	if len(a.tiering.Transform.Set) != 2 || a.tiering.Transform.Where == "" || a.tiering.Transform.Drop[0] != "secret" || !a.tiering.Evolve || a.shape.partitionBy[0] != "day" ||
		a.tiering.Codec != "zstd" || !a.tiering.Widen {
		t.Errorf("a: %+v", a.tiering)
	}
	if b.values == nil || strings.Join(b.decode.csvFields, " ") != "x y" || b.tiering.RowGroupBytes != 1<<20 || len(b.tiering.Transform.Set) != 1 || b.tiering.Evolve {
		t.Errorf("b: %+v", b)
	}
	if len(c.tiering.Transform.Set) != 1 || c.tiering.Transform.Where != "" || c.tiering.Evolve || c.shape.partitionBy != nil || c.values != nil {
		t.Errorf("c: %+v", c)
	}
	for text, want := range map[string]string{
		"tabel: y":                      "no key tabel",
		"evolve: perhaps":               "evolve",
		"transform: [{day: kafka.key}]": "in quotes",
		"filter: '('":                   "where",
		"filter:":                       "filter",
	} {
		if _, err := streamsOf(t, "streams: [{topics: [a], table: x, "+text+"}]"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
