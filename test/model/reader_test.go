package model

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
)

// filled is a world with n good records in partition 0, offset i holding {"n":i} at time 1000+i ms; the first
// tiered of them are in the table.
func filled(t *testing.T, n, tiered int) *world {
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	add := func(from, to int) {
		for at := from; at < to; at += 10 {
			b := record.NewBuilder(record.LZ4)
			for i := at; i < min(at+10, to); i++ {
				b.Append(int64(1000+i), []byte("k"), fmt.Appendf(nil, `{"n":%d}`, i), nil)
			}
			raw, err := b.Build(0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.log.Append(t.Context(), tp(0), raw); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(0, tiered)
	if tiered > 0 {
		w.tierWith(0)
	}
	add(tiered, n)
	return w
}

func tp(p int32) record.TopicPartition { return record.TopicPartition{Topic: topic, Partition: p} }

func (w *world) cut(to record.Offset) {
	if _, err := w.log.DeleteRecords(w.t.Context(), tp(0), to); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) config() reader.Config {
	return reader.Config{Table: w.table, Source: w.log, Topic: topic, Partitions: []int32{0}}
}

// offsets reads to the end and gives the offsets, checking column n against each.
func offsets(t *testing.T, c *reader.Cursor) []int64 {
	t.Helper()
	var out []int64
	for {
		rb, err := c.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		off := rb.Column(rb.Schema().FieldIndices("_offset")[0]).(*array.Int64)
		n := rb.Column(rb.Schema().FieldIndices("n")[0]).(*array.Int64)
		for i := range off.Len() {
			if off.Value(i) != n.Value(i) {
				t.Fatalf("offset %d holds n=%d", off.Value(i), n.Value(i))
			}
			out = append(out, off.Value(i))
		}
	}
}

func wantRun(t *testing.T, got []int64, from, to int64) {
	t.Helper()
	if int64(len(got)) != to-from {
		t.Fatalf("%d records, want offsets [%d, %d)", len(got), from, to)
	}
	for i, o := range got {
		if o != from+int64(i) {
			t.Fatalf("record %d has offset %d, want %d", i, o, from+int64(i))
		}
	}
}

func open(t *testing.T, cfg reader.Config) *reader.Cursor {
	t.Helper()
	c, err := reader.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Starts and ends by offset and by time, on both sides of the seam at 60 (I4).
func TestReaderBounds(t *testing.T) {
	w := filled(t, 100, 60)
	w.cut(60) // what is below the seam is in the table alone
	at := func(ms int64) reader.Bound { return reader.AtTime(time.UnixMilli(ms)) }
	off := func(o record.Offset) reader.Bound { return reader.AtOffsets(map[int32]record.Offset{0: o}) }
	for name, tc := range map[string]struct {
		from, until reader.Bound
		want        [2]int64
	}{
		"all":                   {reader.Earliest(), reader.Now(), [2]int64{0, 100}},
		"nothing":               {reader.Latest(), reader.Now(), [2]int64{100, 100}},
		"over the seam":         {off(55), off(65), [2]int64{55, 65}},
		"inside a batch":        {off(13), off(14), [2]int64{13, 14}},
		"time in the table":     {at(1042), reader.Now(), [2]int64{42, 100}},
		"time in the log":       {at(1077), reader.Now(), [2]int64{77, 100}},
		"time behind the end":   {at(9999), reader.Now(), [2]int64{100, 100}},
		"until a time":          {reader.Earliest(), at(1070), [2]int64{0, 70}},
		"at the seam":           {off(60), reader.Now(), [2]int64{60, 100}},
		"until beyond the end":  {off(90), off(5000), [2]int64{90, 100}},
		"until before the from": {off(50), off(40), [2]int64{50, 50}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := w.config()
			cfg.From, cfg.Until, cfg.BatchRows = tc.from, tc.until, 7
			wantRun(t, offsets(t, open(t, cfg)), tc.want[0], tc.want[1])
		})
	}
}

// What neither table nor log holds is an error that names it, or a report on request; never silence (I4).
func TestReaderMissing(t *testing.T) {
	w := filled(t, 100, 0)
	w.cut(40)
	cfg := w.config()
	cfg.From = reader.AtOffsets(map[int32]record.Offset{0: 30})
	_, err := open(t, cfg).Next(t.Context())
	var missing *reader.MissingError
	if !errors.As(err, &missing) || missing.From != 30 || missing.To != 40 {
		t.Fatalf("got %v, want offsets [30, 40) named as missing", err)
	}
	var gaps []reader.Gap
	cfg.SkipMissing, cfg.OnGap = true, func(g reader.Gap) { gaps = append(gaps, g) }
	wantRun(t, offsets(t, open(t, cfg)), 40, 100)
	if len(gaps) != 1 || gaps[0] != (reader.Gap{Partition: 0, From: 30, To: 40, Reason: reader.GapLost}) {
		t.Errorf("gaps %v, want [30, 40) as lost", gaps)
	}
	cfg.From = reader.AtOffsets(map[int32]record.Offset{0: 101})
	var out *broker.OutOfRangeError
	if _, err := reader.Open(t.Context(), cfg); !errors.As(err, &out) {
		t.Errorf("an offset behind the end gives %v, want out of range", err)
	}
}

// Tiering and retention overtake a running reader: it goes back to the table where it stands (I4, I6).
func TestReaderOvertaken(t *testing.T) {
	w := filled(t, 100, 20)
	cfg := w.config()
	cfg.BatchRows, cfg.MaxWait = 5, time.Millisecond
	c := open(t, cfg)
	var got []int64
	for len(got) < 25 { // it has crossed the seam at 20
		rb, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rb.Column(1).(*array.Int64).Int64Values()...)
	}
	w.tierWith(0)
	w.cut(100)
	got = append(got, offsets(t, c)...)
	wantRun(t, got, 0, 100)
}

// A following reader waits, and gets what comes later.
func TestReaderFollows(t *testing.T) {
	w := filled(t, 30, 30)
	cfg := w.config()
	cfg.Follow, cfg.From = true, reader.Latest()
	c := open(t, cfg)
	done := make(chan error, 1)
	go func() {
		b := record.NewBuilder(record.None)
		b.Append(5000, nil, []byte(`{"n":30}`), nil)
		raw, err := b.Build(0)
		if err == nil {
			_, err = w.log.Append(t.Context(), tp(0), raw)
		}
		done <- err
	}()
	rb, err := c.Next(t.Context())
	if err = errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	if o := rb.Column(1).(*array.Int64).Value(0); o != 30 || rb.NumRows() != 1 {
		t.Fatalf("%d rows from offset %d, want offset 30", rb.NumRows(), o)
	}
}

// Chosen columns come in the order asked for, with or without the coordinates.
func TestReaderColumns(t *testing.T) {
	w := filled(t, 100, 60)
	cfg := w.config()
	cfg.Columns = []string{"n", "_key"}
	c := open(t, cfg)
	var got []int64
	for {
		rb, err := c.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if rb.NumCols() != 2 || rb.ColumnName(0) != "n" || rb.ColumnName(1) != "_key" {
			t.Fatalf("columns %v", rb.Schema())
		}
		got = append(got, rb.Column(0).(*array.Int64).Int64Values()...)
	}
	wantRun(t, got, 0, 100)
	cfg.Columns = []string{"nope"}
	if _, err := reader.Open(t.Context(), cfg); err == nil {
		t.Error("a column that is not there was accepted")
	}
}

// Whole records come back with keys, times and values; null and empty stay apart.
func TestReaderRecords(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(2, 2)))
	b := record.NewBuilder(record.Zstd)
	h := []record.Header{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a"), Value: nil}, {Key: []byte(""), Value: []byte{}}}
	b.Append(1, nil, []byte(`{"n":1}`), h)
	b.Append(2, []byte{}, nil, nil)
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.log.Append(t.Context(), tp(0), raw); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		s := ""
		for r, err := range open(t, w.config()).Records(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			s += fmt.Sprintf("%d/%d@%d %q null=%v %q null=%v", r.Partition, r.Offset, r.Timestamp, r.Key, r.Key == nil, r.Value, r.Value == nil)
			for _, h := range r.Headers {
				s += fmt.Sprintf(" %q=%q null=%v", h.Key, h.Value, h.Value == nil)
			}
			s += "\n"
		}
		return s
	}
	fromLog := read()
	w.tierWith(0)
	w.cut(2)
	want := "0/0@1 \"\" null=true \"{\\\"n\\\":1}\" null=false \"a\"=\"1\" null=false \"a\"=\"\" null=true \"\"=\"\" null=false\n" +
		"0/1@2 \"\" null=false \"\" null=true\n"
	if fromLog != want {
		t.Errorf("from the log:\n%swant:\n%s", fromLog, want)
	}
	if fromLake := read(); fromLake != want {
		t.Errorf("from the table:\n%swant:\n%s", fromLake, want)
	}
}

func TestTokens(t *testing.T) {
	w := filled(t, 10, 0)
	c := open(t, w.config())
	if _, err := c.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.AtToken(c.Token(), "another"); !errors.Is(err, reader.ErrBadToken) {
		t.Errorf("a token of another topic gives %v", err)
	}
	for _, bad := range []string{"", "x", "!!", "eyJ2Ijo5fQ", c.Token() + "A"} {
		if _, err := reader.AtToken(bad, topic); !errors.Is(err, reader.ErrBadToken) {
			t.Errorf("token %q gives %v", bad, err)
		}
	}
}
