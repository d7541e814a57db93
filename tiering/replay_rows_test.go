package tiering_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// shapes are tables that are filled by more than the fields of the values.
func shapes() map[string]struct {
	columns []arrow.Field
	keys    []string
	spec    transform.Spec
} {
	n, s := nullable("n", arrow.PrimitiveTypes.Int64), nullable("s", arrow.BinaryTypes.String)
	pos, who := nullable("pos", arrow.PrimitiveTypes.Int64), nullable("who", arrow.BinaryTypes.String)
	day := nullable("day", arrow.FixedWidthTypes.Date32)
	type shape = struct {
		columns []arrow.Field
		keys    []string
		spec    transform.Spec
	}
	set := func(property, source string) transform.Field {
		return transform.Field{Property: property, Source: source}
	}
	return map[string]shape{
		"plain": {columns: []arrow.Field{n, s}},
		"transforms": {columns: []arrow.Field{n, s, pos, who},
			spec: transform.Spec{Set: []transform.Field{set("pos", "kafka.offset"), set("who", "user.name")}, Drop: []string{"s"}}},
		"renamed":        {columns: []arrow.Field{n, who}, spec: transform.Spec{Rename: map[string]string{"s": "who"}}},
		"filter":         {columns: []arrow.Field{n, s}, spec: transform.Spec{Where: "n < `40`"}},
		"partitioned":    {columns: []arrow.Field{n, s}, keys: []string{"s"}},
		"by place":       {columns: []arrow.Field{n, pos}, keys: []string{"pos"}, spec: transform.Spec{Set: []transform.Field{set("pos", "kafka.partition")}}},
		"by day of text": {columns: []arrow.Field{n, s, day}, keys: []string{"day", "s"}, spec: transform.Spec{Set: []transform.Field{set("day", "kafka.timestamp")}}},
		"not null":       {columns: []arrow.Field{n, {Name: "s", Type: arrow.BinaryTypes.String}}, keys: []string{"n"}},
	}
}

// Whatever fills a table, a replay of dead letters leaves it as tiering would have made it of the mended records: rows,
// letters, and the partition values of every row (I3, I4).
func TestReplayedRowsAreThoseOfTiering(t *testing.T) {
	broken := func(n int) string {
		s := []string{`"x"`, `"a b"`, `null`, `""`, `"\u0000"`}[n%5]
		return fmt.Sprintf(`{"n":"no. %d","s":%s,"user":{"name":"ann %d"}}`, n, s, n)
	}
	whole := func(value string) string {
		value = strings.Replace(value, `"no. `, "", 1)
		return strings.Replace(value, `","s"`, `,"s"`, 1)
	}
	change := func(_ context.Context, _ int32, rec *record.Record) (bool, error) {
		rec.Value = []byte(whole(string(rec.Value)))
		return false, nil
	}
	for name, c := range shapes() {
		t.Run(name, func(t *testing.T) {
			fill := func(mended bool) (*rig, int64) {
				r := newRig(t, 2)
				r.partitioned(c.keys, c.columns...)
				r.cfg.Transform = c.spec
				for n := range 80 {
					value := broken(n)
					if mended || n%4 == 0 {
						value = whole(value)
					}
					r.log.append(t, int32(n/3%2), record.None, []byte(value))
				}
				return r, r.mustRun().DeadLetters
			}
			want, stay := fill(true)
			got, letters := fill(false)
			dry, err := got.replay(t.Context(), tiering.ReplayConfig{Change: change, DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			report, err := got.replay(t.Context(), tiering.ReplayConfig{Change: change})
			if err != nil || report.Replayed == 0 || report.Replayed != dry.Replayed || report.Dropped != dry.Dropped || report.Refused != dry.Refused {
				t.Fatalf("%+v, %v; the dry run said %+v", report, err, dry)
			}
			if (report.Dropped > 0) != (c.spec.Where != "") {
				t.Errorf("%d letters are dropped with the filter %q", report.Dropped, c.spec.Where)
			}
			var columns []string
			for _, f := range c.columns {
				columns = append(columns, f.Name)
			}
			if a, b := whereRowsAre(t, want, columns), whereRowsAre(t, got, columns); !slices.Equal(a, b) {
				t.Errorf("after the replay the rows are\n%s\nwant\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
			}
			if left, _ := rows(t, got.dead); int64(len(left)) != stay || letters <= stay {
				t.Errorf("%d of %d letters stay, want %d", len(left), letters, stay)
			}
		})
	}
}

// whereRowsAre gives the rows in order, then the partition values that files have.
func whereRowsAre(t *testing.T, r *rig, columns []string) []string {
	t.Helper()
	out := scanned(t, r.store, append([]string{"_partition", "_offset"}, columns...)...)
	slices.Sort(out)
	var keys []string
	_, snap := rows(t, r.store)
	for add := range snap.Files() {
		var b bytes.Buffer
		for _, c := range snap.Metadata().PartitionColumns {
			if v := add.PartitionValues[c]; v == nil {
				fmt.Fprintf(&b, "%s is null ", c)
			} else {
				fmt.Fprintf(&b, "%s=%q ", c, *v)
			}
		}
		keys = append(keys, b.String())
	}
	slices.Sort(keys)
	return append(out, slices.Compact(keys)...)
}

// What a letter does not keep of its record cannot fill a column: such a table is refused by the name of the source, and
// nothing is written (I4).
func TestReplayRefusesWhatLettersDoNotKeep(t *testing.T) {
	for _, spec := range []transform.Spec{
		{Set: []transform.Field{{Property: "pos", Source: "kafka.leader_epoch"}}},
		{Where: "kafka.timestamp_type == `0` || n == `1`"},
	} {
		r := newRig(t, 1)
		r.partitioned(nil, append(payload().Fields(), nullable("pos", arrow.PrimitiveTypes.Int64))...)
		r.cfg.Transform = spec
		r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte(`{"n":"no. 2"}`))
		r.mustRun()
		_, before := rows(t, r.store)
		report, err := r.replay(t.Context(), tiering.ReplayConfig{Change: mend})
		if err == nil || !strings.Contains(err.Error(), "kafka.") || report.Replayed+report.Dropped > 0 {
			t.Errorf("%s: %+v, %v", spec, report, err)
		}
		_, after := rows(t, r.store)
		if letters, _ := rows(t, r.dead); len(letters) != 1 || after.Version() != before.Version() {
			t.Errorf("%s: %d letters, version %d and then %d", spec, len(letters), before.Version(), after.Version())
		}
	}
}
