package model

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
