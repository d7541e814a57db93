package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A person opens the page in Chromium, clicks into the bar of a partition, and sees the stream from there,
// out of the table and through the seam into the log (I4).
func TestPageInBrowser(t *testing.T) {
	harness.Browser(t)
	seed := seedtest.New(t)
	const tiered, n = 300, 400
	dir := t.TempDir()
	fillTable(t, dir, seed, tiered, 1)
	s := harness.Serve(t, dir, "", "--topic", "events:1", "--flush-age", "1h") // so that the rest stays in the log
	produce(t, s.Addr, "events", seed, tiered, n)

	picture := filepath.Join(t.TempDir(), "page.png")
	if keep := os.Getenv("LEDGERLAKE_SCREENSHOT"); keep != "" {
		picture = keep
	}
	var seen struct {
		Topic, Numbers, Range, From, Seam, Refused string
		Rows                                       []struct {
			Side, Key, Record string
			Partition, Offset int
		}
		How, Complaints []string
	}
	out := harness.RunBrowser(t, "page.js", "http://"+s.HTTP+"/", picture)
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(seen.Complaints) > 0 {
		t.Errorf("the browser complains: %q", seen.Complaints)
	}
	if seen.Topic != "events" || !strings.Contains(seen.Numbers, fmt.Sprintf("%d rows", tiered)) || !strings.Contains(seen.Range, fmt.Sprintf("0 .. %d  lag %d", n, n-tiered)) {
		t.Errorf("topic %q, numbers %q, range %q", seen.Topic, seen.Numbers, seen.Range)
	}
	var first int
	if _, err := fmt.Sscanf(seen.From, "0:%d", &first); err != nil || first < n/2 || first > tiered {
		t.Fatalf("a click behind the middle of the bar reads from %q", seen.From)
	}
	if len(seen.Rows) != n-first {
		t.Errorf("%d rows from offset %d, want %d", len(seen.Rows), first, n-first)
	}
	for i, r := range seen.Rows {
		e, side := harness.NewEvent(seed, first+i), "lake"
		if first+i >= tiered {
			side = "log"
		}
		if r.Offset != first+i || r.Side != side || r.Key != string(e.Key) || r.Record != string(e.Value) {
			t.Fatalf("row %d is %+v, want offset %d from the %s with %s", i, r, first+i, side, e.Value)
		}
	}
	if !strings.Contains(seen.Seam, "seam") || !strings.Contains(seen.Refused, "out of range") || len(seen.How) < 4 || !strings.Contains(seen.How[1], s.Table("events")) {
		t.Errorf("seam %q, refused %q, how %q", seen.Seam, seen.Refused, seen.How)
	}
}
