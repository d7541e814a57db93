package table

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// ruled opens a table whose column n and settings are given as the log has them.
func ruled(t *testing.T, metadata, configuration string) *deltalog.Snapshot {
	t.Helper()
	store := mem.New()
	first := `{"protocol":{"minReaderVersion":1,"minWriterVersion":6}}` + "\n" +
		`{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"n\",\"type\":\"long\",\"nullable\":true,\"metadata\":{` +
		metadata + `}}]}","partitionColumns":[],"configuration":{` + configuration + `}}}` + "\n"
	if err := store.Put(t.Context(), "_delta_log/00000000000000000000.json", []byte(first)); err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Open(t.Context(), store, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// Rows for which a rule is false, null or without an answer are named, each with the rule.
func TestChecks(t *testing.T) {
	snap := ruled(t, `\"delta.invariants\":\"{\\\"expression\\\":{\\\"expression\\\":\\\"n < 100\\\"}}\"`, `"delta.constraints.odd":"n % 2 = 1","delta.constraints.small":"n + 9223372036854775800 > 0"`)
	columns := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	r := NewRules(snap, columns)
	if r.Empty() || r.Unkept() != nil || len(r.Needs()) != 1 {
		t.Fatalf("%+v", r)
	}
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues([]int64{1, 2, 3, 101, 9}, nil)
	b.AppendNull()
	col := b.NewArray()
	defer col.Release()
	bad := r.Broken([]arrow.Array{col}, 1, 6)
	want := map[int]string{1: "check constraint odd (n % 2 = 1) is not true", 3: "invariant of column n (n < 100) is not true", 4: "check constraint small", 5: "is not true"}
	if len(bad) != len(want) {
		t.Errorf("broken: %v", bad)
	}
	for row, why := range want {
		if !strings.Contains(bad[row], why) && row != 3 || bad[row] == "" {
			t.Errorf("row %d: %q, want %q", row, bad[row], why)
		}
	}
}

// What cannot be looked at is refused by its name, before a row is written.
func TestUnkept(t *testing.T) {
	columns := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	for _, c := range []struct{ metadata, configuration, want string }{
		{`\"delta.generationExpression\":\"rand()\"`, "", "generated column n (`n` <=> (rand()), which cannot be evaluated: the function or operator rand)"},
		{`\"delta.generationExpression\":\"CAST(n AS DOUBLE)\"`, "", "generated column n of another type"},
		{`\"delta.identity.start\":1`, "", "identity column n"},
		{`\"delta.invariants\":\"{}\"`, "", "invariant of column n"},
		{"", `"delta.constraints.c":"rand() > n"`, "check constraint c (rand() > n, which cannot be evaluated: the function or operator rand)"},
		{"", `"delta.constraints.c":"m > 1"`, "there is no column m"},
		{"", `"delta.constraints.c":"n"`, "not a condition"},
	} {
		err := NewRules(ruled(t, c.metadata, c.configuration), columns).Unkept()
		var unsupported *deltalog.UnsupportedError
		if !errors.As(err, &unsupported) || !unsupported.Write || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
