package table

import (
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// FileRange is a file and what is known of the records in it.
type FileRange struct {
	Add *deltalog.Add
	// Ranges cover the file's rows; nil when neither tags nor statistics tell. A Range whose bounds are those of
	// statistics can be much wider than the rows.
	Ranges []Range
	Exact  bool  // Ranges come from the file's tag
	Rows   int64 // without those that a deletion vector deletes; -1 when unknown
}

// Plan is what a scan would read.
type Plan struct {
	Files    []FileRange
	Rows     int64 // of the files that say it
	Bytes    int64
	Unknown  int // files that do not say their rows
	Skipped  int // files left out
	OfFiles  int // files of the snapshot
	OfBytes  int64
	Versions deltalog.Version // the snapshot's version
}

// Plan says which files a scan of the ranges (nil: all) reads. Like Scan it returns ErrNoFiles for a snapshot without
// them: that is not a table without rows.
func (t *Table) Plan(snap *deltalog.Snapshot, ranges []Range) (Plan, error) {
	files, err := t.FilesFor(snap, ranges)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{OfFiles: snap.NumFiles(), OfBytes: snap.SizeBytes(), Versions: snap.Version()}
	p.Files = files
	p.Skipped = p.OfFiles - len(p.Files)
	for _, f := range p.Files {
		p.Bytes += f.Add.Size
		if f.Rows >= 0 {
			p.Rows += f.Rows
		} else {
			p.Unknown++
		}
	}
	return p, nil
}

// filesOf gives the files of a snapshot that knows them.
func filesOf(snap *deltalog.Snapshot) (iter.Seq[*deltalog.Add], error) {
	if !snap.HasFiles() {
		return nil, ErrNoFiles
	}
	return snap.Files(), nil
}

// FilesFor gives the files that can hold rows of the ranges (nil: all), older ones first; ErrNoFiles for a snapshot
// without them.
func (t *Table) FilesFor(snap *deltalog.Snapshot, ranges []Range) ([]FileRange, error) {
	files, err := filesOf(snap)
	if err != nil {
		return nil, err
	}
	ranges = normalize(ranges)
	out := make([]FileRange, 0, 16)
	names := t.namesIn(snap)
	for a := range files {
		b := boundsOf(names, a, true)
		if !t.ofTopic(a, names) || ranges != nil && !b.touches(ranges) {
			continue
		}
		out = append(out, b.fileRange(a))
	}
	return out, nil
}

// fileRange gives the bounds of a file as callers see them.
func (b *bounds) fileRange(a *deltalog.Add) FileRange {
	rows := b.rows
	if rows >= 0 && a.DeletionVector != nil {
		rows = max(0, rows-a.DeletionVector.Cardinality)
	}
	return FileRange{Add: a, Ranges: b.list(), Exact: b.exact, Rows: rows}
}

// FilesOf gives the files that a scan with these options reads, in the order in which it comes to them.
func (t *Table) FilesOf(snap *deltalog.Snapshot, opts ScanOptions) ([]FileRange, error) {
	s, err := t.newScan(snap, opts)
	if err != nil {
		return nil, err
	}
	files, err := filesOf(snap)
	if err != nil {
		return nil, err
	}
	var out []FileRange
	for a := range files {
		if b := boundsOf(s.names, a, true); s.reads(a, &b) {
			out = append(out, b.fileRange(a))
		}
	}
	if !s.ordered {
		return out, nil
	}
	return Arrange(out), nil
}

// reads says whether a file can hold rows of the scan, by what the log says.
func (s *scan) reads(a *deltalog.Add, b *bounds) bool {
	if !s.t.ofTopic(a, s.names) {
		return false
	}
	if s.ranges != nil && !b.touches(s.ranges) {
		return false
	}
	if !s.opts.MinTimestamp.IsZero() && !b.maxTime.IsZero() && b.maxTime.Before(s.opts.MinTimestamp) {
		return false
	}
	return s.filterFile(a)
}

// Arrange gives the files in an order in which every partition goes forward, as far as the log tells; files that
// hold the same span of a partition are next to each other.
func Arrange(files []FileRange) []FileRange {
	units := make([]*unit, len(files))
	for i, f := range files {
		units[i] = &unit{add: f.Add, hulls: hullsOf(f.Ranges), seq: i}
	}
	out := make([]FileRange, 0, len(files))
	for _, group := range arrange(units) {
		for _, u := range group {
			out = append(out, files[u.seq])
		}
	}
	return out
}

// normalize sorts ranges, joins those that touch and drops empty ones. Nil stays nil.
func normalize(ranges []Range) []Range {
	if ranges == nil {
		return nil
	}
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return r.From >= r.To })
	slices.SortFunc(sorted, func(a, b Range) int {
		return compareKey(key{a.Partition, int64(a.From)}, key{b.Partition, int64(b.From)})
	})
	out := make([]Range, 0, len(sorted))
	for _, r := range sorted {
		if n := len(out); n > 0 && out[n-1].Partition == r.Partition && r.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// bounds are what the log says about a file's rows: exact ranges, or a box of partitions and offsets.
type bounds struct {
	exact      bool
	ranges     []Range // exact ones
	pmin, pmax int32
	omin, omax int64 // inclusive
	rows       int64
	maxTime    time.Time // zero: unknown
}

// boundsOf reads a file's tag and, where asked, its statistics: parsing them takes long in a large table. n are
// the system columns as statistics call them.
func boundsOf(n Names, a *deltalog.Add, stats bool) bounds {
	b := bounds{pmin: math.MinInt32, pmax: math.MaxInt32, omin: math.MinInt64, omax: math.MaxInt64, rows: -1}
	b.ranges, b.exact = rangesTag(a)
	if !stats {
		return b
	}
	var s fileStats
	if a.Stats != "" && json.Unmarshal([]byte(a.Stats), &s) != nil {
		s = fileStats{} // statistics are advice: a file with broken ones is read
	}
	if s.NumRecords != nil && *s.NumRecords >= 0 {
		b.rows = *s.NumRecords
	}
	if n.Timestamp != "" {
		var text string
		if json.Unmarshal(statAt(s.MaxValues, n.Timestamp), &text) == nil {
			if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
				b.maxTime = at.Add(statsSlack)
			}
		}
	}
	if b.exact || !n.Ordered() {
		return b
	}
	statInt(statAt(s.MinValues, n.Partition), &b.pmin)
	statInt(statAt(s.MaxValues, n.Partition), &b.pmax)
	statInt(statAt(s.MinValues, n.Offset), &b.omin)
	statInt(statAt(s.MaxValues, n.Offset), &b.omax)
	if v := a.PartitionValues[n.Partition]; v != nil {
		var p int32
		if json.Unmarshal([]byte(*v), &p) == nil {
			b.pmin, b.pmax = p, p
		}
	}
	return b
}

// statsSlack is how far a maximum in statistics may lie below the real one: some writers cut times to
// milliseconds, and Spark 3.2 and 3.3 cut the zone offsets of historic dates to minutes.
const statsSlack = time.Minute

// fileStats is the part of add.stats that choosing files needs.
type fileStats struct {
	NumRecords *int64                     `json:"numRecords"`
	MinValues  map[string]json.RawMessage `json:"minValues"`
	MaxValues  map[string]json.RawMessage `json:"maxValues"`
	NullCount  map[string]json.RawMessage `json:"nullCount"`
}

// statAt gives the value of a column, whose name may be a path into structs.
func statAt(values map[string]json.RawMessage, name string) json.RawMessage {
	first, rest, inner := strings.Cut(name, pathSep)
	if !inner {
		return values[name]
	}
	var below map[string]json.RawMessage
	if raw := values[first]; len(raw) == 0 || json.Unmarshal(raw, &below) != nil {
		return nil
	}
	return statAt(below, rest)
}

func statInt[T int32 | int64](raw json.RawMessage, dst *T) {
	var v T
	if len(raw) > 0 && raw[0] != 'n' && json.Unmarshal(raw, &v) == nil {
		*dst = v
	}
}

// touches says whether the file can hold a row of the ranges.
func (b *bounds) touches(ranges []Range) bool {
	if !b.exact {
		for _, r := range ranges {
			if r.Partition >= b.pmin && r.Partition <= b.pmax && int64(r.From) <= b.omax && int64(r.To) > b.omin {
				return true
			}
		}
		return false
	}
	return touch(ranges, b.ranges)
}

// within says whether each row that the bounds allow is in the ranges: of one partition, one range around it.
func (b *bounds) within(ranges []Range) bool {
	return b.pmin == b.pmax && slices.ContainsFunc(ranges, func(r Range) bool {
		return r.Partition == b.pmin && int64(r.From) <= b.omin && int64(r.To) > b.omax
	})
}

// list gives the bounds as ranges, one for each partition; nil when they are open or too many.
func (b *bounds) list() []Range {
	if b.exact {
		return b.ranges
	}
	if b.omin == math.MinInt64 || b.omax == math.MaxInt64 || int64(b.pmax)-int64(b.pmin) > maxRanges || b.pmax < b.pmin {
		return nil
	}
	out := make([]Range, 0, b.pmax-b.pmin+1)
	for p := int64(b.pmin); p <= int64(b.pmax); p++ {
		out = append(out, Range{int32(p), record.Offset(b.omin), record.Offset(b.omax) + 1})
	}
	return out
}

// key is the place of a row.
type key struct {
	partition int32
	offset    int64
}

func compareKey(a, b key) int {
	switch {
	case a.partition != b.partition && a.partition < b.partition, a.partition == b.partition && a.offset < b.offset:
		return -1
	case a == b:
		return 0
	}
	return 1
}
