package model

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// TestSeamOfPartitionedTable proves I4 where rows are made by transforms and filters and lie in the files of many
// partition values: what is read before the seam, from the table, and behind it, from the log, is one stream in the
// order of offsets with the same columns, whatever the seam is and whatever the store fails on the way.
func TestSeamOfPartitionedTable(t *testing.T) {
	const n, perBatch = 120, 8
	for tiered := 0; tiered <= n; tiered += 5 * perBatch {
		w := newWorld(t, rand.New(rand.NewPCG(uint64(tiered), 1)))
		w.store = mem.New()
		w.spec = transform.Spec{Where: "n != `13`", Set: []transform.Field{
			{Property: "who", Source: "kafka.key"}, {Property: "day", Source: "kafka.timestamp"}, {Property: "short", Source: "substr(join('', [to_string(n), 'x']), `0`, `2`)"}}}
		var err error
		w.table, err = table.Create(t.Context(), w.store, arrow.NewSchema([]arrow.Field{
			{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "who", Type: arrow.BinaryTypes.String, Nullable: true},
			{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true}, {Name: "short", Type: arrow.BinaryTypes.String, Nullable: true},
		}, nil), table.Config{Topic: topic, Log: quickLog(), PartitionColumns: []string{"who", "day"},
			Properties: map[string]string{transform.Property(topic): w.spec.String()}})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for at := 0; at < n; at += perBatch {
			b := record.NewBuilder(record.LZ4)
			for i := at; i < at+perBatch; i++ {
				b.Append(int64(i)*10_000_000, fmt.Appendf(nil, "k %d/", i%3), fmt.Appendf(nil, `{"n":%d}`, i), nil)
				if i != 13 {
					want = append(want, fmt.Sprintf("%d|%d|k %d/|1970-01-%02d|%.2s", i, i, i%3, 1+i*10_000/86400, fmt.Sprint(i)+"x"))
				}
			}
			raw, err := b.Build(0)
			if err == nil {
				_, err = w.log.Append(t.Context(), tp(0), raw)
			}
			if err != nil {
				t.Fatal(err)
			}
			if at+perBatch == tiered {
				w.tierWith(3)
				w.tierWith(0)
			}
		}
		var got, gaps []string
		cfg := w.config()
		cfg.OnGap = func(g reader.Gap) { gaps = append(gaps, fmt.Sprint(g.From, g.To)) }
		c := open(t, cfg)
		for {
			rb, err := c.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range int(rb.NumRows()) {
				var row []string
				for _, name := range []string{"_offset", "n", "who", "day", "short"} {
					row = append(row, rb.Column(rb.Schema().FieldIndices(name)[0]).ValueStr(i))
				}
				got = append(got, strings.Join(row, "|"))
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			w.fail("seam at %d: rows are\n%s\nwant\n%s", tiered, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if fmt.Sprint(gaps) != "[13 14]" {
			t.Errorf("seam at %d: gaps %v, want the record that the filter left out", tiered, gaps)
		}
	}
}

// sides reads one log twice, before it was tiered and behind, and gives the rows and gaps of each.
func sides(t *testing.T, columns []string, make func(w *world)) [2]string {
	t.Helper()
	var out [2]string
	for i := range out {
		w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
		w.store = mem.New()
		make(w)
		if i == 1 {
			w.tierWith(0)
		}
		var got []string
		cfg := w.config()
		cfg.OnGap = func(g reader.Gap) {
			for o := g.From; o < g.To; o++ {
				got = append(got, fmt.Sprint("gap ", o))
			}
		}
		c := open(t, cfg)
		for {
			rb, err := c.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range int(rb.NumRows()) {
				var row []string
				for _, name := range columns {
					row = append(row, fmt.Sprintf("%q", rb.Column(rb.Schema().FieldIndices(name)[0]).ValueStr(i)))
				}
				got = append(got, strings.Join(row, "|"))
			}
		}
		slices.Sort(got) // gaps of the table are told before its rows
		out[i] = strings.Join(got, "\n")
	}
	return out
}

// TestSeamOfPartitionValues: I4, what a partition column holds otherwise than a column of a file, or not at all, is the
// same row, or none, on both sides of the seam, for every type that has such values.
func TestSeamOfPartitionValues(t *testing.T) {
	text, bytes, day := arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.FixedWidthTypes.Date32
	at := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	for _, k := range []struct {
		typ      arrow.DataType
		required bool
		source   string
		values   []string
		gaps     int
	}{
		{text, false, "kafka.key", []string{"a", "", "a\x00b", "c", "\x00"}, 2},
		{text, true, "kafka.key", []string{"a", "", "a\x00b", "c", "\x00", ""}, 4},
		{text, false, "p", []string{`"x"`, `""`, `"\u0000"`, `null`, `"y"`}, 1},
		{text, true, "p", []string{`"x"`, `""`, `"\u0000"`, `null`, `"y"`}, 3},
		{bytes, false, "kafka.key", []string{"a", "", "\xff", "b", "b\x00"}, 2},
		{bytes, true, "kafka.key", []string{"", "\xff", "b", "", "b\x00", "c"}, 4},
		{day, false, "p", []string{`"2021-01-01"`, `null`, `-62135596800000001`, `253402300800000000`, `0`}, 2},
		{at, false, "p", []string{`"2021-01-01T00:00:00Z"`, `null`, `-62135596800000001`, `253402300800000000`, `0`}, 2},
	} {
		got := sides(t, []string{"_offset", "n", "part"}, func(w *world) {
			w.spec = transform.Spec{Set: []transform.Field{{Property: "part", Source: k.source}}}
			var err error
			w.table, err = table.Create(t.Context(), w.store, arrow.NewSchema([]arrow.Field{
				{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "part", Type: k.typ, Nullable: !k.required},
			}, nil), table.Config{Topic: topic, Log: quickLog(), PartitionColumns: []string{"part"},
				Properties: map[string]string{transform.Property(topic): w.spec.String()}})
			b := record.NewBuilder(record.None)
			for i, v := range k.values {
				key, value := []byte(v), fmt.Appendf(nil, `{"n":%d}`, i)
				if k.source == "p" {
					key, value = nil, fmt.Appendf(nil, `{"n":%d,"p":%s}`, i, v)
				}
				b.Append(int64(i)*1000, key, value, nil)
			}
			w.appendBatch(b, err)
		})
		if got[0] != got[1] || strings.Count(got[0], "gap") != k.gaps {
			t.Errorf("%s of %s, required %v, want %d gaps: from the log\n%s\nfrom the table\n%s", k.typ, k.source, k.required, k.gaps, got[0], got[1])
		}
	}
}

// TestNewSpecBeforeRecords: I4, a process that begins again with other transforms and an other filter says so in the table
// before it reads on, so that the log is read as the table will be.
func TestNewSpecBeforeRecords(t *testing.T) {
	got := sides(t, []string{"_offset", "n", "who"}, func(w *world) {
		w.spec = transform.Spec{Where: "n != `1`", Set: []transform.Field{{Property: "who", Source: "kafka.key"}}}
		var err error
		w.table, err = table.Create(t.Context(), w.store, arrow.NewSchema([]arrow.Field{
			{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "who", Type: arrow.BinaryTypes.String, Nullable: true},
		}, nil), table.Config{Topic: topic, Log: quickLog()})
		if err == nil {
			w.tierWith(0) // nothing to commit but the spec
		}
		b := record.NewBuilder(record.None)
		for i, key := range []string{"a", "b", "c"} {
			b.Append(int64(i)*1000, []byte(key), fmt.Appendf(nil, `{"n":%d}`, i), nil)
		}
		w.appendBatch(b, err)
	})
	if want := "\"0\"|\"0\"|\"a\"\n\"2\"|\"2\"|\"c\"\ngap 1"; got[0] != want || got[1] != want {
		t.Errorf("from the log\n%s\nfrom the table\n%s\nwant\n%s", got[0], got[1], want)
	}
}

// appendBatch puts a batch into the log of partition 0, unless err says that what came before it failed.
func (w *world) appendBatch(b *record.Builder, err error) {
	w.t.Helper()
	var raw []byte
	if err == nil {
		raw, err = b.Build(0)
	}
	if err == nil {
		_, err = w.log.Append(w.t.Context(), tp(0), raw)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
