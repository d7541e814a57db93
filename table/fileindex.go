package table

import (
	"iter"
	"sync"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// The file index answers which files can hold some offsets without a look at all of them: each block of a snapshot's
// files remembers the spans of its files, and one hull over them, from when it was looked at first. A commit adds to
// the last block only, so the next snapshot finds nearly everything there. The index takes about 60 bytes a file of
// tables that are read by offset, and goes with the blocks.

// blockSpans is what is known of one block's files.
type blockSpans struct {
	names Names // of the columns that the spans are of

	mu    sync.Mutex
	files []fileSpan // of the first rows; never changed once written
	hull  []Range    // over files, one for each partition that they name
	open  bool       // some file can hold anything
}

// fileSpan is what the log says about the offsets in a file; nil ranges can hold anything.
type fileSpan struct {
	ranges []Range
	exact  bool
}

// spansOfBlock gives the spans of the first b.Len() rows, and whether any of them can have rows of the ranges (nil: all).
func spansOfBlock(n Names, b deltalog.FileBlock, ranges []Range) ([]fileSpan, bool) {
	s := b.Memo(func() any { return &blockSpans{names: n} }).(*blockSpans)
	if s.names != n { // column mapping has renamed the keys: rare, and not worth a second memory
		s = &blockSpans{names: n}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.files); i < b.Len(); i++ {
		s.add(n, b, i)
	}
	return s.files[:b.Len():b.Len()], ranges == nil || s.open || touch(ranges, s.hull)
}

func (s *blockSpans) add(n Names, b deltalog.FileBlock, i int) {
	var f fileSpan
	if text, ok := b.Tag(i, RangesTag); ok {
		f.ranges, f.exact = parseRanges(text)
	}
	if !f.exact {
		bounds := boundsOf(n, b.Add(i), true)
		f.ranges = bounds.list()
	}
	s.files = append(s.files, f)
	if f.ranges == nil {
		s.open = true
	}
	for _, r := range f.ranges {
		s.hull = cover(s.hull, r)
	}
}

// cover makes a hull, sorted by partition, cover a range.
func cover(hull []Range, r Range) []Range {
	for i := range hull {
		if h := &hull[i]; h.Partition == r.Partition {
			h.From, h.To = min(h.From, r.From), max(h.To, r.To)
			return hull
		}
		if hull[i].Partition > r.Partition {
			hull = append(hull, Range{})
			copy(hull[i+1:], hull[i:])
			hull[i] = r
			return hull
		}
	}
	return append(hull, r)
}

// touch says whether two sorted lists of ranges have an offset in common.
func touch(a, b []Range) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		x, y := a[i], b[j]
		switch {
		case x.Partition < y.Partition || x.Partition == y.Partition && x.To <= y.From:
			i++
		case y.Partition < x.Partition || x.Partition == y.Partition && y.To <= x.From:
			j++
		default:
			return true
		}
	}
	return false
}

// candidates gives the files of a snapshot that can hold rows of the ranges, older ones first. Those of blocks that
// cannot are not looked at.
func candidates(n Names, snap *deltalog.Snapshot, ranges []Range) iter.Seq2[*deltalog.Add, fileSpan] {
	return func(yield func(*deltalog.Add, fileSpan) bool) {
		for b := range snap.Blocks() {
			spans, any := spansOfBlock(n, b, ranges)
			if !any {
				continue
			}
			for i, f := range spans {
				if (f.ranges == nil || touch(ranges, f.ranges)) && b.Live(i) && !yield(b.Add(i), f) {
					return
				}
			}
		}
	}
}

// Head splits ranges so that a reader gets its first rows soon: head ends, in each partition, where the first file
// ends that has rows of it, and rest is what comes after. It looks at few files, while to plan the whole of a scan
// takes a moment in a table of very many. Rest is nil where a split is no use: in a small table, or one with files
// that could hold anything.
func (t *Table) Head(snap *deltalog.Snapshot, ranges []Range) (head, rest []Range) {
	ranges = normalize(ranges)
	names := t.namesIn(snap)
	if snap.NumFiles() < headFiles || !t.Ordered() {
		return ranges, nil
	}
	first := make([]Range, len(ranges)) // the first file's, of each range
	for b := range snap.Blocks() {
		spans, any := spansOfBlock(names, b, nearest(ranges, first))
		if !any {
			continue
		}
		for i, f := range spans {
			if f.ranges == nil {
				return ranges, nil
			}
			for j := range ranges {
				if g, ok := within(f.ranges, ranges[j]); ok && (first[j].To == 0 || g.From < first[j].From) && b.Live(i) && t.ofBlock(b, i, names) {
					first[j] = g
				}
			}
		}
	}
	for j, r := range ranges {
		cut := first[j].To
		if cut == 0 || cut >= r.To { // no file has rows of it, or the first has all
			head = append(head, r)
			continue
		}
		head = append(head, Range{r.Partition, r.From, cut})
		rest = append(rest, Range{r.Partition, cut, r.To})
	}
	return head, rest
}

// ofBlock is ofTopic of a row of a block, which is not made into an action where nothing is asked of it.
func (t *Table) ofBlock(b deltalog.FileBlock, i int, n Names) bool {
	return t.Topic() == "" || t.ofTopic(b.Add(i), n)
}

// headFiles is how many files a table has at least for Head to split.
const headFiles = 2000

// nearest cuts ranges at the first file that is known, since only one that begins before it can come first.
func nearest(ranges, first []Range) []Range {
	out := make([]Range, len(ranges))
	for i, r := range ranges {
		if first[i].To > 0 {
			r.To = min(r.To, max(first[i].From, r.From+1))
		}
		out[i] = r
	}
	return out
}

// within gives the part of a range that a file's ranges cover, from the first offset in it to the file's last.
func within(file []Range, r Range) (Range, bool) {
	var out Range
	found := false
	for _, f := range file {
		if f.Partition != r.Partition || f.To <= r.From || f.From >= r.To {
			continue
		}
		if !found {
			out, found = Range{r.Partition, max(f.From, r.From), f.To}, true
		}
		out.To = min(f.To, r.To)
	}
	return out, found
}
