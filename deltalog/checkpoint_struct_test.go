package deltalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func structTable(t testing.TB, settings map[string]string, stats ...string) *Snapshot {
	t.Helper()
	column := func(name string, typ DataType) StructField { return StructField{Name: name, Type: typ, Nullable: true} }
	inner := &StructType{Fields: []StructField{column("x", Integer), column("y", &ArrayType{Element: Long, ContainsNull: true}), column("deep", &StructType{Fields: []StructField{column("z", String)}})}}
	s := &StructType{Fields: []StructField{column("b", Byte), column("s", Short), column("i", Integer), column("l", Long), column("f", Float), column("d", Double),
		column("small", Decimal{5, 2}), column("middle", Decimal{18, 0}), column("big", Decimal{38, 10}), column("text", String), column("yes", Boolean), column("raw", Binary),
		column("day", Date), column("at", Timestamp), column("local", TimestampNTZ), column("nest", inner), column("p", Date), column("q", Decimal{20, 5})}}
	l, err := Create(t.Context(), mem.New(), CreateOptions{Schema: s, PartitionColumns: []string{"p", "q"}, Configuration: settings}, Config{CheckpointInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var c Commit
	day, number := "1969-12-31", "-1.50000"
	for i, st := range stats {
		a := Add{Path: string(rune('a' + i)), Size: 1, Stats: st, PartitionValues: map[string]*string{"p": &day, "q": &number}}
		if i%2 == 1 {
			a.PartitionValues = map[string]*string{"p": nil, "q": nil}
		}
		c.Adds = append(c.Adds, a)
	}
	mustCommit(t, l, c)
	return mustSnapshot(t, l)
}

const allStats = `{"numRecords":3,"minValues":{"b":-128,"s":-1,"i":-2147483648,"l":-9223372036854775808,"f":-1.5,"d":1e-300,"small":-1.25,"middle":-999999999999999999,` +
	`"big":-1234567890123456789012345678.0123456789,"text":"","day":"0001-01-01","at":"1969-12-31T23:59:59.999Z","local":"2020-01-01T00:00:00.000","nest":{"x":1,"deep":{"z":"a"}}},` +
	`"maxValues":{"b":127,"s":1,"i":2147483647,"l":9223372036854775807,"f":1.5,"d":1e+300,"small":999.99,"middle":999999999999999999,` +
	`"big":1234567890123456789012345678.0123456789,"text":"\u00fc\"\\","day":"9999-12-31","at":"2020-01-01T00:00:00.001Z","local":"9999-12-31T23:59:59.999","nest":{"x":2,"deep":{"z":"b"}}},` +
	`"nullCount":{"b":0,"s":1,"i":2,"l":3,"f":0,"d":0,"small":0,"middle":0,"big":0,"text":0,"yes":1,"raw":2,"day":0,"at":0,"local":0,"nest":{"x":0,"y":3,"deep":{"z":1}}},"tightBounds":true}`

// structSettings ask for statistics of their own types, and no others.
func structSettings(more ...string) map[string]string {
	out := map[string]string{"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// Statistics that stand in a checkpoint by their types alone are the same when they are read.
func TestStructStatsSurvive(t *testing.T) {
	partial := `{"numRecords":5,"minValues":{"i":7},"nullCount":{"i":0}}`
	broken := `{"numRecords":5,"minValues":{"b":1000,"s":"x","f":"NaN","small":1.234,"day":"now","at":5,"text":7,"nest":3,"l":4},"nullCount":{"i":"many","l":1}}`
	snap := structTable(t, structSettings(), allStats, partial, "", "{broken", broken)
	got := reloaded(t, snap)
	for path, want := range map[string]string{"a": allStats, "b": partial, "c": "", "d": "", "e": `{"numRecords":5,"minValues":{"l":4},"nullCount":{"l":1}}`} {
		if !sameJSON(t, got[path], want) {
			t.Errorf("file %s: %s, want %s", path, got[path], want)
		}
	}
}

// reloaded reads a checkpoint of the snapshot and gives the statistics of its files.
func reloaded(t *testing.T, snap *Snapshot) map[string]string {
	t.Helper()
	b, n, err := encodeCheckpoint(snap, time.Now())
	if err != nil || n.adds != int64(snap.NumFiles()) {
		t.Fatal(n, err)
	}
	out := map[string]string{}
	err = parseParquet(&checkpointSource{size: int64(len(b)), window: b}, false, func(a *actions) error {
		for _, x := range a.adds {
			out[x.Path] = x.Stats
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	if a == "" || b == "" {
		return a == b
	}
	var x, y any
	for _, p := range []struct {
		text string
		to   *any
	}{{a, &x}, {b, &y}} {
		d := json.NewDecoder(strings.NewReader(p.text))
		d.UseNumber()
		if err := d.Decode(p.to); err != nil {
			t.Fatalf("%s: %v", p.text, err)
		}
	}
	return reflect.DeepEqual(x, y)
}

// The settings decide which columns a checkpoint has: of statistics, those that have statistics; no empty groups (faults
// 10, 11).
func TestStructColumns(t *testing.T) {
	for _, c := range []struct {
		name          string
		settings      map[string]string
		has, has2, no string
	}{
		{"nothing said", nil, "add.stats", "", "add.stats_parsed"},
		{"both", map[string]string{"delta.checkpoint.writeStatsAsStruct": "true"}, "add.stats", "add.partitionValues_parsed.q", ""},
		{"struct alone", structSettings(), "add.stats_parsed.maxValues.nest.deep.z", "add.stats_parsed.nullCount.nest.y", "add.stats"},
		{"neither", map[string]string{"delta.checkpoint.writeStatsAsJson": "false"}, "add.path", "", "add.stats"},
		{"few columns", structSettings("delta.dataSkippingNumIndexedCols", "2"), "add.stats_parsed.minValues.s", "", "add.stats_parsed.minValues.i"},
		{"no columns", structSettings("delta.dataSkippingNumIndexedCols", "0"), "add.stats_parsed.numRecords", "", "add.stats_parsed.minValues"},
		{"named columns", structSettings("delta.dataSkippingStatsColumns", "nest.deep, yes"), "add.stats_parsed.minValues.nest.deep.z", "add.stats_parsed.nullCount.yes", "add.stats_parsed.minValues.yes"},
	} {
		b, _, err := encodeCheckpoint(structTable(t, c.settings, allStats), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		f, err := file.NewParquetReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for i := range f.MetaData().Schema.NumColumns() {
			paths = append(paths, f.MetaData().Schema.Column(i).Path())
		}
		has := func(want string) bool {
			return slices.ContainsFunc(paths, func(p string) bool { return p == want || strings.HasPrefix(p, want+".") })
		}
		if !has(c.has) || c.has2 != "" && !has(c.has2) || c.no != "" && has(c.no) {
			t.Errorf("%s: %s", c.name, strings.Join(paths, " "))
		}
		_ = f.Close()
	}
}

// numRecords survives also where no column has statistics and nothing is partitioned.
func TestStructStatsOfNoColumns(t *testing.T) {
	l, err := Create(t.Context(), mem.New(), CreateOptions{Schema: testSchema(), Configuration: structSettings("delta.dataSkippingNumIndexedCols", "0")}, Config{CheckpointInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	x, y := add("a"), add("b")
	x.Stats, y.Stats = `{"numRecords":7}`, ""
	mustCommit(t, l, Commit{Adds: []Add{x, y}})
	if got := reloaded(t, mustSnapshot(t, l)); !sameJSON(t, got["a"], x.Stats) || got["b"] != "" {
		t.Errorf("statistics %q", got)
	}
}

// A partition value of another writer that is none of its type is null in partitionValues_parsed, and only there: the table
// goes on having checkpoints, which keep its text.
func TestStructPartitionValues(t *testing.T) {
	snap := structTable(t, structSettings())
	bad, day, number := "1.5", "1970-01-03", "-1.50000"
	var out bytes.Buffer
	_, err := encodePart(&out, classicColumns(), planStructs(snap.metadata, snap.schema), func(c *columnWriter) error {
		return errors.Join(c.add(&Add{Path: "x", PartitionValues: map[string]*string{"p": &bad, "q": &number}}),
			c.add(&Add{Path: "y", PartitionValues: map[string]*string{"p": &day, "q": &number}}))
	})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	err = parseParquet(&checkpointSource{size: int64(out.Len()), window: out.Bytes()}, false, func(a *actions) error {
		for _, x := range a.adds {
			texts = append(texts, *x.PartitionValues["p"]+" "+*x.PartitionValues["q"])
		}
		return nil
	})
	if want := []string{"1.5 -1.50000", "1970-01-03 -1.50000"}; err != nil || !slices.Equal(texts, want) {
		t.Errorf("partition values %q, %v", texts, err)
	}
	f, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := f.MetaData().Schema.ColumnIndexByName("add.partitionValues_parsed.p")
	col, err := f.RowGroup(0).Column(at)
	if err != nil {
		t.Fatal(err)
	}
	days, def := make([]int32, 2), make([]int16, 2)
	_, n, err := col.(*file.Int32ColumnChunkReader).ReadBatch(2, days, def, nil)
	if err != nil || n != 1 || days[0] != 2 || def[0] != 2 || def[1] != 3 {
		t.Errorf("parsed: %d values %v, levels %v, %v", n, days, def, err)
	}
}
