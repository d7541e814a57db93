package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// oneBatch is a log of one partition that holds one batch of n records.
type oneBatch struct {
	n   int
	raw []byte
}

func newOneBatch(t *testing.T, n int) *oneBatch {
	t.Helper()
	b := record.NewBuilder(record.None)
	for i := range n {
		b.Append(1000, nil, fmt.Appendf(nil, "value %d", i), nil)
	}
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	return &oneBatch{n: n, raw: raw}
}

func (o *oneBatch) bounds() broker.Bounds {
	return broker.Bounds{Stable: record.Offset(o.n), End: record.Offset(o.n)}
}

func (o *oneBatch) Partitions(context.Context, string) ([]int32, error) { return []int32{0}, nil }

func (o *oneBatch) Bounds(context.Context, record.TopicPartition) (broker.Bounds, error) {
	return o.bounds(), nil
}

func (o *oneBatch) Fetch(_ context.Context, ranges []broker.FetchRange, _ broker.FetchOptions) ([]broker.Fetched, error) {
	return []broker.Fetched{{TP: ranges[0].TP, Bounds: o.bounds(), Batches: o.raw}}, nil
}

func (o *oneBatch) OffsetForTime(context.Context, record.TopicPartition, int64) (record.Offset, error) {
	return 0, broker.ErrUnsupported
}

func (o *oneBatch) Hold(context.Context, record.TopicPartition, record.Offset) error {
	return broker.ErrNoHold
}

func (o *oneBatch) Close() error { return nil }

// narrow is a decoder that is full after a number of rows, as the real one is after 2 GiB.
type narrow struct {
	decode.Decoder
	rows, limit int
}

func (d *narrow) Append(v []byte) error {
	if d.rows == d.limit {
		return decode.ErrFull
	}
	d.rows++
	return d.Decoder.Append(v)
}

func (d *narrow) Reset() {
	d.rows = 0
	d.Decoder.Reset()
}

// TestFullColumns proves I4 where a column cannot take one more record: the batch ends there, and the record is the
// first of the next one.
func TestFullColumns(t *testing.T) {
	const n, limit = 20, 7
	for name, narrower := range map[string]func(*logSide){
		"payload": func(l *logSide) { l.decoder = &narrow{Decoder: l.decoder, limit: limit} },
		"system":  func(l *logSide) { l.room = func() int { return (limit - l.system.Rows()) * len("value 10") } },
	} {
		c, err := Open(t.Context(), Config{Source: newOneBatch(t, n), Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		narrower(c.log)
		next := int64(0)
		for {
			rb, err := c.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if rb.NumRows() > limit {
				t.Errorf("%s: a batch of %d rows", name, rb.NumRows())
			}
			values := rb.Column(int(rb.NumCols()) - 1).(*array.Binary)
			for i, o := range rb.Column(1).(*array.Int64).Int64Values() {
				if want := fmt.Sprintf("value %d", next); o != next || string(values.Value(i)) != want {
					t.Errorf("%s: offset %d with %q, want %d with %q", name, o, values.Value(i), next, want)
				}
				next++
			}
		}
		if next != n || c.Position()[0] != n {
			t.Errorf("%s: %d rows, position %v", name, next, c.Position())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRecordLargerThanAColumn is an error that stays, not a hole (I4).
func TestRecordLargerThanAColumn(t *testing.T) {
	c, err := Open(t.Context(), Config{Source: newOneBatch(t, 5), Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.log.decoder = &narrow{Decoder: c.log.decoder}
	for range 2 {
		if _, err := c.Next(t.Context()); !errors.Is(err, decode.ErrFull) {
			t.Errorf("Next = %v", err)
		}
	}
	if c.Position()[0] != 0 {
		t.Errorf("position %v", c.Position())
	}
}

// away cannot decode its fourth value.
type away struct {
	decode.Decoder
	calls int
}

func (d *away) Append(v []byte) error {
	if d.calls++; d.calls > 3 {
		return &decode.UnavailableError{Err: errors.New("registry is down")}
	}
	return d.Decoder.Append(v)
}

// TestDecoderUnavailable proves I4 in an outage: the rows before the record come first, then an error; the cursor stands
// at the record, which is no gap.
func TestDecoderUnavailable(t *testing.T) {
	c, err := Open(t.Context(), Config{Source: newOneBatch(t, 6), Topic: "t", OnGap: func(g Gap) { t.Errorf("gap %+v", g) }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.log.decoder = &away{Decoder: c.log.decoder}
	rb, err := c.Next(t.Context())
	if err != nil || rb.NumRows() != 3 {
		t.Fatalf("Next = %v, %v; want 3 rows", rb, err)
	}
	var down *decode.UnavailableError
	if _, err := c.Next(t.Context()); !errors.As(err, &down) || c.Position()[0] != 3 {
		t.Errorf("Next = %v at %v, want an UnavailableError at 3", err, c.Position())
	}
}

// A struct with places of records and a field that must not be null, which records of the log do not have, is not made with
// nulls there: reading says so, unless the column is not asked for (I4).
func TestFieldRequiredBesideAPlace(t *testing.T) {
	for _, nullable := range []bool{true, false} {
		store := mem.New()
		field := func(name, typ string, nullable bool) string {
			return fmt.Sprintf(`{"name":%q,"type":%s,"nullable":%v,"metadata":{}}`, name, typ, nullable)
		}
		from := fmt.Sprintf(`{"type":"struct","fields":[%s,%s,%s]}`, field("partition", `"integer"`, false), field("offset", `"long"`, false), field("topic", `"string"`, nullable))
		schema := fmt.Sprintf(`{"type":"struct","fields":[%s,%s]}`, field("value", `"binary"`, true), field("kafka", from, false))
		log := fmt.Sprintf(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"m","format":{"provider":"parquet","options":{}},"schemaString":%q,"partitionColumns":[],"configuration":{}}}
`, schema)
		if err := store.Put(t.Context(), "_delta_log/00000000000000000000.json", []byte(log)); err != nil {
			t.Fatal(err)
		}
		tab, err := table.Open(t.Context(), store, table.Config{Names: table.Names{Partition: "kafka.partition", Offset: "kafka.offset", Value: "value"}})
		if err != nil {
			t.Fatal(err)
		}
		defer tab.Close()
		for _, columns := range [][]string{nil, {"kafka.offset", "value"}} {
			c, err := Open(t.Context(), Config{Table: tab, Source: newOneBatch(t, 3), Topic: "t", App: "t", Columns: columns})
			if columns == nil && !nullable {
				if err == nil {
					_ = c.Close()
				}
				if err == nil || !strings.Contains(err.Error(), "kafka.topic is NOT NULL") {
					t.Errorf("all columns: %v", err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("columns %v, nullable %v: %v", columns, nullable, err)
			}
			rb, err := c.Next(t.Context())
			if err != nil || rb.NumRows() != 3 {
				t.Errorf("columns %v, nullable %v: %v, %v", columns, nullable, rb, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
