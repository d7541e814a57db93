package table

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// RangesTag is the tag of a file that holds the offsets of its rows, as [[partition, from, to], ...] with to
// exclusive, sorted. It also says that the rows are sorted: whoever rewrites a file drops its tags.
const RangesTag = "ledgerlake.ranges"

// maxRanges bounds the ranges that a file records. Beyond it the smallest gaps are filled: the ranges then cover
// the rows, which is all that choosing files needs.
const maxRanges = 128

// Range is a span of offsets of one partition: [From, To).
type Range struct {
	Partition int32
	From, To  record.Offset
}

// String gives the form that errors use.
func (r Range) String() string { return fmt.Sprintf("%d[%d,%d)", r.Partition, r.From, r.To) }

// rangeList collects the ranges of rows that come sorted.
type rangeList []Range

// add takes the row after all others.
func (l *rangeList) add(partition int32, offset int64) {
	o := record.Offset(offset)
	l.join(Range{partition, o, o + 1})
}

// join takes rows that come after all others.
func (l *rangeList) join(r Range) {
	if n := len(*l); n > 0 {
		last := &(*l)[n-1]
		if last.Partition == r.Partition && last.To == r.From {
			last.To = r.To
			return
		}
		if n >= 4*maxRanges {
			*l = l.narrow()
		}
	}
	*l = append(*l, r)
}

// narrow fills the smallest gaps until maxRanges are left, or one for each partition.
func (l rangeList) narrow() rangeList {
	if len(l) <= maxRanges {
		return l
	}
	var gaps []record.Offset
	for i := 1; i < len(l); i++ {
		if l[i].Partition == l[i-1].Partition {
			gaps = append(gaps, l[i].From-l[i-1].To)
		}
	}
	slices.Sort(gaps)
	fill := len(l) - maxRanges
	if fill > len(gaps) {
		fill = len(gaps)
	}
	if fill == 0 {
		return l
	}
	limit := gaps[fill-1]
	out := rangeList{l[0]}
	for _, r := range l[1:] {
		last := &out[len(out)-1]
		if r.Partition == last.Partition && r.From-last.To <= limit {
			last.To = r.To
			continue
		}
		out = append(out, r)
	}
	return out
}

func (l rangeList) tag() string {
	out := []byte{'['}
	for i, r := range l.narrow() {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "[%d,%d,%d]", r.Partition, r.From, r.To)
	}
	return string(append(out, ']'))
}

// rangesTag reads the tag of a file. A tag that makes no sense is as good as none.
func rangesTag(a *deltalog.Add) ([]Range, bool) {
	p := a.Tags[RangesTag]
	if p == nil {
		return nil, false
	}
	return parseRanges(*p)
}

func parseRanges(text string) ([]Range, bool) {
	var raw [][3]int64
	if json.Unmarshal([]byte(text), &raw) != nil {
		return nil, false
	}
	out := make([]Range, len(raw))
	for i, r := range raw {
		out[i] = Range{int32(r[0]), record.Offset(r[1]), record.Offset(r[2])}
		if int64(out[i].Partition) != r[0] || r[1] >= r[2] {
			return nil, false
		}
		if i > 0 && (out[i].Partition < out[i-1].Partition || out[i].Partition == out[i-1].Partition && out[i].From < out[i-1].To) {
			return nil, false
		}
	}
	return out, true
}

// AppID is the application under which the position of a partition is recorded.
func AppID(app string, partition int32) string { return fmt.Sprintf("%s-%d", app, partition) }

// LakeEnd gives the first offset of a partition that the table has not decided: the recorded one + 1. It is
// false when the application never recorded one.
func LakeEnd(snap *deltalog.Snapshot, app string, partition int32) (record.Offset, bool) {
	v, ok := snap.Txn(AppID(app, partition))
	if !ok {
		return 0, false
	}
	return record.Offset(min(max(v, -1), math.MaxInt64-1)) + 1, true // never overflows, whoever wrote it
}

// SplitAppID undoes AppID; false for an application id that no partition's position is recorded under.
func SplitAppID(id string) (app string, partition int32, ok bool) {
	i := strings.LastIndexByte(id, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(id[i+1:], 10, 32)
	if err != nil || n < 0 || AppID(id[:i], int32(n)) != id {
		return "", 0, false
	}
	return id[:i], int32(n), true
}

// Partitions gives the partitions that an application has recorded a position of, ascending.
func Partitions(snap *deltalog.Snapshot, app string) []int32 {
	var out []int32
	for id := range snap.Txns() {
		number, ok := strings.CutPrefix(id, app+"-")
		if !ok {
			continue
		}
		if n, err := strconv.ParseInt(number, 10, 32); err == nil && n >= 0 && AppID(app, int32(n)) == id {
			out = append(out, int32(n))
		}
	}
	slices.Sort(out)
	return out
}
