package table

import (
	"strings"
	"testing"

	ourparquet "github.com/ledgerlake/ledgerlake/internal/parquet"
)

// The library's rows come from one reader that goes forward, whatever spans are asked for: a reader for each would decode
// the row group from its start again and again. What a batch of it has behind a span is not lost. I4
func TestSpansAreReadByOneReaderOfTheLibrary(t *testing.T) {
	tb := newTestTable(t, Config{})
	rows := pagedRows(2000)
	a := writeFile(t, tb, rows, WriterOptions{})
	s, err := tb.newScan(commit(t, tb, a), ScanOptions{BatchRows: 64})
	if err != nil {
		t.Fatal(err)
	}
	s.library = true
	f, err := s.open(t.Context(), &unit{add: &a, to: 1 << 62})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	f.measure(f.pq.MetaData().RowGroup(0))
	spans := []ourparquet.RowSpan{{From: 3, To: 10}, {From: 12, To: 13}, {From: 60, To: 70}, {From: 100, To: 400}, {From: 1999, To: 2002}, {From: 3990, To: 4000}}
	g, err := f.openGroup(0, spans)
	if err != nil {
		t.Fatal(err)
	}
	defer g.release()
	first := g.lib
	for _, span := range spans {
		if span.From > g.at {
			if err := g.skipTo(span.From); err != nil {
				t.Fatal(err)
			}
		}
		for at := span.From; at < span.To; {
			rb, err := g.next(min(span.To-at, f.batch))
			if err != nil {
				t.Fatal(err)
			}
			for i := range int(rb.NumRows()) {
				if got := rowText(rb, i); !strings.Contains(got, rows[at].text) {
					t.Fatalf("row %d is %s, want %v", at, got, rows[at])
				}
				at++
			}
			if rb.Release(); at > span.To || at != g.at {
				t.Fatalf("at row %d, the reader at %d, of a span that ends at %d", at, g.at, span.To)
			}
		}
	}
	if g.lib != first {
		t.Fatal("the library was opened again for a later span")
	}
}
