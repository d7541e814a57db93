package parquet

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// Every Julian day from the year -4800 to the last one has the day of the same name, walked by the calendar's own rules.
func TestJulianDaysByName(t *testing.T) {
	months := [12]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	y, m, d := -4799, 1, 1
	day := int64(-4799-1)*365 + floor(-4799-1, 4) - 719164 // 1 January of the year 1 is day -719164 there
	for ; day < gregorian; day++ {
		want := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC).Unix() / 86400
		if got := sameDay(day); got != want {
			t.Fatalf("day %d, which is %d-%d-%d: %d, want %d", day, y, m, d, got, want)
		}
		last := months[m-1]
		if m == 2 && y%4 == 0 {
			last++
		}
		if d++; d > last {
			d = 1
			if m++; m > 12 {
				y, m = y+1, 1
			}
		}
	}
	if y != 1582 || m != 10 || d != 5 || sameDay(gregorian) != gregorian {
		t.Errorf("the last Julian day is the one before %d-%d-%d", y, m, d)
	}
}

func TestZones(t *testing.T) {
	for name, want := range map[string]int64{"": 0, "UTC": 0, "Z": 0, "Etc/UTC": 0, "GMT": 0, "GMT0": 0, "GMT+05:30": 19800, "GMT-3": -10800, "Etc/GMT+5": -18000, "+05:30": 0, "-11:00": 0, "UTC+1": 0} {
		if got, ok := fixedZone(name); !ok || got != want {
			t.Errorf("%q: %d (%v), want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{"America/Los_Angeles", "Europe/Berlin", "CET", "+25:00", "GMT+1:2:3", "GMT+", "+-1", "GMTx"} {
		if got, ok := fixedZone(name); ok {
			t.Errorf("%q: %d", name, got)
		}
	}
}

// oldFile has dates, times and a list of dates, as numbers, with the footer keys given.
func oldFile(t *testing.T, dates []arrow.Date32, times []arrow.Timestamp, keys ...string) []byte {
	t.Helper()
	at := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	var k, v []string
	for i := 0; i < len(keys); i += 2 {
		k, v = append(k, keys[i]), append(v, keys[i+1])
	}
	meta := arrow.NewMetadata(k, v)
	s := arrow.NewSchema([]arrow.Field{{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true}, {Name: "at", Type: at, Nullable: true},
		{Name: "local", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Nullable: true}, {Name: "l", Type: arrow.ListOf(arrow.FixedWidthTypes.Date32), Nullable: true}}, &meta)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	for i := range dates {
		b.Field(0).(*array.Date32Builder).Append(dates[i])
		b.Field(1).(*array.TimestampBuilder).Append(times[i])
		b.Field(2).(*array.TimestampBuilder).Append(times[i])
		l := b.Field(3).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Date32Builder).Append(dates[i])
	}
	for i := range 4 {
		b.Field(i).AppendNull()
	}
	rb := b.NewRecordBatch()
	defer rb.Release()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(s, &out, arrowparquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rb), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Dates and times before 1582 of a file whose footer says so are moved to the day of the same name, in lists too; local
// times are not, nor nulls, nor what is later. A time before 1900 in a zone that had other clocks then is refused by name.
func TestOldCalendar(t *testing.T) {
	const day = int64(86400e6)
	dates := []arrow.Date32{-141428, -141427, -719164, 0}
	times := []arrow.Timestamp{arrow.Timestamp(-141428*day + 3), arrow.Timestamp(-141427 * day), arrow.Timestamp(-719164*day - 1), 5}
	moved := []int64{-141438, -141427, -719162, 0}
	for _, c := range []struct {
		keys  []string
		times []int64 // nil: as they are
		dates []int64
		err   string
	}{
		{keys: []string{sparkVersion, "4.0.0"}},
		{keys: nil},
		{keys: []string{sparkVersion, "3.0.1"}}, // the 12-byte form alone
		{keys: []string{sparkVersion, "2.4.5"}, dates: moved, times: []int64{-141438*day + 3, -141427 * day, -719162*day - 1, 5}},
		{keys: []string{sparkVersion, "4.2.0", sparkDays, ""}, dates: moved, times: []int64{-141438*day + 3, -141427 * day, -719162*day - 1, 5}},
		// An hour west the second one is of the day before.
		{keys: []string{sparkDays, "", sparkZone, "GMT-01:00"}, dates: moved, times: []int64{-141438*day + 3, -141437 * day, -719162*day - 1, 5}},
		{keys: []string{sparkDays, "", sparkZone, "Europe/Berlin"}, err: "Europe/Berlin"},
	} {
		b := oldFile(t, dates, times, c.keys...)
		fr, err := manifestOf(b)
		if err != nil {
			t.Fatal(err)
		}
		footer := fr.ParquetReader().MetaData()
		cal := CalendarOf(footer)
		g, err := OpenGroup(sourceOf(b), footer, fr.Manifest, 0, []int{0, 1, 2, 3}, ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cols, n, err := g.Next(10)
		if err != nil || n != len(dates)+1 {
			t.Fatal(n, err)
		}
		var failed error
		if cal != nil {
			for i := range cols {
				was := cols[i]
				d, err := cal.Of(was, &fr.Manifest.Fields[i], footer, memory.DefaultAllocator)
				if failed = errors.Join(failed, err); err == nil {
					cols[i] = d
					was.Release()
				}
			}
		}
		if c.err != "" {
			if failed == nil || !strings.Contains(failed.Error(), c.err) {
				t.Errorf("%v: %v, want a refusal that names %s", c.keys, failed, c.err)
			}
		} else if failed != nil {
			t.Errorf("%v: %v", c.keys, failed)
		} else {
			d, at, local := array.NewDate32Data(cols[0]), array.NewTimestampData(cols[1]), array.NewTimestampData(cols[2])
			l := array.NewListData(cols[3]).ListValues().(*array.Date32)
			for i := range dates {
				wantDay, wantTime := int64(dates[i]), int64(times[i])
				if c.dates != nil {
					wantDay, wantTime = c.dates[i], c.times[i]
				}
				if int64(d.Value(i)) != wantDay || int64(l.Value(i)) != wantDay || int64(at.Value(i)) != wantTime || local.Value(i) != times[i] {
					t.Errorf("%v, row %d: date %d (%d in a list), time %d, local %d; want %d, %d", c.keys, i, d.Value(i), l.Value(i), at.Value(i), local.Value(i), wantDay, wantTime)
				}
			}
			if !d.IsNull(len(dates)) || !at.IsNull(len(dates)) {
				t.Errorf("%v: the null row is not null", c.keys)
			}
		}
		releaseAll(cols)
		g.Release()
	}
}

// The ends of what numbers can hold are moved or refused, not wrapped around (I8).
func TestOldCalendarAtItsEnds(t *testing.T) {
	c := &Calendar{days: true}
	for _, per := range []int64{1, 1e3, 1e6, 1e9} {
		if v, err := c.time(math.MinInt64, per); err == nil && v > 0 {
			t.Errorf("1/%d s: %d", per, v)
		}
		if v, err := c.time(math.MaxInt64, per); err != nil || v != math.MaxInt64 {
			t.Errorf("1/%d s: %d, %v", per, v, err)
		}
	}
	b := arrow.Int32Traits.CastToBytes([]int32{math.MinInt32})
	if _, err := moveDay(b, 0); err != nil && !errors.Is(err, ErrDamaged) {
		t.Error(err)
	} else if v := arrow.Int32Traits.CastFromBytes(b)[0]; v > 0 {
		t.Errorf("day %d", v)
	}
}
