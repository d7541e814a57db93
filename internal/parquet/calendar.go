package parquet

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// Calendar is that of a file in which days before 15 October 1582 are counted by the Julian calendar, as Spark before 3.0 did
// and later ones do when asked (spark.sql.parquet.datetimeRebaseModeInWrite=LEGACY). A day there is the one that has the
// same year, month and day in the calendar of Parquet, which is Gregorian for all times. Spark reads such files so.
type Calendar struct {
	days    bool // of dates and of times of 8 bytes
	old     bool // of times of 12 bytes
	zone    string
	offset  int64 // of zone, in microseconds
	unknown bool  // zone has no offset that is the same at all times
}

// Keys of Spark's in a footer.
const (
	sparkVersion = "org.apache.spark.version"
	sparkDays    = "org.apache.spark.legacyDateTime"
	sparkOld     = "org.apache.spark.legacyINT96"
	sparkZone    = "org.apache.spark.timeZone"
)

// CalendarOf gives nil for a file whose times are as Parquet says. Times of a file that does not name its zone are taken as
// of UTC, as Spark does where it runs in UTC.
func CalendarOf(footer *metadata.FileMetaData) *Calendar {
	meta := map[string]string{}
	for _, kv := range footer.KeyValueMetadata() {
		if kv.Value != nil {
			meta[kv.Key] = *kv.Value
		}
	}
	_, days := meta[sparkDays]
	_, old := meta[sparkOld]
	if v, ok := meta[sparkVersion]; ok {
		days, old = days || v < "3.0.0", old || v < "3.1.0"
	}
	if !days && !old {
		return nil
	}
	c := &Calendar{days: days, old: old, zone: meta[sparkZone]}
	seconds, ok := fixedZone(c.zone)
	c.offset, c.unknown = seconds*1e6, !ok
	return c
}

// fixedZone gives the seconds that a zone is always ahead of UTC, as the old classes of Java understand its name, with which
// Spark moves times: to them a bare +02:00, or UTC+2, is no name that they know, and stands for UTC. Spark writes by it too.
func fixedZone(name string) (int64, bool) {
	sign := int64(1)
	offset, ok := strings.CutPrefix(name, "Etc/GMT")
	if ok {
		sign = -1 // those have it the other way round
	} else if offset, ok = strings.CutPrefix(name, "GMT"); !ok {
		switch name {
		case "", "Z", "UTC", "UT", "UCT", "Zulu", "Universal", "Greenwich", "Etc/UTC", "Etc/UCT", "Etc/Zulu", "Etc/Universal", "Etc/Greenwich":
			return 0, true
		}
		bare := strings.TrimPrefix(strings.TrimPrefix(name, "UT"), "C")
		_, ok := hours(bare)
		return 0, ok
	}
	if offset == "" || offset == "0" {
		return 0, true
	}
	seconds, ok := hours(offset)
	return sign * seconds, ok
}

// hours reads +2, -11:00 and the like, in seconds.
func hours(text string) (int64, bool) {
	if text == "" || text[0] != '+' && text[0] != '-' {
		return 0, false
	}
	seconds, unit := int64(0), int64(3600)
	for i, part := range strings.SplitN(text[1:], ":", 2) {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil || len(part) > 2 || n > []uint64{23, 59}[i] {
			return 0, false
		}
		seconds, unit = seconds+int64(n)*unit, unit/60
	}
	if text[0] == '-' {
		return -seconds, true
	}
	return seconds, true
}

// gregorian is 15 October 1582, in days since 1970: calendars are the same from here on. Offsets of zones are the same in
// all of Java from 1900 on, which is modern, in seconds.
const (
	gregorian = -141427
	modern    = -2208988800
)

// sameDay gives the day of the Gregorian calendar that has the name of a day of the Julian one. The 29 February of a year that
// is no leap year is the first of March.
func sameDay(day int64) int64 {
	if day >= gregorian {
		return day
	}
	n := day + 2440588 + 32082 // days since 1 March of the Julian year -4800
	y := floor(4*n+3, 1461)
	n -= floor(1461*y, 4)
	m := (5*n + 2) / 153 // 0 is March
	n -= (153*m + 2) / 5 // of the month, from 0
	y -= 4800
	// Years that begin in March again; 719468 days from 1 March of year 0 to 1970.
	return 365*y + floor(y, 4) - floor(y, 100) + floor(y, 400) + (153*m+2)/5 + n - 719468
}

// floor divides, down.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Day moves a date, in days since 1970.
func (c *Calendar) Day(day int64) int64 {
	if c == nil || !c.days {
		return day
	}
	return sameDay(day)
}

// Time moves a time in parts of a second. Those without a zone are never of the old calendar but in 12 bytes. ErrUnsupported
// where the file does not say what clocks its zone had.
func (c *Calendar) Time(v, perSecond int64, utc, bytes12 bool) (int64, error) {
	if c == nil || bytes12 && !c.old || !bytes12 && !(c.days && utc) {
		return v, nil
	}
	return c.time(v, perSecond)
}

// time moves a time of the old calendar.
func (c *Calendar) time(v, perSecond int64) (int64, error) {
	if seconds := floor(v, perSecond); c.unknown && seconds < modern {
		return 0, unsupported("a time before 1900 in a file of Spark's old calendar and zone %s, whose clocks were not those of today: write the file again with Spark", c.zone)
	} else if seconds > modern {
		return v, nil
	}
	perDay := 86400 * perSecond
	day := floor(v, perDay)
	rest := v - day*perDay + c.offset/1e6*perSecond
	day += floor(rest, perDay)
	moved := sameDay(day) - day
	if moved < 0 && v < math.MinInt64-moved*perDay || moved > 0 && v > math.MaxInt64-moved*perDay {
		return 0, damaged("a time of %d, in parts of 1/%d s, which no calendar has", v, perSecond)
	}
	return v + moved*perDay, nil
}

// Of gives the values of a field of the file, in d, by the Gregorian calendar. The field is that of the manifest, d of its
// reader or of the Arrow library's. The caller releases what it gets, and still d.
func (c *Calendar) Of(d arrow.ArrayData, sf *pqarrow.SchemaField, footer *metadata.FileMetaData, mem memory.Allocator) (arrow.ArrayData, error) {
	if !sf.IsLeaf() {
		return c.group(d, sf, footer, mem)
	}
	old := footer.Schema.Column(sf.ColIndex).PhysicalType() == arrowparquet.Types.Int96
	var move func(b []byte, i int) (bool, error)
	switch t := d.DataType().(type) {
	case *arrow.Date32Type:
		if c.days {
			move = moveDay
		}
	case *arrow.TimestampType:
		if old && c.old || !old && c.days && t.TimeZone != "" {
			per := int64(math.Pow10(3 * int(t.Unit)))
			move = func(b []byte, i int) (bool, error) {
				at := arrow.Int64Traits.CastFromBytes(b)
				v, err := c.time(at[i], per)
				if err != nil || v == at[i] {
					return false, err
				}
				at[i] = v
				return true, nil
			}
		}
	}
	if move == nil {
		d.Retain()
		return d, nil
	}
	return moveLeaf(d, move, mem)
}

func moveDay(b []byte, i int) (bool, error) {
	at := arrow.Int32Traits.CastFromBytes(b)
	v := sameDay(int64(at[i]))
	switch {
	case v == int64(at[i]):
		return false, nil
	case v < math.MinInt32:
		return false, damaged("a date of %d days, which no calendar has", at[i])
	}
	at[i] = int32(v)
	return true, nil
}

// moveLeaf moves values, of a copy: what comes from a reader may be memory that it still reads. Most files have none to move.
func moveLeaf(d arrow.ArrayData, move func([]byte, int) (bool, error), mem memory.Allocator) (arrow.ArrayData, error) {
	valid, values := d.Buffers()[0], d.Buffers()[1]
	if d.Len() == 0 || values == nil {
		d.Retain()
		return d, nil
	}
	width := d.DataType().(arrow.FixedWidthDataType).Bytes()
	copied := memory.NewResizableBuffer(mem)
	defer copied.Release()
	copied.Resize((d.Offset() + d.Len()) * width)
	copy(copied.Bytes(), values.Bytes())
	any := false
	for i := d.Offset(); i < d.Offset()+d.Len(); i++ {
		if valid != nil && valid.Len() > 0 && !bitutil.BitIsSet(valid.Bytes(), i) {
			continue
		}
		moved, err := move(copied.Bytes(), i)
		if err != nil {
			return nil, err
		}
		any = any || moved
	}
	if !any {
		d.Retain()
		return d, nil
	}
	return array.NewData(d.DataType(), d.Len(), []*memory.Buffer{valid, copied}, nil, d.NullN(), d.Offset()), nil
}

// group is Of for structs, lists and maps.
func (c *Calendar) group(d arrow.ArrayData, sf *pqarrow.SchemaField, footer *metadata.FileMetaData, mem memory.Allocator) (arrow.ArrayData, error) {
	if len(d.Children()) != len(sf.Children) {
		return nil, fmt.Errorf("column %q: %d fields, its manifest has %d", sf.Field.Name, len(d.Children()), len(sf.Children))
	}
	kids := make([]arrow.ArrayData, 0, len(sf.Children))
	defer func() { releaseAll(kids) }()
	for i, kid := range d.Children() {
		moved, err := c.Of(kid, &sf.Children[i], footer, mem)
		if err != nil {
			return nil, err
		}
		kids = append(kids, moved)
	}
	if slices.Equal(kids, d.Children()) {
		d.Retain()
		return d, nil
	}
	return array.NewData(d.DataType(), d.Len(), d.Buffers(), kids, d.NullN(), d.Offset()), nil
}
