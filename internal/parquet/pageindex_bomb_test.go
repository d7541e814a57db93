package parquet

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
)

// taken is how much memory f takes, freed or not.
func taken(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// An index takes no memory for pages that its bytes, or the chunk, cannot have. I8
func TestPageIndexBombTakesNoMemory(t *testing.T) {
	const n = mostForeign - 16
	hollow := append([]byte{0x19, 0xfc}, binary.AppendUvarint(nil, n)...)
	hollow = append(hollow, make([]byte, n+1)...) // n structs without a field
	var whole thrift
	whole.list(1, thriftStruct, n/8)
	for range n / 8 {
		whole.elem()
		whole.i64(1, 4)
		whole.i32(2, 16)
		whole.i64(3, 0)
		whole.end()
	}
	whole.stop()
	for _, c := range []struct {
		name string
		b    []byte
		most int64
	}{{"pages of a byte each", hollow, 1 << 40}, {"more pages than a chunk can have", whole.b, 1000}} {
		if got := taken(func() {
			if p := parseOffsets(c.b, c.most); p != nil {
				t.Errorf("%s: %d pages", c.name, p.Len())
			}
		}); got > 1<<20 {
			t.Errorf("%s: %d bytes of index take %d of memory", c.name, len(c.b), got)
		}
	}
	if p := parseOffsets(whole.b, n); p == nil || p.Len() != n/8 {
		t.Fatal("the index that is whole is none")
	}
	if got := taken(func() { parseColumn(make([]byte, 100), 1<<20, 0) }); got > 1<<20 {
		t.Errorf("limits of pages that 100 bytes cannot have take %d of memory", got)
	}
}

// What is kept of a row group's pages is bounded, however many leaves name an index, and read once. I8
func TestPageIndexIsKeptWithinBounds(t *testing.T) {
	b := manyPages(t, 50_000)
	x, err := ReadIndex(bytes.NewReader(b), open(t, b).MetaData())
	if err != nil {
		t.Fatal(err)
	}
	p, err := x.Pages(0, 1)
	if err != nil || p == nil || p.Limits == nil {
		t.Fatalf("%v %v", p, err)
	}
	if again, err := x.Pages(0, 1); again != p || err != nil {
		t.Fatalf("the index is parsed again: %v", err)
	}
	if used := mostPages - x.room; used != int64(p.Len())*(placeBytes+limitBytes) {
		t.Fatalf("%d pages count as %d bytes", p.Len(), used)
	}
	for _, room := range []int64{0, int64(p.Len())*placeBytes - 1, int64(p.Len()) * placeBytes, int64(p.Len())*(placeBytes+limitBytes) - 1} {
		x.leaves, x.room = map[int]*Pages{}, room
		got, err := x.Pages(0, 1)
		if err != nil || (got != nil) != (room >= int64(p.Len())*placeBytes) || got != nil && (got.Limits != nil || !slices.Equal(got.at, p.at)) {
			t.Fatalf("room for %d bytes: %v %v", room, got, err)
		}
	}
}
