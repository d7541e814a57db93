package reader

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// growing is a log of one partition. It is asked only when it has something.
type growing struct {
	oneBatch
	t *testing.T
}

func (g *growing) append(values ...string) {
	g.t.Helper()
	b := record.NewBuilder(record.None)
	for _, v := range values {
		b.Append(1000, nil, []byte(v), nil)
	}
	raw, err := b.Build(record.Offset(g.n))
	if err != nil {
		g.t.Fatal(err)
	}
	g.raw = append(slices.Clone(g.raw), raw...)
	g.n += len(values)
}

func (g *growing) Fetch(ctx context.Context, ranges []broker.FetchRange, o broker.FetchOptions) ([]broker.Fetched, error) {
	if ranges[0].From >= record.Offset(g.n) {
		return nil, errors.New("the log has no more: the test asks for too much")
	}
	return g.oneBatch.Fetch(ctx, ranges, o)
}

// widenTable gives the column n of the table the type long, as somebody else does.
func widenTable(t *testing.T, store *mem.Store) {
	t.Helper()
	log, err := deltalog.Open(t.Context(), store, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	schema := &deltalog.StructType{Fields: slices.Clone(snap.Schema().Fields)}
	for i := range schema.Fields {
		if schema.Fields[i].Name == "n" {
			schema.Fields[i].Type = deltalog.Long
		}
	}
	c, err := snap.Alter(deltalog.Change{Schema: schema, Set: map[string]string{"delta.enableTypeWidening": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// offsetsOf gives the offsets of the next rows.
func offsetsOf(t *testing.T, c *Cursor) []int64 {
	t.Helper()
	rb, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(rb.Column(rb.Schema().FieldIndices("_offset")[0]).(*array.Int64).Int64Values())
}

// TestFollowerAcrossWidening: I4, a follower from before a column got wider calls no value a gap that the table has as a
// row: it ends in front of it, and a read from its token goes on with the wide column. Values that do not fit while the
// column is what it was are gaps, as ever.
func TestFollowerAcrossWidening(t *testing.T) {
	for _, columns := range [][]string{{"_offset", "n"}, {"_offset"}} {
		store := mem.New()
		tab, err := table.Create(t.Context(), store, arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}, nil), table.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer tab.Close()
		log := &growing{t: t}
		var gaps []record.Offset
		cfg := Config{Table: tab, Source: log, Topic: "t", Follow: true, Columns: columns, OnGap: func(g Gap) { gaps = append(gaps, g.From) }}
		log.append(`{"n":1}`, `{"n":"words"}`, `{"n":2}`)
		c, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := offsetsOf(t, c); !slices.Equal(got, []int64{0, 2}) || !slices.Equal(gaps, []record.Offset{1}) {
			t.Fatalf("rows %v, gaps %v", got, gaps)
		}
		widenTable(t, store)
		log.append(`{"n":3}`, `{"n":4000000000}`, `{"n":"words"}`, `{"n":5}`)
		if got := offsetsOf(t, c); !slices.Equal(got, []int64{3}) {
			t.Fatalf("rows %v", got)
		}
		for range 2 { // the same error again
			_, err = c.Next(t.Context())
			var widened *WidenedError
			if !errors.As(err, &widened) || widened.Column != "n" || widened.From.ID() != arrow.INT32 || widened.To.ID() != arrow.INT64 {
				t.Fatalf("a value that the table has room for: %v", err)
			}
		}
		if len(gaps) != 1 || c.Position()[0] != 4 {
			t.Errorf("gaps %v, position %v", gaps, c.Position())
		}
		cfg.From, err = AtToken(c.Token(), "t")
		if err != nil {
			t.Fatal(err)
		}
		next, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		if got := offsetsOf(t, next); !slices.Equal(got, []int64{4, 6}) || !slices.Equal(gaps, []record.Offset{1, 5}) {
			t.Errorf("rows from the token on %v, gaps %v", got, gaps)
		}
	}
}

// TestReplanAcrossWidening: I4, a newer snapshot whose columns have other types than the batches given is not read from;
// one where other columns alone are wider is, unless a log is decoded too.
func TestReplanAcrossWidening(t *testing.T) {
	store := mem.New()
	tab, err := table.Create(t.Context(), store, arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}, nil), table.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	var cursors []*Cursor
	for _, columns := range [][]string{nil, {"_offset"}} {
		c, err := Open(t.Context(), Config{Table: tab, App: "t", Columns: columns})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		cursors = append(cursors, c)
	}
	widenTable(t, store)
	var widened *WidenedError
	if err := cursors[0].takeSnapshot(t.Context()); !errors.As(err, &widened) {
		t.Errorf("a column that is read: %v", err)
	}
	if err := cursors[1].takeSnapshot(t.Context()); err != nil {
		t.Errorf("a column that is not read: %v", err)
	}
}

// TestOtherType looks into structs and lists, and past columns that one side alone has.
func TestOtherType(t *testing.T) {
	field := func(name string, typ arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: typ, Nullable: true}
	}
	narrow, wide, text := field("i", arrow.PrimitiveTypes.Int32), field("i", arrow.PrimitiveTypes.Int64), field("s", arrow.BinaryTypes.String)
	for _, c := range []struct {
		was, is arrow.Field
		column  string
	}{
		{narrow, narrow, ""},
		{narrow, text, ""},
		{narrow, wide, "i"},
		{field("o", arrow.StructOf(narrow)), field("o", arrow.StructOf(text, narrow)), ""},
		{field("o", arrow.StructOf(narrow)), field("o", arrow.StructOf(text, wide)), "o.i"},
		{field("l", arrow.ListOfField(field("element", narrow.Type))), field("l", arrow.ListOfField(field("element", wide.Type))), "l.element"},
		{field("l", arrow.ListOfField(narrow)), field("l", arrow.StructOf(narrow)), "l"},
	} {
		got := ""
		if e := otherType("", []arrow.Field{c.was}, []arrow.Field{c.is}); e != nil {
			got = e.Column
		}
		if got != c.column {
			t.Errorf("%s, then %s: %q, want %q", c.was, c.is, got, c.column)
		}
	}
}
