package table

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// vectorOf gives the bytes of a deletion vector of sorted rows, fewer than 4097 in a container.
func vectorOf(rows []int64) []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(nil, vectorMagic)
	out = le.AppendUint64(out, 1)
	out = le.AppendUint32(out, 0)
	var keys []uint16
	at := map[uint16][]uint16{}
	for _, r := range rows {
		k := uint16(r >> 16)
		if len(at[k]) == 0 {
			keys = append(keys, k)
		}
		at[k] = append(at[k], uint16(r))
	}
	out = le.AppendUint32(out, 12346)
	out = le.AppendUint32(out, uint32(len(keys)))
	for _, k := range keys {
		out = le.AppendUint16(le.AppendUint16(out, k), uint16(len(at[k])-1))
	}
	out = append(out, make([]byte, 4*len(keys))...)
	for _, k := range keys {
		for _, v := range at[k] {
			out = le.AppendUint16(out, v)
		}
	}
	return out
}

func encodeBase85(b []byte) string {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	var s strings.Builder
	for i := 0; i < len(b); i += 4 {
		v := binary.BigEndian.Uint32(b[i:])
		var group [5]byte
		for j := 4; j >= 0; j-- {
			group[j] = base85[v%85]
			v /= 85
		}
		s.Write(group[:])
	}
	return s.String()
}

// putVector stores a vector the way kind says and gives what the log says about it.
func putVector(t testing.TB, tb *Table, kind string, rows []int64) *deltalog.DeletionVector {
	t.Helper()
	data := vectorOf(rows)
	d := &deltalog.DeletionVector{StorageType: kind, SizeInBytes: int32(len(data)), Cardinality: int64(len(rows))}
	if kind == "i" {
		d.PathOrInlineDV = encodeBase85(slices.Clone(data))
		return d
	}
	id := uuid.New()
	key := "pre fix/deletion_vector_" + id.String() + ".bin"
	at := int32(1 + 7)
	raw := append(binary.BigEndian.AppendUint32([]byte{1, 0, 0, 0, 0, 0, 0, 0}, uint32(len(data))), data...)
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(data))
	if err := tb.Store.Put(t.Context(), key, raw); err != nil {
		t.Fatal(err)
	}
	d.Offset = &at
	d.PathOrInlineDV = "pre fix/" + encodeBase85(id[:])
	if kind == "p" {
		d.PathOrInlineDV = deltalog.EncodePath(strings.TrimSuffix(tb.Store.URL(), "/") + "/" + key)
	}
	return d
}

// edited gives the files of a snapshot with one of them changed.
func edited(snap *deltalog.Snapshot, path string, change func(*deltalog.Add)) []*deltalog.Add {
	var out []*deltalog.Add
	for f := range snap.Files() {
		a := *f
		if a.Path == path {
			change(&a)
		}
		out = append(out, &a)
	}
	return out
}

// Rows that a vector deletes are not given, all others are, whatever the kind of vector, with the file's tag and
// without it, whole and by ranges. I4
func TestDeletionVectors(t *testing.T) {
	rnd := newRand(t)
	for _, kind := range []string{"i", "u", "p"} {
		for _, density := range []float64{0.01, 0.5, 0.99, 1} {
			tb := newTestTable(t, Config{})
			var rows, want []row
			var deleted []int64
			for i := range int64(3000) {
				r := row{key{int32(i / 1500), i * 2}, "x"}
				rows = append(rows, r)
				if rnd.Float64() < density {
					deleted = append(deleted, i)
				} else {
					want = append(want, r)
				}
			}
			a := writeFile(t, tb, rows, WriterOptions{RowGroupRows: 700})
			snap := commit(t, tb, a)
			dv := putVector(t, tb, kind, deleted)
			for _, tagged := range []bool{true, false} {
				files := edited(snap, a.Path, func(f *deltalog.Add) {
					f.DeletionVector = dv
					if !tagged {
						f.Tags = nil
					}
				})
				got := scanRows(t, tb, snap, ScanOptions{Files: files, BatchRows: 97})
				if !slices.Equal(got, want) {
					t.Fatalf("%s %v: %d rows, want %d", kind, density, len(got), len(want))
				}
				got = scanRows(t, tb, snap, ScanOptions{Files: files, Ranges: []Range{{0, 1000, 2000}, {1, 4000, 4100}}})
				some := slices.DeleteFunc(slices.Clone(want), func(r row) bool {
					return !(r.partition == 0 && r.offset >= 1000 && r.offset < 2000 || r.partition == 1 && r.offset >= 4000 && r.offset < 4100)
				})
				if !slices.Equal(got, some) {
					t.Fatalf("%s %v: %d rows of the ranges, want %d", kind, density, len(got), len(some))
				}
			}
		}
	}
}

// An update writes a row anew and deletes the old one by a vector: the offset is in two files and one row. I4
func TestDeletionVectorOfUpdate(t *testing.T) {
	tb := newTestTable(t, Config{})
	a := writeFile(t, tb, []row{{key{0, 1}, "a"}, {key{0, 2}, "old"}, {key{0, 3}, "c"}}, WriterOptions{})
	b := writeFile(t, tb, []row{{key{0, 2}, "new"}}, WriterOptions{})
	snap := commit(t, tb, a, b)
	files := edited(snap, a.Path, func(f *deltalog.Add) { f.DeletionVector = putVector(t, tb, "i", []int64{1}) })
	got := scanRows(t, tb, snap, ScanOptions{Files: files})
	if want := []row{{key{0, 1}, "a"}, {key{0, 2}, "new"}, {key{0, 3}, "c"}}; !slices.Equal(got, want) {
		t.Fatal(got)
	}
}

// I4, I8: a vector that is not what the log says gives an error, never a row too many.
func TestDamagedDeletionVectors(t *testing.T) {
	tb := newTestTable(t, Config{})
	a := writeFile(t, tb, []row{{key{0, 1}, "a"}, {key{0, 2}, "b"}, {key{0, 3}, "c"}}, WriterOptions{})
	snap := commit(t, tb, a)
	file := func(change func(raw []byte)) *deltalog.DeletionVector {
		d := putVector(t, tb, "u", []int64{1})
		p, err := VectorPath(d)
		if err != nil {
			t.Fatal(err)
		}
		p, _ = deltalog.DecodePath(p)
		raw, err := tb.Store.Get(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		change(raw)
		if err := tb.Store.Put(t.Context(), p, raw); err != nil {
			t.Fatal(err)
		}
		return d
	}
	inline := func(change func(d *deltalog.DeletionVector)) *deltalog.DeletionVector {
		d := putVector(t, tb, "i", []int64{1})
		change(d)
		return d
	}
	beyond := int32(1 << 30)
	for name, d := range map[string]*deltalog.DeletionVector{
		"checksum":        file(func(raw []byte) { raw[len(raw)-1] ^= 1 }),
		"content":         file(func(raw []byte) { raw[len(raw)-5] ^= 1 }),
		"size":            file(func(raw []byte) { raw[11]++ }),
		"version":         file(func(raw []byte) { raw[0] = 2 }),
		"cut":             inline(func(d *deltalog.DeletionVector) { d.PathOrInlineDV = d.PathOrInlineDV[:10] }),
		"alphabet":        inline(func(d *deltalog.DeletionVector) { d.PathOrInlineDV = "~" + d.PathOrInlineDV[1:] }),
		"group":           inline(func(d *deltalog.DeletionVector) { d.PathOrInlineDV = "#####" + d.PathOrInlineDV[5:] }),
		"format":          inline(func(d *deltalog.DeletionVector) { d.PathOrInlineDV = "00000" + d.PathOrInlineDV[5:] }),
		"cardinality":     inline(func(d *deltalog.DeletionVector) { d.Cardinality++ }),
		"size in the log": inline(func(d *deltalog.DeletionVector) { d.SizeInBytes -= 4 }),
		"negative size":   inline(func(d *deltalog.DeletionVector) { d.SizeInBytes = -1 }),
		"huge size":       inline(func(d *deltalog.DeletionVector) { d.SizeInBytes = 1<<31 - 1 }),
		"row beyond":      putVector(t, tb, "i", []int64{3}),
		"storage type":    inline(func(d *deltalog.DeletionVector) { d.StorageType = "x" }),
		"no file":         {StorageType: "u", PathOrInlineDV: strings.Repeat("0", 20), SizeInBytes: 34, Cardinality: 1},
		"no uuid":         {StorageType: "u", PathOrInlineDV: "0", SizeInBytes: 34, Cardinality: 1},
		"out of table":    {StorageType: "u", PathOrInlineDV: "../../" + strings.Repeat("0", 20), SizeInBytes: 34, Cardinality: 1},
		"elsewhere":       {StorageType: "p", PathOrInlineDV: "/etc/x.bin", SizeInBytes: 34, Cardinality: 1},
		"offset beyond":   {StorageType: "u", PathOrInlineDV: putVector(t, tb, "u", []int64{1}).PathOrInlineDV, SizeInBytes: 34, Cardinality: 1, Offset: &beyond},
	} {
		files := edited(snap, a.Path, func(f *deltalog.Add) { f.DeletionVector = d })
		if found, err := tb.checkFile(t.Context(), files[0]); err != nil || len(found) != 1 || !strings.Contains(found[0].String(), a.Path) {
			t.Errorf("%s: check finds %v, error %v", name, found, err)
		}
		rows, err := tryScan(t.Context(), tb, snap, ScanOptions{Files: files})
		if err == nil || len(rows) > 0 || !strings.Contains(err.Error(), a.Path) {
			t.Errorf("%s: %d rows, error %v", name, len(rows), err)
		}
	}
	// A file that is not read may have any.
	b := writeFile(t, tb, []row{{key{0, 9}, "d"}}, WriterOptions{})
	snap = commit(t, tb, b)
	files := edited(snap, b.Path, func(f *deltalog.Add) { f.DeletionVector = &deltalog.DeletionVector{StorageType: "x"} })
	if _, err := tryScan(t.Context(), tb, snap, ScanOptions{Files: files, Ranges: []Range{{0, 5, 6}}}); err != nil {
		t.Fatal(err)
	}
}

// I8: no descriptor and no file of vectors makes the reader panic, or take more memory than there is input.
func FuzzVector(f *testing.F) {
	data := vectorOf([]int64{1, 5})
	raw := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(data))), data...)
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(data))
	f.Add("u", strings.Repeat("0", 20), int32(1), int32(len(data)), int64(2), raw)
	f.Add("i", encodeBase85(slices.Clone(data)), int32(0), int32(len(data)), int64(2), []byte{})
	f.Add("p", "mem://deletion_vector_00000000-0000-0000-0000-000000000000.bin", int32(1), int32(44), int64(2), raw)
	f.Fuzz(func(t *testing.T, kind, path string, off, size int32, card int64, file []byte) {
		store := mem.New()
		if err := store.Put(t.Context(), "deletion_vector_00000000-0000-0000-0000-000000000000.bin", file); err != nil {
			t.Fatal(err)
		}
		tb := &Table{Store: store}
		d := &deltalog.DeletionVector{StorageType: kind, PathOrInlineDV: path, Offset: &off, SizeInBytes: size, Cardinality: card}
		m, err := tb.deletedRows(t.Context(), d, 100)
		if err == nil && (m.Cardinality() != card || card > 100) {
			t.Fatalf("%d of 100 rows deleted, want %d", m.Cardinality(), card)
		}
	})
}

var vectorTables = []string{"delta-golden/dv-partitioned-with-checkpoint", "delta-kernel-java/basic-dv-with-checkpoint", "delta-rs/table-with-dv-small",
	"delta-rs/table_with_deletion_logs", "delta-spark/partitioned-table-with-dv-large", "delta-spark/table-with-dv-large",
	"delta-spark/table-with-dv-small", "delta-spark/table-with-dv-special-char", "kernel-rs-golden/cdf-table-with-dv",
	"kernel-rs-golden/compacted-log-files-table", "kernel-rs/table-with-dv-small", "kernel-rs/with-short-dv"}

// Tables with vectors that others wrote: as many rows as the log says are left, at every version.
func TestCorpusDeletionVectors(t *testing.T) {
	for _, name := range vectorTables {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			archive, table, _ := strings.Cut(name, "/")
			files := corpusArchive(t, archive)[table]
			store := mem.New()
			for path, b := range files {
				path = strings.Replace(strings.TrimPrefix(path, "delta/"), "test%dv%prefix-deletion_vector", "deletion_vector", 1) // a hook of Spark's tests
				if strings.HasSuffix(name, "special-char") {
					path = strings.Replace(path, "deletion_vector", "test%dv%prefix-deletion_vector", 1)
				}
				b = []byte(strings.ReplaceAll(string(b), "file:{{FOLDER_WITH_SPECIAL_CHAR}}", "mem://"+deltalog.EncodePath("folder&with%special char")))
				if err := store.Put(t.Context(), path, b); err != nil {
					t.Fatal(err)
				}
			}
			tb, err := Open(t.Context(), store, Config{})
			if err != nil {
				t.Fatal(err)
			}
			vectors := 0
			for v := deltalog.Version(0); v <= tb.current().Version(); v++ {
				snap, err := tb.Log.SnapshotAt(t.Context(), v)
				if errors.Is(err, deltalog.ErrVersionNotFound) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				want, known := int64(0), true
				for f := range snap.Files() {
					n, ok := f.NumRecords()
					known = known && ok
					if want += n; f.DeletionVector != nil {
						want -= f.DeletionVector.Cardinality
						vectors++
					}
				}
				got := int64(0)
				for rb, err := range tb.Scan(t.Context(), snap, ScanOptions{}) {
					if err != nil {
						t.Fatalf("version %d: %v", v, err)
					}
					got += rb.NumRows()
					rb.Release()
				}
				if known && got != want {
					t.Fatalf("version %d: %d rows, want %d", v, got, want)
				}
			}
			if vectors == 0 {
				t.Fatal("no deletion vector read")
			}
		})
	}
}

// A plan counts the rows that a scan gives.
func TestPlanCountsLiveRows(t *testing.T) {
	tb := newTestTable(t, Config{})
	a := writeFile(t, tb, []row{{key{0, 1}, "a"}, {key{0, 2}, "b"}, {key{0, 3}, "c"}}, WriterOptions{})
	snap := commit(t, tb, a)
	if _, err := tb.Log.Commit(t.Context(), mustAlter(t, snap)); err != nil {
		t.Fatal(err)
	}
	with := a
	with.DeletionVector = putVector(t, tb, "i", []int64{0, 2})
	snap, err := tb.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tb.Log.Commit(t.Context(), deltalog.Commit{ReadVersion: snap.Version(), Operation: "DELETE", Adds: []deltalog.Add{with},
		Removes: []deltalog.Remove{deltalog.RemoveOf(&a, 1, true)}}); err != nil {
		t.Fatal(err)
	}
	if snap, err = tb.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err := tb.Plan(snap, nil); err != nil || p.Rows != 1 || len(scanRows(t, tb, snap, ScanOptions{})) != 1 {
		t.Fatalf("%+v", p)
	}
}

func mustAlter(t *testing.T, snap *deltalog.Snapshot) deltalog.Commit {
	t.Helper()
	c, err := snap.Alter(deltalog.Change{Features: []string{"deletionVectors"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
