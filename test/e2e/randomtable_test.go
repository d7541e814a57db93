package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/table"
)

// column is a column through all its names; rows hold values by its number.
type column struct {
	number    int
	name      string
	typ       deltalog.DataType
	partition bool
	nullable  bool
}

// tableVersion is what the table is to hold at one version. Columns and rows are never changed in place.
type tableVersion struct {
	columns []column
	rows    map[int64]map[int]any // id -> column -> plain value
}

// randomTable is a table that is changed at random by every means that we have, and a model of what it holds.
type randomTable struct {
	t     *testing.T
	rng   *rand.Rand
	path  string
	store *dir.Store
	tb    *table.Table
	tableVersion
	versions map[deltalog.Version]tableVersion
	ofFile   map[string][]int64 // rows of the files that nobody rewrote
	next     int64
	number   int
	settings map[string]string
	mapped   bool
	widening bool
	frozen   bool // appendOnly
	done     []string
}

func (r *randomTable) must(err error) {
	if err != nil {
		r.t.Helper()
		r.t.Fatalf("table %s after %s: %v", filepath.Base(r.path), strings.Join(r.done, ", "), err)
	}
}

// newRandomTable makes a table of random columns and settings.
func newRandomTable(t *testing.T, rng *rand.Rand, path string) *randomTable {
	t.Helper()
	r := &randomTable{t: t, rng: rng, path: path, versions: map[deltalog.Version]tableVersion{}, ofFile: map[string][]int64{}}
	r.rows = map[int64]map[int]any{}
	r.chooseSettings()
	r.addColumn("id", deltalog.Long, false)
	for range 1 + rng.IntN(8) {
		r.addColumn(r.freshName(), randomType(rng, 3), false)
	}
	if rng.IntN(2) == 0 {
		for range 1 + rng.IntN(2) {
			typ := deltalog.DataType(leafTypes[rng.IntN(len(leafTypes))])
			switch {
			case typ == deltalog.Binary: // texts of it are not read alike by others
				typ = deltalog.String
			case rng.IntN(8) == 0:
				typ = randomDecimal(rng)
			}
			r.addColumn(r.freshName(), typ, true)
		}
	}
	opts := deltalog.CreateOptions{Schema: r.schema(), Configuration: r.settings}
	for _, c := range r.columns {
		if c.partition {
			opts.PartitionColumns = append(opts.PartitionColumns, c.name)
		}
	}
	r.must(os.MkdirAll(path, 0o755))
	var err error
	r.store, err = dir.Open(dir.Config{Root: path, FS: vfs.OS()})
	r.must(err)
	log, err := deltalog.Create(t.Context(), r.store, opts, deltalog.Config{CheckpointInterval: -1})
	r.must(err)
	r.must(log.Close())
	r.open()
	r.keep()
	return r
}

func (r *randomTable) open() {
	var err error
	r.tb, err = table.Open(r.t.Context(), r.store, table.Config{Log: deltalog.Config{CheckpointInterval: []int{0, -1, 3}[r.rng.IntN(3)], Checksums: r.rng.IntN(2) == 0}})
	r.must(err)
}

func (r *randomTable) chooseSettings() {
	one := func(n int) bool { return r.rng.IntN(n) == 0 }
	s := map[string]string{}
	r.settings = s
	r.mapped, r.widening, r.frozen = one(3), one(5), one(8)
	if r.mapped {
		s["delta.columnMapping.mode"] = []string{"name", "id"}[r.rng.IntN(2)]
	}
	if r.widening {
		s["delta.enableTypeWidening"] = "true"
	}
	if r.frozen {
		s["delta.appendOnly"] = "true"
	}
	for _, kv := range [][2]string{{"delta.checkpointPolicy", "v2"}, {"delta.enableInCommitTimestamps", "true"}, {"delta.enableChangeDataFeed", "true"},
		{"delta.feature.domainMetadata", "supported"}, {"delta.feature.vacuumProtocolCheck", "supported"}, {"delta.enableDeletionVectors", "true"},
		{"delta.dataSkippingNumIndexedCols", fmt.Sprint(r.rng.IntN(4) - 1)}, {"delta.checkpoint.writeStatsAsStruct", "true"}, {"delta.checkpoint.writeStatsAsJson", "false"}} {
		if one(4) {
			s[kv[0]] = kv[1]
		}
	}
}

// freshName gives a name for a column: odd ones, and those that only column mapping allows.
func (r *randomTable) freshName() string {
	names := []string{"plain", "Mixed", "\u00fcn\u00ef", "dash-ed", "select", "per%20cent", "dotted.name", "q\"uote", "it's", "#", "a&b?c", "_under", "\u65e5\u672c"}
	if r.mapped {
		names = append(names, "two words", "a,b;c", "{x}", "e=f", "(tab\t)")
	}
	return fmt.Sprintf("%s%d", names[r.rng.IntN(len(names))], r.number)
}

func (r *randomTable) addColumn(name string, typ deltalog.DataType, partition bool) {
	nullable := name != "id" || r.rng.IntN(2) == 0
	r.columns = append(slices.Clone(r.columns), column{r.number, name, typ, partition, nullable})
	r.number++
}

func (r *randomTable) schema() *deltalog.StructType {
	s := &deltalog.StructType{}
	for _, c := range r.columns {
		s.Fields = append(s.Fields, deltalog.StructField{Name: c.name, Type: c.typ, Nullable: c.nullable})
	}
	return s
}

func (r *randomTable) snapshot() *deltalog.Snapshot {
	snap, err := r.tb.Refresh(r.t.Context())
	r.must(err)
	return snap
}

// keep notes what the newest version is to hold.
func (r *randomTable) keep() { r.versions[r.snapshot().Version()] = r.tableVersion }

func (r *randomTable) change(ids ...int64) {
	r.rows = maps.Clone(r.rows)
	for _, id := range ids {
		delete(r.rows, id)
	}
}

// steps are the changes of which some are made.
func (r *randomTable) step() {
	steps := []struct {
		name string
		run  func() bool // false: it is not possible here
	}{
		{"append", r.append}, {"append", r.append}, {"append", r.append}, {"remove", r.remove}, {"checkpoint", r.checkpoint}, {"optimize", r.optimize},
		{"restore", r.restore}, {"add column", r.grow}, {"widen", r.widen}, {"rename", r.rename}, {"drop column", r.dropColumn}, {"clean log", r.cleanLog},
		{"set", r.set}, {"domain", r.domain}, {"reopen", r.reopen},
	}
	for {
		s := steps[r.rng.IntN(len(steps))]
		r.done = append(r.done, s.name)
		if s.run() {
			r.keep()
			return
		}
		r.done = r.done[:len(r.done)-1]
	}
}

func (r *randomTable) commit(c deltalog.Commit) {
	_, err := r.tb.Log.Commit(r.t.Context(), c)
	r.must(err)
}

// append commits some files of random rows.
func (r *randomTable) append() bool {
	snap := r.snapshot()
	c := deltalog.Commit{ReadVersion: snap.Version(), Operation: "WRITE", BlindAppend: true}
	r.change()
	for range 1 + r.rng.IntN(3) {
		c.Adds = append(c.Adds, r.file(snap))
	}
	if r.rng.IntN(2) == 0 {
		c.Txns = []deltalog.Txn{{AppID: fmt.Sprintf("app \u00fc%d", r.rng.IntN(3)), Version: r.next}}
	}
	r.commit(c)
	return true
}

// file writes one data file, sometimes to a place with an odd name.
func (r *randomTable) file(snap *deltalog.Snapshot) deltalog.Add {
	values, plain := map[string]*string{}, map[int]any{}
	folder := ""
	for _, c := range r.columns {
		if !c.partition {
			continue
		}
		var v any
		if r.rng.IntN(4) > 0 {
			v, plain[c.number] = randomGo(r.rng, c.typ)
		}
		text, err := deltalog.FormatPartitionValue(c.typ, v)
		r.must(err)
		if text == nil {
			plain[c.number] = nil // the empty text is null
		}
		f, _ := snap.Schema().Field(c.name)
		name := c.name
		if r.mapped {
			name = f.PhysicalName()
		}
		values[name] = text
		folder = filepath.Join(folder, deltalog.PartitionFolder(c.name, c.typ, text))
	}
	w, err := r.tb.NewFileWriter(r.t.Context(), table.WriterOptions{Snapshot: snap, PartitionValues: values, RowGroupRows: int64(5 + r.rng.IntN(40))})
	r.must(err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, w.Schema())
	defer b.Release()
	var ids []int64
	for range 1 + r.rng.IntN(30) {
		row := maps.Clone(plain)
		for i, c := range r.fileColumns() {
			row[c.number] = randomValue(r.rng, c.typ, c.nullable && i > 0, b.Field(i))
		}
		ids = append(ids, r.next)
		row[0] = fmt.Sprint(r.next)
		r.rows[r.next] = row
		r.next++
	}
	rb := b.NewRecordBatch()
	defer rb.Release()
	rb = withIDs(rb, ids)
	defer rb.Release()
	r.must(w.Write(rb))
	add, err := w.Close(r.t.Context())
	r.must(err)
	if r.rng.IntN(2) == 0 && !strings.ContainsAny(folder, "\x00") {
		odd := []string{"", "sp ace", "per%20cent", "\u00fc#&?", "[brackets]{}", "plus+", "a=b"}[r.rng.IntN(7)]
		from, err := deltalog.DecodePath(add.Path)
		r.must(err)
		place := filepath.Join(folder, odd, filepath.Base(from))
		if len(folder) < 200 {
			r.must(os.MkdirAll(filepath.Join(r.path, filepath.Dir(place)), 0o755))
			r.must(os.Rename(filepath.Join(r.path, from), filepath.Join(r.path, place)))
			add.Path = deltalog.EncodePath(place)
		}
	}
	r.ofFile[add.Path] = ids
	return add
}

func (r *randomTable) fileColumns() []column {
	return slices.DeleteFunc(slices.Clone(r.columns), func(c column) bool { return c.partition })
}

// withIDs puts the ids into the first column.
func withIDs(rb arrow.RecordBatch, ids []int64) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(ids, nil)
	col := b.NewInt64Array()
	defer col.Release()
	out, err := rb.SetColumn(0, col)
	if err != nil {
		panic(err)
	}
	return out
}

// remove takes a file out whose rows are known.
func (r *randomTable) remove() bool {
	snap := r.snapshot()
	if r.frozen {
		return false
	}
	for a := range snap.Files() {
		ids, ok := r.ofFile[a.Path]
		if !ok || r.rng.IntN(2) == 0 {
			continue
		}
		now := time.Now().UnixMilli()
		r.commit(deltalog.Commit{ReadVersion: snap.Version(), Operation: "DELETE", Removes: []deltalog.Remove{
			{Path: a.Path, DeletionTimestamp: &now, DataChange: true, PartitionValues: a.PartitionValues, Size: &a.Size}}})
		r.change(ids...)
		return true
	}
	return false
}

func (r *randomTable) checkpoint() bool {
	r.must(r.tb.Log.Checkpoint(r.t.Context(), r.snapshot()))
	return true
}

func (r *randomTable) optimize() bool {
	_, err := maintenance.Optimize(r.t.Context(), r.tb, maintenance.OptimizeOptions{TargetSize: int64(2+r.rng.IntN(30)) << 10})
	r.must(err)
	return true
}

// restore goes back to a version that the log still has.
func (r *randomTable) restore() bool {
	snap := r.snapshot()
	versions := slices.Sorted(maps.Keys(r.versions))
	v := versions[r.rng.IntN(len(versions))]
	if r.frozen || v == snap.Version() {
		return false
	}
	if _, err := r.tb.Log.SnapshotAt(r.t.Context(), v); err != nil {
		return false // cleaned up
	}
	if _, err := maintenance.Restore(r.t.Context(), r.tb, maintenance.RestoreOptions{Version: v, HasVersion: true}); err != nil {
		r.must(err)
	}
	r.tableVersion = r.versions[v]
	return true
}

func (r *randomTable) alter(ch deltalog.Change) bool {
	c, err := r.snapshot().Alter(ch)
	r.must(err)
	r.commit(c)
	return true
}

func (r *randomTable) grow() bool {
	r.addColumn(r.freshName(), randomType(r.rng, 2), false)
	return r.alter(deltalog.Change{Schema: r.schema()})
}

// widen gives a column the next wider type.
func (r *randomTable) widen() bool {
	wider := map[deltalog.DataType]deltalog.DataType{deltalog.Byte: deltalog.Short, deltalog.Short: deltalog.Integer, deltalog.Integer: deltalog.Long, deltalog.Float: deltalog.Double}
	for i, c := range r.columns {
		to, ok := wider[c.typ]
		if !r.widening || !ok || c.partition || r.rng.IntN(2) == 0 {
			continue
		}
		r.columns = slices.Clone(r.columns)
		r.columns[i].typ = to
		if to == deltalog.Double {
			r.widenFloats(c.number)
		}
		return r.alter(deltalog.Change{Schema: r.schema()})
	}
	return false
}

func (r *randomTable) widenFloats(number int) {
	r.change()
	for id, row := range r.rows {
		if text, ok := row[number].(string); ok {
			f, err := strconv.ParseFloat(text, 32)
			r.must(err)
			row = maps.Clone(row)
			row[number] = floatText(f, 64)
			r.rows[id] = row
		}
	}
}

// rename gives a column another name: its field keeps its place in the mapping.
func (r *randomTable) rename() bool {
	if !r.mapped {
		return false
	}
	i := 1 + r.rng.IntN(len(r.columns)-1)
	if r.columns[i].partition {
		return false
	}
	s := *r.snapshot().Schema()
	s.Fields = slices.Clone(s.Fields)
	r.columns = slices.Clone(r.columns)
	r.columns[i].name += " renamed"
	s.Fields[i].Name = r.columns[i].name
	return r.alter(deltalog.Change{Schema: &s})
}

func (r *randomTable) dropColumn() bool {
	i := 1 + r.rng.IntN(len(r.columns)-1)
	if !r.mapped || r.columns[i].partition || len(r.fileColumns()) < 3 {
		return false
	}
	s := *r.snapshot().Schema()
	s.Fields = slices.Delete(slices.Clone(s.Fields), i, i+1)
	r.columns = slices.Delete(slices.Clone(r.columns), i, i+1)
	return r.alter(deltalog.Change{Schema: &s})
}

func (r *randomTable) cleanLog() bool {
	r.checkpoint()
	none := time.Duration(0)
	_, err := maintenance.CleanLog(r.t.Context(), r.tb, maintenance.CleanLogOptions{Retention: &none, Clock: func() time.Time { return time.Now().Add(48 * time.Hour) }})
	r.must(err)
	return true
}

func (r *randomTable) set() bool {
	return r.alter(deltalog.Change{Set: map[string]string{"my.setting": randomText(r.rng), "delta.dataSkippingNumIndexedCols": fmt.Sprint(r.rng.IntN(5) - 1)}})
}

func (r *randomTable) domain() bool {
	snap := r.snapshot()
	if p := snap.Protocol(); !slices.Contains(p.Features(), "domainMetadata") {
		return false
	}
	r.commit(deltalog.Commit{ReadVersion: snap.Version(), Operation: "DOMAIN", Domains: []deltalog.DomainMetadata{{Domain: "a.domain", Configuration: randomText(r.rng)}}})
	return true
}

func (r *randomTable) reopen() bool {
	r.must(r.tb.Close())
	r.open()
	return true
}
