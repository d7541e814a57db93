package maintenance

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

const (
	// binTargets is how many files of the target size one group makes at most: it bounds what a crash wastes.
	binTargets = 4
	// maxDepth bounds the files of a group that are open at the same time while they are merged.
	maxDepth = 32
	// vectorShare is the part of a file's rows that deletion vectors must have deleted to make a rewrite worth it.
	vectorShare = 0.05
)

// actions is what the files of a bin, or of the bins of one commit, make of that commit. It is bounded, so that a group of
// committers takes each: in its log a request has 4 MiB for the paths, in the store 64 MiB for the actions, and the group remembers
// 8,192 removed files, within which every other plan must stand.
type actions struct{ files, paths, stats int }

// A commit is made as soon as one of these is reached; a bin ends there too, so no commit has twice of any.
const (
	commitFiles = 2000
	commitPaths = 1 << 20 // bytes
	commitStats = 8 << 20 // bytes
)

func (a *actions) plus(b actions) {
	a.files, a.paths, a.stats = a.files+b.files, a.paths+b.paths, a.stats+b.stats
}

func (a actions) full(files int) bool {
	return a.files >= files || a.paths >= commitPaths || a.stats >= commitStats
}

func actionsOf(f *deltalog.Add) actions { return actions{1, len(f.Path), len(f.Stats)} }

// bin is a group of files that become new ones in one commit.
type bin struct {
	values  map[string]*string // of the partition columns
	files   []table.FileRange
	bytes   int64
	actions actions
	deleted int64 // rows, by deletion vectors
	vectors bool  // a file is due for its deletion vector
	depth   int
}

// plan groups the files that are due. Groups have files of one set of partition values, and where the table has
// offsets neighbours in their order, so that the new file's span overlaps with that of no other.
//
// Files with rows that have no offset, which others appended to a table of ours, are left alone: they have no place
// in a sorted file. foreign has the paths of those that are known, and gets those whose statistics say it.
func plan(t *table.Table, snap *deltalog.Snapshot, opts OptimizeOptions, foreign map[string]bool) ([]*bin, error) {
	var order []string
	byValues := map[string][]table.FileRange{}
	nulls := newNullCheck(t, snap)
	files, err := t.FilesFor(snap, nil)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if !f.Exact && !foreign[f.Add.Path] && nulls.has(f.Add) {
			foreign[f.Add.Path] = true
		}
		if foreign[f.Add.Path] {
			continue
		}
		k := valuesKey(f.Add.PartitionValues)
		if byValues[k] == nil {
			order = append(order, k)
		}
		byValues[k] = append(byValues[k], f)
	}
	var bins []*bin
	for _, k := range order {
		p := &packer{opts: opts, ordered: t.Names.Ordered()}
		files := byValues[k]
		if p.ordered {
			files = table.Arrange(files)
		}
		for _, f := range files {
			p.add(f)
		}
		p.close()
		bins = append(bins, p.bins...)
	}
	return bins, nil
}

func valuesKey(values map[string]*string) string {
	if len(values) == 0 {
		return ""
	}
	var s strings.Builder
	for _, k := range slices.Sorted(maps.Keys(values)) {
		s.WriteString(strconv.Quote(k))
		if v := values[k]; v != nil && *v != "" { // the empty value is null too
			s.WriteString(strconv.Quote(*v))
		}
		s.WriteByte(',')
	}
	return s.String()
}

// nullCheck looks at the statistics of the two columns that say where a row stands.
type nullCheck []string // as statistics call them

func newNullCheck(t *table.Table, snap *deltalog.Snapshot) nullCheck {
	if !t.Names.Ordered() {
		return nil
	}
	var n nullCheck
	for _, name := range []string{t.Names.Partition, t.Names.Offset} {
		if f, ok := snap.Schema().Field(name); ok && snap.Metadata().MappingMode() != "none" {
			name = f.PhysicalName()
		}
		n = append(n, name)
	}
	return n
}

func (n nullCheck) has(a *deltalog.Add) bool {
	if n == nil {
		return false
	}
	stats, _ := deltalog.ParseStats(a.Stats)
	return slices.ContainsFunc(n, func(name string) bool {
		var nulls int64
		raw, ok := stats.NullCount[name]
		return ok && json.Unmarshal(raw, &nulls) == nil && nulls > 0
	})
}

// packer puts the files of one set of partition values into bins.
type packer struct {
	opts    OptimizeOptions
	ordered bool
	open    bin
	bins    []*bin
}

func (p *packer) add(f table.FileRange) {
	vector := vectorDue(f)
	if f.Add.Size >= p.opts.TargetSize/2 && !vector {
		if p.ordered && slices.ContainsFunc(p.open.files, func(g table.FileRange) bool { return shares(f, g) }) {
			p.close()
		}
		return
	}
	depth := 1
	if p.ordered {
		for _, g := range p.open.files {
			if overlap(f, g) {
				depth++
			}
		}
	}
	if len(p.open.files) > 0 && (p.open.bytes+f.Add.Size > binTargets*p.opts.TargetSize || depth > maxDepth || p.open.actions.full(p.opts.commitFiles)) {
		p.close()
		depth = 1
	}
	b := &p.open
	b.values = f.Add.PartitionValues
	b.files = append(b.files, f)
	b.bytes += f.Add.Size
	b.actions.plus(actionsOf(f.Add))
	b.depth = max(b.depth, depth)
	if b.vectors = b.vectors || vector; f.Add.DeletionVector != nil {
		b.deleted += f.Add.DeletionVector.Cardinality
	}
}

// close ends the bin, and keeps it when it is worth a rewrite.
func (p *packer) close() {
	b := p.open
	p.open = bin{}
	if p.opts.Gradual {
		b.trim()
	}
	if b.vectors && len(b.files) > 0 || len(b.files) >= p.opts.MinFiles {
		p.bins = append(p.bins, &b)
	}
}

// trim leaves out older files that are larger than all after them together.
func (b *bin) trim() {
	for len(b.files) > 1 && !vectorDue(b.files[0]) && 2*b.files[0].Add.Size > b.bytes {
		f := b.files[0].Add
		gone := actionsOf(f)
		b.files, b.bytes = b.files[1:], b.bytes-f.Size
		b.actions.plus(actions{-gone.files, -gone.paths, -gone.stats})
		if f.DeletionVector != nil {
			b.deleted -= f.DeletionVector.Cardinality
		}
	}
}

// vectorDue says whether enough rows of a file are deleted.
func vectorDue(f table.FileRange) bool {
	dv := f.Add.DeletionVector
	return dv != nil && (f.Rows < 0 || float64(dv.Cardinality) > vectorShare*float64(f.Rows+dv.Cardinality))
}

// shares says whether two files can have rows of the same partition.
func shares(f, g table.FileRange) bool {
	if f.Ranges == nil || g.Ranges == nil {
		return true
	}
	for _, r := range f.Ranges {
		if slices.ContainsFunc(g.Ranges, func(s table.Range) bool { return r.Partition == s.Partition }) {
			return true
		}
	}
	return false
}

// overlap says whether two files are open at the same time when rows are merged by (partition, offset).
func overlap(f, g table.FileRange) bool {
	if len(f.Ranges) == 0 || len(g.Ranges) == 0 {
		return true
	}
	before := func(a, b table.FileRange) bool { // a ends before b begins
		last, first := a.Ranges[len(a.Ranges)-1], b.Ranges[0]
		return last.Partition < first.Partition || last.Partition == first.Partition && last.To <= first.From
	}
	return !before(f, g) && !before(g, f)
}
