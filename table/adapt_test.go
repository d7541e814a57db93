package table

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func fromJSON(t *testing.T, dt arrow.DataType, rows string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAdapt(t *testing.T) {
	p, f := arrow.PrimitiveTypes, arrow.FixedWidthTypes
	field := func(name string, dt arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: dt, Nullable: true}
	}
	micros := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	for _, c := range []struct {
		from arrow.DataType
		rows string
		to   arrow.DataType
		want string // "" is refused
	}{
		{p.Int8, `[1, null, -3]`, p.Int64, `[1, null, -3]`},
		{p.Int32, `[1, null, -3]`, p.Int64, `[1, null, -3]`},
		{p.Int32, `[7, null]`, p.Int8, `[7, null]`},
		{p.Int32, `[700]`, p.Int8, ``},
		{p.Int64, `[1]`, p.Int32, ``},
		{p.Int16, `[5]`, p.Float64, `[5]`},
		{p.Float32, `[0.5, null]`, p.Float64, `[0.5, null]`},
		{p.Float64, `[0.5]`, p.Float32, ``},
		{arrow.BinaryTypes.String, `["a"]`, p.Int32, ``},
		{&arrow.Decimal128Type{Precision: 5, Scale: 2}, `["1.25"]`, &arrow.Decimal128Type{Precision: 9, Scale: 2}, `["1.25"]`},
		{&arrow.Decimal128Type{Precision: 5, Scale: 2}, `["1.25"]`, &arrow.Decimal128Type{Precision: 9, Scale: 3}, `["1.250"]`},
		{&arrow.Decimal128Type{Precision: 5, Scale: 2}, `["125.25"]`, &arrow.Decimal128Type{Precision: 5, Scale: 3}, ``},
		{&arrow.Decimal128Type{Precision: 5, Scale: 2}, `["1.25"]`, &arrow.Decimal128Type{Precision: 9, Scale: 1}, ``},
		{p.Int8, `[-7, null]`, &arrow.Decimal128Type{Precision: 12, Scale: 2}, `["-7.00", null]`},
		{p.Int32, `[70000]`, &arrow.Decimal128Type{Precision: 10, Scale: 0}, `["70000"]`},
		{p.Int64, `[9223372036854775807, null]`, &arrow.Decimal128Type{Precision: 22, Scale: 2}, `["9223372036854775807.00", null]`},
		{p.Int64, `[9223372036854775807]`, &arrow.Decimal128Type{Precision: 20, Scale: 2}, ``},
		{f.Date32, `["1969-12-31", null, "2024-02-29"]`, &arrow.TimestampType{Unit: arrow.Microsecond},
			`["1969-12-31 00:00:00", null, "2024-02-29 00:00:00"]`},
		{f.Date32, `["1969-12-31"]`, micros, ``},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, `["2024-01-01 00:00:00.001", null]`, micros, `["2024-01-01 00:00:00.001Z", null]`},
		{&arrow.TimestampType{Unit: arrow.Nanosecond}, `["1969-12-31 23:59:59.999999999"]`, micros, `["1969-12-31 23:59:59.999999Z"]`},
		{arrow.StructOf(field("a", p.Int32), field("gone", p.Int32)), `[{"a": 1, "gone": 2}, null]`,
			arrow.StructOf(field("new", arrow.BinaryTypes.String), field("A", p.Int64)), `[{"new": null, "A": 1}, null]`},
		{arrow.ListOf(arrow.StructOf(field("a", p.Int32))), `[[{"a": 1}, null], null, []]`,
			arrow.ListOfField(field("element", arrow.StructOf(field("a", p.Int64), field("b", f.Boolean)))), `[[{"a": 1, "b": null}, null], null, []]`},
		{arrow.MapOf(arrow.BinaryTypes.String, p.Int32), `[[{"key": "x", "value": 1}], null]`,
			arrow.MapOf(arrow.BinaryTypes.String, p.Int64), `[[{"key": "x", "value": 1}], null]`},
	} {
		name := fmt.Sprintf("%s to %s", c.from, c.to)
		// Behind another row, so that offsets count.
		whole := fromJSON(t, c.from, strings.Replace(c.rows, "[", "[null, ", 1))
		for _, a := range []arrow.Array{fromJSON(t, c.from, c.rows), array.NewSlice(whole, 1, int64(whole.Len()))} {
			got, err := adapt(a, c.to, memory.DefaultAllocator)
			if c.want == "" {
				if err == nil {
					t.Errorf("%s: not refused, gives %v", name, got)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if want := fromJSON(t, c.to, c.want); !array.Equal(want, got) || !arrow.TypeEqual(got.DataType(), c.to) {
				t.Errorf("%s:\nwant %v\ngot  %v", name, want, got)
			}
		}
	}
}

func TestPartitionValues(t *testing.T) {
	p, f := arrow.PrimitiveTypes, arrow.FixedWidthTypes
	utc := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	for _, c := range []struct {
		dt    arrow.DataType
		value string
		want  string // as ValueStr gives it; "" is refused
	}{
		{p.Int32, "", "(null)"},
		{arrow.BinaryTypes.String, "", "(null)"},
		{arrow.BinaryTypes.String, hiveNull, "(null)"},
		{arrow.BinaryTypes.String, "US/East %", "US/East %"},
		{arrow.BinaryTypes.Binary, "abc", "YWJj"},
		{p.Int8, "-128", "-128"},
		{p.Int8, "128", ""},
		{p.Int64, "9223372036854775807", "9223372036854775807"},
		{p.Int32, "1.5", ""},
		{p.Float64, "1.0E7", "1e+07"},
		{p.Float64, "-Infinity", "-Inf"},
		{p.Float32, "NaN", "NaN"},
		{f.Boolean, "true", "true"},
		{f.Boolean, "maybe", ""},
		{f.Date32, "1969-12-31", "1969-12-31"},
		{&arrow.Decimal128Type{Precision: 19, Scale: 18}, "-1.230000000000000000", "-1.23"},
		{&arrow.Decimal128Type{Precision: 3, Scale: 0}, "12345", ""},
		{utc, "2024-06-15T19:30:45.000000Z", "2024-06-15T19:30:45Z"},
		{utc, "1969-12-31 23:59:59.5", "1969-12-31T23:59:59.5Z"},
		{utc, "2024-06-15 19:30:45+02:00", ""},
	} {
		a, err := partitionArray(c.dt, &c.value, 3)
		if c.want == "" {
			if err == nil {
				t.Errorf("%s %q: not refused, gives %v", c.dt, c.value, a)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %q: %v", c.dt, c.value, err)
		} else if got := a.ValueStr(2); got != c.want || a.Len() != 3 {
			t.Errorf("%s %q: %s, want %s", c.dt, c.value, got, c.want)
		}
	}
	if a, err := partitionArray(p.Int64, nil, 2); err != nil || a.NullN() != 2 {
		t.Errorf("no value: %v %v", a, err)
	}
}

func TestAbsolutePaths(t *testing.T) {
	store := mem.New()
	tb, err := Create(t.Context(), store, payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSuffix(store.URL(), "/")
	for path, want := range map[string]string{
		"a/b.parquet":               "a/b.parquet",
		"p=1%252F2/b%20c.parquet":   "p=1%2F2/b c.parquet",
		root + "/x.parquet":         "x.parquet",
		"/elsewhere/x.parquet":      "",
		"s3://other/x.parquet":      "",
		"file:/elsewhere/x.parquet": "",
	} {
		got, err := tb.objectKey(path, "data file")
		var unsupported *deltalog.UnsupportedError
		if got != want || want == "" && !errors.As(err, &unsupported) {
			t.Errorf("%s: %q %v, want %q", path, got, err, want)
		}
	}
}

// A file of another folder is read where the caller says how, by a table on a disk from disks alone.
func TestOutside(t *testing.T) {
	asked := map[string]int{}
	elsewhere := mem.New()
	local := &Table{Store: localStore{mem.New()}, cfg: Config{Outside: func(_ context.Context, folder string) (objstore.Store, error) {
		asked[folder]++
		return elsewhere, nil
	}}}
	for path, want := range map[string]string{"file:/other%20place/p=1/x.parquet": "x.parquet", "/other place/p=1/y%2520.parquet": "y%20.parquet", "file:///other place/p=1/z": "z", "a/b": "a/b", "/lake/table/c": "c"} {
		s, key, err := local.locate(t.Context(), path, "file")
		if key != want || err != nil || (s == objstore.Store(elsewhere)) != strings.Contains(path, "other") {
			t.Errorf("%s: %q %v", path, key, err)
		}
	}
	if len(asked) != 1 || asked["/other place/p=1"] != 1 {
		t.Errorf("asked for %v", asked)
	}
	var unsupported *deltalog.UnsupportedError
	for _, path := range []string{"s3://bucket/x", "mem://x"} {
		if _, _, err := local.locate(t.Context(), path, "file"); !errors.As(err, &unsupported) {
			t.Errorf("%s: %v", path, err)
		}
	}
	remote := &Table{Store: mem.New(), cfg: local.cfg}
	for _, path := range []string{"file:/etc/passwd", "/etc/passwd", "s3://bucket"} {
		if _, _, err := remote.locate(t.Context(), path, "file"); !errors.As(err, &unsupported) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if s, key, err := remote.locate(t.Context(), "s3a://bucket/a/x.parquet", "file"); s != objstore.Store(elsewhere) || key != "x.parquet" || asked["s3a://bucket/a"] != 1 || err != nil {
		t.Errorf("%q %v %v", key, asked, err)
	}
	local.cfg.Outside = nil
	if _, _, err := local.locate(t.Context(), "/other/x", "file"); !errors.As(err, &unsupported) {
		t.Error(err)
	}
}

// localStore is a store on a disk by its name.
type localStore struct{ objstore.Store }

func (localStore) URL() string { return "/lake/table" }

// I8: whatever a log says in tags and statistics, a file is at worst read in vain.
func FuzzBounds(f *testing.F) {
	f.Add("[[0,1,2],[1,0,9]]", `{"numRecords":1,"minValues":{"_partition":0,"_offset":3},"maxValues":{"_partition":0,"_offset":3}}`)
	f.Add("[[0,1]]", `{"minValues":[],"maxValues":{"_offset":"x","_partition":2147483647},"numRecords":-1}`)
	f.Add("[[4294967296,1,2]]", `{"minValues":{"_partition":5},"maxValues":{"_partition":-5,"_timestamp":"9999-12-31T23:59:59.999Z"}}`)
	n := DefaultNames()
	f.Fuzz(func(t *testing.T, tag, stats string) {
		a := &deltalog.Add{Stats: stats, Tags: map[string]*string{RangesTag: &tag}}
		b := boundsOf(n, a, true)
		for _, r := range b.list() {
			if r.From < r.To && !b.touches([]Range{r}) {
				t.Fatalf("bounds %v do not touch themselves", r)
			}
		}
		hullsOf(b.ranges)
		a.Tags = nil
		b = boundsOf(n, a, true)
		b.touches([]Range{{0, 0, 10}})
		if n := len(b.list()); n > maxRanges+1 {
			t.Fatalf("%d ranges", n)
		}
	})
}
