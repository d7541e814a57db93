package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// indexed is a table whose files stand in the log alone.
type indexed struct {
	t    *testing.T
	tb   *Table
	rng  *rand.Rand
	next [3]int64
	live []string
}

func newIndexed(t *testing.T) *indexed {
	tb, err := Create(t.Context(), mem.New(), nil, Config{Topic: "t", Log: deltalog.Config{CheckpointInterval: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tb.Close() })
	return &indexed{t: t, tb: tb, rng: rand.New(rand.NewPCG(seedtest.New(t), 0))}
}

// commit adds n files, each with the next offsets of some partitions, said by a tag, by statistics, or (opaque) not at all.
func (x *indexed) commit(n int, opaque bool) {
	x.t.Helper()
	snap, err := x.tb.Log.Snapshot(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	c := deltalog.Commit{ReadVersion: snap.Version(), Operation: "WRITE"}
	for range n {
		a := deltalog.Add{Path: fmt.Sprintf("f%d", len(x.live)), PartitionValues: map[string]*string{}, Size: 1, DataChange: true}
		var ranges []Range
		for p := range int32(3) {
			if len(ranges) > 0 && x.rng.IntN(3) > 0 {
				continue
			}
			from := x.next[p] + x.rng.Int64N(3)
			x.next[p] = from + 1 + x.rng.Int64N(20)
			ranges = append(ranges, Range{p, record.Offset(from), record.Offset(x.next[p])})
		}
		if g := ranges[0]; len(ranges) == 1 && x.rng.IntN(2) == 0 {
			a.Stats = fmt.Sprintf(`{"numRecords":1,"minValues":{"_partition":%d,"_offset":%d},"maxValues":{"_partition":%d,"_offset":%d}}`, g.Partition, g.From, g.Partition, g.To-1)
		} else {
			text := "["
			for i, g := range ranges {
				text += fmt.Sprintf("%s[%d,%d,%d]", map[bool]string{true: ","}[i > 0], g.Partition, g.From, g.To)
			}
			text += "]"
			a.Tags = map[string]*string{RangesTag: &text}
		}
		if opaque {
			a.Stats, a.Tags = "", nil
		}
		c.Adds = append(c.Adds, a)
		x.live = append(x.live, a.Path)
	}
	for len(x.live) > n && x.rng.IntN(2) == 0 { // some files go
		i := x.rng.IntN(len(x.live) - n)
		if x.live[i] != "" {
			c.Removes = append(c.Removes, deltalog.Remove{Path: x.live[i], DataChange: true})
			x.live[i] = ""
		}
	}
	if _, err := x.tb.Log.Commit(x.t.Context(), c); err != nil {
		x.t.Fatal(err)
	}
}

func (x *indexed) ranges() []Range {
	var out []Range
	for p := range int32(3) {
		if x.rng.IntN(3) > 0 {
			from := x.rng.Int64N(x.next[p] + 5)
			out = append(out, Range{p, record.Offset(from), record.Offset(from + 1 + x.rng.Int64N(x.next[p]+1))})
		}
	}
	return out
}

func paths(files []FileRange) []string {
	out := []string{}
	for _, f := range files {
		out = append(out, f.Add.Path)
	}
	return out
}

// The index finds the files that a look at each of them finds, in old snapshots and new ones, whatever the order in
// which they are asked (I4).
func TestFileIndexFindsAll(t *testing.T) {
	x := newIndexed(t)
	var snaps []*deltalog.Snapshot
	for i := range 60 {
		x.commit(1+x.rng.IntN(40), i == 50)
		snap, err := x.tb.Log.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		snaps = append(snaps, snap)
		for range 5 {
			snap, ranges := snaps[x.rng.IntN(len(snaps))], normalize(x.ranges())
			want, err := x.tb.FilesFor(snap, ranges)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			if ranges != nil {
				for a := range candidates(x.tb.Names, snap, ranges) {
					got = append(got, a.Path)
				}
				if !slices.Equal(got, paths(want)) {
					t.Fatalf("version %d, ranges %v: the index finds %v, the files say %v", snap.Version(), ranges, got, paths(want))
				}
			}
		}
	}
}

// Head and rest are the ranges that were asked for, and head has rows in the first file of each partition only.
func TestHead(t *testing.T) {
	x := newIndexed(t)
	x.commit(headFiles-1, false)
	snap := func() *deltalog.Snapshot {
		s, err := x.tb.Log.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	all := []Range{{0, 5, record.Offset(x.next[0])}, {2, 0, record.Offset(x.next[2])}}
	if head, rest := x.tb.Head(snap(), all); !slices.Equal(head, all) || rest != nil {
		t.Errorf("a small table is split: %v, %v", head, rest)
	}
	x.commit(300, false)
	s := snap()
	for range 200 {
		ranges := normalize(x.ranges())
		if ranges == nil {
			continue
		}
		head, rest := x.tb.Head(s, ranges)
		if both := normalize(append(slices.Clone(head), rest...)); !slices.Equal(both, ranges) {
			t.Fatalf("%v is split into %v and %v", ranges, head, rest)
		}
		for _, h := range head {
			files, err := x.tb.FilesFor(s, []Range{h})
			if err != nil {
				t.Fatal(err)
			}
			if len(files) > 1 { // files of a partition follow each other, and the head ends with one
				t.Errorf("head %v of %v lies in %v", h, ranges, paths(files))
			}
		}
	}
	x.commit(1, true)
	if head, rest := x.tb.Head(snap(), all); !slices.Equal(head, all) || rest != nil {
		t.Errorf("split in spite of a file that can hold anything: %v, %v", head, rest)
	}
}
