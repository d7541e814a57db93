package tiering_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

func nullable(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// partitioned makes the rig's table anew, with partition columns.
func (r *rig) partitioned(columns []string, fields ...arrow.Field) {
	r.t.Helper()
	r.store = mem.New()
	cfg := tableConfig()
	cfg.PartitionColumns = columns
	tab, err := table.Create(r.t.Context(), r.store, arrow.NewSchema(fields, nil), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := tab.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// scanned is the rows of a store's table in the order of a scan, which merges the files by position.
func scanned(t testing.TB, store *mem.Store, columns ...string) []string {
	t.Helper()
	tab, err := table.Open(t.Context(), store, tableConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	snap, err := tab.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rb, err := range tab.Scan(t.Context(), snap, table.ScanOptions{Columns: columns}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rb.NumRows()) {
			var row []string
			for _, c := range columns {
				row = append(row, rb.Column(rb.Schema().FieldIndices(c)[0]).ValueStr(i))
			}
			out = append(out, strings.Join(row, "|"))
		}
		rb.Release()
	}
	return out
}

// TestPartitionColumns proves I3 and I4 for tables with partition columns of every type: each record is one row, in a
// file of its values, and a scan gives the rows in the order of the log with the values from the log of the table.
func TestPartitionColumns(t *testing.T) {
	kinds := []struct {
		field             arrow.Field
		json, text, value string
	}{
		{nullable("p_s", arrow.BinaryTypes.String), `"a b/c=%\u00e4:"`, "a b/c=%\u00e4:", "a b/c=%\u00e4:"},
		{nullable("p_l", arrow.PrimitiveTypes.Int64), `-5`, "-5", "-5"},
		{nullable("p_i", arrow.PrimitiveTypes.Int32), `7`, "7", "7"},
		{nullable("p_sh", arrow.PrimitiveTypes.Int16), `8`, "8", "8"},
		{nullable("p_b", arrow.PrimitiveTypes.Int8), `-9`, "-9", "-9"},
		{nullable("p_f", arrow.PrimitiveTypes.Float32), `1.5`, "1.5", "1.5"},
		{nullable("p_d", arrow.PrimitiveTypes.Float64), `1e300`, "1e+300", "1.0E300"},
		{nullable("p_bo", arrow.FixedWidthTypes.Boolean), `true`, "true", "true"},
		{nullable("p_bi", arrow.BinaryTypes.Binary), `"YWI="`, "YWI=", "ab"},
		{nullable("p_da", arrow.FixedWidthTypes.Date32), `"2021-03-04"`, "2021-03-04", "2021-03-04"},
		{nullable("p_t", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}), `"2021-03-04T05:06:07.000089Z"`, "2021-03-04T05:06:07.000089Z", "2021-03-04T05:06:07.000089Z"},
		{nullable("p_de", &arrow.Decimal128Type{Precision: 10, Scale: 2}), `12.3`, "12.3", "12.30"},
	}
	for _, k := range kinds {
		t.Run(k.field.Name, func(t *testing.T) {
			r := newRig(t, 2)
			r.partitioned([]string{k.field.Name}, nullable("n", arrow.PrimitiveTypes.Int64), nullable("tags", arrow.ListOf(arrow.BinaryTypes.String)), k.field)
			var want []string
			for p := range int32(2) {
				var batch [][]byte
				for i := range 40 {
					v, text := k.json, k.text
					if i%3 == 1 {
						v, text = "null", "(null)"
					}
					batch = append(batch, fmt.Appendf(nil, `{"n":%d,"%s":%s,"tags":["x",null,"%d"]}`, i, k.field.Name, v, i))
					want = append(want, fmt.Sprintf(`%d|%d|%d|["x",null,"%d"]|%s`, p, i, i, i, text))
				}
				r.log.append(t, p, record.None, batch...)
			}
			if s := r.mustRun(); s.Rows != 80 || s.DeadLetters != 0 {
				t.Fatalf("stats %+v", s)
			}
			got := scanned(t, r.store, "_partition", "_offset", "n", "tags", k.field.Name)
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			_, snap := rows(t, r.store)
			files := 0
			for add := range snap.Files() {
				files++
				if v := add.PartitionValues[k.field.Name]; v != nil && *v != k.value {
					t.Errorf("the log has the value %q, want %q", *v, k.value)
				}
			}
			if files != 2 {
				t.Errorf("%d files, want one for the value and one for null", files)
			}
		})
	}
}

// TestManyPartitionsSmallMemory: 300 values at random in a budget that holds a fraction of the rows. Commits come early,
// and nothing is lost or there twice (I3).
func TestManyPartitionsSmallMemory(t *testing.T) {
	r := newRig(t, 3)
	r.partitioned([]string{"day", "c"}, nullable("c", arrow.PrimitiveTypes.Int64), nullable("day", arrow.FixedWidthTypes.Date32), nullable("text", arrow.BinaryTypes.String))
	r.cfg.MemoryBudget = 1 << 20
	r.cfg.Transform = transform.Spec{Set: []transform.Field{{Property: "day", Source: "kafka.timestamp"}}}
	rng := rand.New(rand.NewPCG(1, 2))
	total := 0
	for p := range int32(3) {
		for range 10 {
			var batch [][]byte
			for range 100 {
				batch = append(batch, fmt.Appendf(nil, `{"c":%d,"text":"%0400x"}`, rng.IntN(300), rng.Uint64()))
				total++
			}
			r.log.append(t, p, record.Snappy, batch...)
		}
	}
	s := r.mustRun()
	if s.Rows != int64(total) || s.DeadLetters != 0 || s.Commits < 2 {
		t.Errorf("stats %+v, want %d rows in several commits", s, total)
	}
	if n := len(scanned(t, r.store, "_partition", "_offset")); n != total {
		t.Errorf("%d rows in the table, want %d", n, total)
	}
}

// TestManyValues: I8, values of partition columns without an end, in batches that wait together, make many commits of a
// bounded number of files; each record is a row once (I3), also when the next commit is under way.
func TestManyValues(t *testing.T) {
	const perBatch = 100
	for _, c := range []struct{ workers, perPartition int }{{1, 500}, {3, 700}} { // more rows than a commit has files
		workers, perPartition := c.workers, c.perPartition
		r := newRig(t, 3)
		r.partitioned([]string{"s"}, payload().Fields()...)
		r.cfg.Workers = workers
		for p := range int32(3) {
			for at := 0; at < perPartition; at += perBatch {
				var batch [][]byte
				for i := range perBatch {
					batch = append(batch, fmt.Appendf(nil, `{"n":%d,"s":"%d of %d"}`, at+i, at+i, p))
				}
				r.log.append(t, p, record.None, batch...)
			}
		}
		s := r.mustRun()
		if s.Rows != int64(3*perPartition) || s.DeadLetters != 0 || s.Restarts != 0 {
			t.Errorf("%d workers: stats %+v", workers, s)
		}
		got := map[string]int{}
		for _, at := range scanned(t, r.store, "_partition", "_offset") {
			got[at]++
		}
		if len(got) != 3*perPartition {
			t.Errorf("%d workers: %d offsets in the table, want %d", workers, len(got), 3*perPartition)
		}
		if most := mostAdds(t, r.store); most > workers*(512+perBatch) {
			t.Errorf("%d workers: a commit of %d files", workers, most)
		}
	}
}

// mostAdds is the largest number of files that one version of a table adds.
func mostAdds(t *testing.T, store *mem.Store) int {
	t.Helper()
	most := 0
	for v := 0; ; v++ {
		b, err := store.Get(t.Context(), fmt.Sprintf("_delta_log/%020d.json", v))
		if errors.Is(err, objstore.ErrNotFound) {
			return most
		}
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, strings.Count(string(b), `{"add":{`))
	}
}

// TestBrokenRules: I7, a value that no partition can have and a null where none may be make a dead letter of the record
// alone, wherever in a batch it stands.
func TestBrokenRules(t *testing.T) {
	r := newRig(t, 1)
	r.partitioned([]string{"c"}, nullable("c", arrow.BinaryTypes.String), arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64})
	good := func(i int) []byte { return fmt.Appendf(nil, `{"n":%d,"c":"x%d"}`, i, i%3) }
	r.log.append(t, 0, record.None, []byte(`{"n":0,"c":"\u0000"}`), good(1), []byte(`{"c":"x"}`), good(3), []byte(`{"n":4,"c":"a\u0000b"}`))
	r.log.append(t, 0, record.None, good(5), []byte(`{"n":6,"c":"\u0000"}`))
	s := r.mustRun()
	if s.Rows != 3 || s.DeadLetters != 4 || s.Records != 7 {
		t.Errorf("stats %+v", s)
	}
	got := strings.Join(scanned(t, r.store, "_offset", "c"), " ")
	if got != "1|x1 3|x0 5|x2" {
		t.Errorf("rows %s", got)
	}
	dead := scanned(t, r.dead, "_offset", "_reason")
	if len(dead) != 4 || !strings.Contains(dead[0], "a zero byte cannot be in a partition value") {
		t.Errorf("dead letters %q", dead)
	}
}

// TestRequiredPartition: I7, in a partition column that may not be null an empty text, which is null there, makes a dead
// letter, so that no file has null in it.
func TestRequiredPartition(t *testing.T) {
	r := newRig(t, 1)
	r.partitioned([]string{"s"}, nullable("n", arrow.PrimitiveTypes.Int64), arrow.Field{Name: "s", Type: arrow.BinaryTypes.String})
	r.log.append(t, 0, record.None, []byte(`{"n":1,"s":""}`), []byte(`{"n":2,"s":"x"}`), []byte(`{"n":3,"s":null}`), []byte(`{"n":4}`), []byte(`{"n":5,"s":" "}`))
	if s := r.mustRun(); s.Rows != 2 || s.DeadLetters != 3 {
		t.Errorf("stats %+v", s)
	}
	if got := strings.Join(scanned(t, r.store, "n", "s"), ","); got != "2|x,5| " {
		t.Errorf("rows %s", got)
	}
	if dead := scanned(t, r.dead, "_offset", "_reason"); len(dead) != 3 || !strings.Contains(dead[0], "nor an empty text") {
		t.Errorf("dead letters %q", dead)
	}
}

// constrained gives the new table a check constraint, as Spark writes it.
func (r *rig) constrained(expression string) {
	const first = "_delta_log/00000000000000000000.json"
	b, err := r.store.Get(r.t.Context(), first)
	if err != nil {
		r.t.Fatal(err)
	}
	text := strings.NewReplacer(`"configuration":{`, fmt.Sprintf(`"configuration":{"delta.constraints.good":%q,`, expression), `"minWriterVersion":2`, `"minWriterVersion":3`).Replace(string(b))
	text = strings.Replace(text, `,}`, `}`, 1)
	if !strings.Contains(text, "constraints") || !strings.Contains(text, `"minWriterVersion":3`) {
		r.t.Fatalf("no constraint in %s", text)
	}
	if err := r.store.Put(r.t.Context(), first, []byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

// TestCheckConstraint: I7, rows for which a check constraint is false or null become dead letters, and no others.
func TestCheckConstraint(t *testing.T) {
	r := newRig(t, 1)
	r.partitioned([]string{"c"}, nullable("c", arrow.BinaryTypes.String), nullable("n", arrow.PrimitiveTypes.Int64))
	r.constrained("n > 2 AND (c LIKE 'x%' OR _offset = 3)")
	r.log.append(t, 0, record.None, []byte(`{"n":1,"c":"x"}`), []byte(`{"n":3,"c":"x"}`), []byte(`{"n":4,"c":"y"}`), []byte(`{"n":5,"c":"y"}`), []byte(`{"c":"x"}`), []byte(`{"n":9,"c":"xx"}`))
	if s := r.mustRun(); s.Rows != 3 || s.DeadLetters != 3 {
		t.Errorf("stats %+v", s)
	}
	if got := strings.Join(scanned(t, r.store, "_offset", "c"), " "); got != "1|x 3|y 5|xx" {
		t.Errorf("rows %s", got)
	}
	dead := scanned(t, r.dead, "_offset", "_reason")
	if len(dead) != 3 || !strings.Contains(dead[0], "check constraint good (n > 2 AND (c LIKE 'x%' OR _offset = 3)) is not true") {
		t.Errorf("dead letters %q", dead)
	}
}

// generated gives columns of the new table their expressions, as Spark writes them: name, expression...
func (r *rig) generated(of ...string) {
	const first = "_delta_log/00000000000000000000.json"
	b, err := r.store.Get(r.t.Context(), first)
	if err != nil {
		r.t.Fatal(err)
	}
	text := strings.Replace(string(b), `"minWriterVersion":2`, `"minWriterVersion":4`, 1)
	for i := 0; i < len(of); i += 2 {
		at := strings.Index(text, `\"name\":\"`+of[i]+`\"`)
		if at < 0 {
			r.t.Fatalf("no column %s in %s", of[i], text)
		}
		expression := strings.ReplaceAll(fmt.Sprintf("%q", of[i+1]), `"`, `\"`)
		text = text[:at] + strings.Replace(text[at:], `\"metadata\":{}`, `\"metadata\":{\"delta.generationExpression\":`+expression+`}`, 1)
	}
	if err := r.store.Put(r.t.Context(), first, []byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

// TestGeneratedColumns: columns that the table computes, a partition column among them, are computed for rows that come without
// them; a row that brings another value is a dead letter (I7).
func TestGeneratedColumns(t *testing.T) {
	r := newRig(t, 1)
	r.partitioned([]string{"day"}, nullable("n", arrow.PrimitiveTypes.Int64), nullable("at", arrow.FixedWidthTypes.Timestamp_us), nullable("day", arrow.FixedWidthTypes.Date32),
		nullable("y", arrow.PrimitiveTypes.Int32), nullable("twice", arrow.PrimitiveTypes.Int64))
	r.generated("day", "CAST(at AS DATE)", "y", "year(at)", "twice", "_offset + n")
	r.log.append(t, 0, record.None, []byte(`{"n":0,"at":"2020-01-01T10:00:00Z"}`), []byte(`{"n":1,"at":"2020-01-02T23:59:59Z","day":"2020-01-02"}`),
		[]byte(`{"n":2,"at":"2020-01-02T23:59:59Z","day":"1999-01-02"}`), []byte(`{"n":3}`))
	r.log.append(t, 0, record.None, []byte(`{"n":4,"day":"2020-01-02"}`), []byte(`{"n":9223372036854775807}`), []byte(`{"n":6,"at":"2020-01-01T00:00:00Z","y":2020}`))
	if s := r.mustRun(); s.Rows != 4 || s.DeadLetters != 3 {
		t.Errorf("stats %+v", s)
	}
	got := scanned(t, r.store, "_offset", "day", "y", "twice")
	if text := strings.Join(got, " "); text != "0|2020-01-01|2020|0 1|2020-01-02|2020|2 3|(null)|(null)|6 6|2020-01-01|2020|12" {
		t.Errorf("rows %s", text)
	}
	dead := scanned(t, r.dead, "_offset", "_reason")
	if len(dead) != 3 || !strings.Contains(dead[0], "2|generated column day (`day` <=> (CAST(at AS DATE))) is not true") || !strings.Contains(dead[2], "5|generated column twice") {
		t.Errorf("dead letters %q", dead)
	}
}

// TestGeneratedColumnRefused: an expression that cannot be evaluated, or is of another type, is named, and nothing is written.
func TestGeneratedColumnRefused(t *testing.T) {
	for expression, want := range map[string]string{"rand()": "the function or operator rand", "CAST(n AS STRING)": "generated column n2"} {
		r := newRig(t, 1)
		r.partitioned(nil, nullable("n", arrow.PrimitiveTypes.Int64), nullable("n2", arrow.PrimitiveTypes.Int64))
		r.generated("n2", expression)
		r.log.append(t, 0, record.None, []byte(`{"n":1}`))
		_, err := r.run(t.Context())
		var unsupported *deltalog.UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// TestCheckConstraintRefused: a constraint that cannot be evaluated is named, and nothing is written.
func TestCheckConstraintRefused(t *testing.T) {
	r := newRig(t, 1)
	r.partitioned(nil, nullable("n", arrow.PrimitiveTypes.Int64))
	r.constrained("n > rand()")
	r.log.append(t, 0, record.None, []byte(`{"n":1}`))
	_, err := r.run(t.Context())
	var unsupported *deltalog.UnsupportedError
	if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "check constraint good (n > rand(), which cannot be evaluated: the function or operator rand)") {
		t.Error(err)
	}
	if got := scanned(t, r.store, "n"); len(got) != 0 {
		t.Errorf("rows %q", got)
	}
}

// TestFilter: what the filter leaves out is a hole, counted, and the position goes over it (I3).
func TestFilter(t *testing.T) {
	r := newRig(t, 2)
	r.cfg.Transform = transform.Spec{Where: "kafka.partition == `1` && n != `3`"}
	r.fill(10, 4)
	s := r.mustRun()
	if s.Rows != 9 || s.Filtered != 11 || s.Records != 9 || s.LakeEnd[0] != 10 || s.LakeEnd[1] != 10 {
		t.Errorf("stats %+v", s)
	}
}
