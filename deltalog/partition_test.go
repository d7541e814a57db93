package deltalog

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// TestPartitionVectors are values as Spark and the Rust kernel write them, through all forms: folder, path in the
// log, and partitionValues. "same" is a path like the folder, and null a missing value.
func TestPartitionVectors(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse("2006-01-02 15:04:05.999999", s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	day := func(s string) time.Time { return at(s + " 00:00:00") }
	dec := func(s string) *big.Int {
		v, _ := new(big.Int).SetString(s, 10)
		return v
	}
	const null = "__HIVE_DEFAULT_PARTITION__"
	for i, c := range []struct {
		t                   DataType
		v                   any
		folder, path, value string
	}{
		{Integer, int32(0), "0", "same", "0"},
		{Integer, int32(-1), "-1", "same", "-1"},
		{Integer, int32(math.MaxInt32), "2147483647", "same", "2147483647"},
		{Integer, int32(math.MinInt32), "-2147483648", "same", "-2147483648"},
		{Integer, nil, null, "same", ""},
		{Long, int64(math.MaxInt64), "9223372036854775807", "same", "9223372036854775807"},
		{Long, int64(math.MinInt64), "-9223372036854775808", "same", "-9223372036854775808"},
		{Long, nil, null, "same", ""},
		{Byte, int8(127), "127", "same", "127"},
		{Byte, int8(-128), "-128", "same", "-128"},
		{Byte, nil, null, "same", ""},
		{Short, int16(32767), "32767", "same", "32767"},
		{Short, int16(-32768), "-32768", "same", "-32768"},
		{Short, nil, null, "same", ""},
		{Double, 0.0, "0.0", "same", "0.0"},
		{Double, math.Copysign(0, -1), "-0.0", "same", "-0.0"},
		{Double, math.MaxFloat64, "1.7976931348623157E308", "same", "1.7976931348623157E308"},
		{Double, math.SmallestNonzeroFloat64, "5.0E-324", "same", "5.0E-324"},
		{Double, math.NaN(), "NaN", "same", "NaN"},
		{Double, math.Inf(1), "Infinity", "same", "Infinity"},
		{Double, math.Inf(-1), "-Infinity", "same", "-Infinity"},
		{Double, nil, null, "same", ""},
		{Float, float32(0), "0.0", "same", "0.0"},
		{Float, float32(math.NaN()), "NaN", "same", "NaN"},
		{Float, float32(math.Inf(1)), "Infinity", "same", "Infinity"},
		{Float, float32(math.Inf(-1)), "-Infinity", "same", "-Infinity"},
		{Float, nil, null, "same", ""},
		{Boolean, true, "true", "same", "true"},
		{Boolean, false, "false", "same", "false"},
		{Boolean, nil, null, "same", ""},
		{Decimal{38, 18}, dec("0"), "0.000000000000000000", "same", "0.000000000000000000"},
		{Decimal{38, 18}, dec("1230000000000000000"), "1.230000000000000000", "same", "1.230000000000000000"},
		{Decimal{38, 18}, dec("-1230000000000000000"), "-1.230000000000000000", "same", "-1.230000000000000000"},
		{Decimal{38, 18}, nil, null, "same", ""},
		{Date, day("2024-01-01"), "2024-01-01", "same", "2024-01-01"},
		{Date, day("1970-01-01"), "1970-01-01", "same", "1970-01-01"},
		{Date, day("0001-01-01"), "0001-01-01", "same", "0001-01-01"},
		{Date, day("9999-12-31"), "9999-12-31", "same", "9999-12-31"},
		{Date, nil, null, "same", ""},
		{Timestamp, at("2024-06-15 19:30:45"), "2024-06-15 19%3A30%3A45", "2024-06-15%2019%253A30%253A45", "2024-06-15T19:30:45.000000Z"},
		{Timestamp, at("1970-01-01 08:00:00"), "1970-01-01 08%3A00%3A00", "1970-01-01%2008%253A00%253A00", "1970-01-01T08:00:00.000000Z"},
		{Timestamp, at("2024-06-16 06:59:59.999999"), "2024-06-16 06%3A59%3A59.999999", "2024-06-16%2006%253A59%253A59.999999", "2024-06-16T06:59:59.999999Z"},
		{Timestamp, nil, null, "same", ""},
		{TimestampNTZ, at("2024-06-15 12:30:45"), "2024-06-15 12%3A30%3A45", "2024-06-15%2012%253A30%253A45", "2024-06-15 12:30:45.000000"},
		{TimestampNTZ, at("1970-01-01 00:00:00"), "1970-01-01 00%3A00%3A00", "1970-01-01%2000%253A00%253A00", "1970-01-01 00:00:00.000000"},
		{TimestampNTZ, nil, null, "same", ""},
		{String, "\x00", "refused", "", ""},
		{String, "before\x00after", "refused", "", ""},
		{Binary, []byte{}, null, "same", ""},
		{Binary, []byte{0xDE, 0xAD, 0xBE, 0xEF}, "refused", "", ""}, // Spark writes JSON that nobody can read
		{Binary, []byte("HELLO"), "HELLO", "same", "HELLO"},
		{Binary, []byte{0, 0xFF}, "refused", "", ""},
		{Binary, []byte("/=%"), "%2F%3D%25", "%252F%253D%2525", "/=%"},
		{String, "a{b", "a%7Bb", "a%257Bb", "a{b"},
		{String, "a}b", "a}b", "a%7Db", "a}b"},
		{String, "hello world", "hello world", "hello%20world", "hello world"},
		{String, "M\u00FCnchen", "M\u00FCnchen", "same", "M\u00FCnchen"},
		{String, "\u65E5\u672C\u8A9E", "\u65E5\u672C\u8A9E", "same", "\u65E5\u672C\u8A9E"},
		{String, "\U0001F3B5\U0001F3B6", "\U0001F3B5\U0001F3B6", "same", "\U0001F3B5\U0001F3B6"},
		{String, "a<b>c|d", "a<b>c|d", "a%3Cb%3Ec%7Cd", "a<b>c|d"},
		{String, "a@b!c(d)", "a@b!c(d)", "same", "a@b!c(d)"},
		{String, "a&b+c$d;e,f", "a&b+c$d;e,f", "same", "a&b+c$d;e,f"},
		{String, "Serbia/srb%", "Serbia%2Fsrb%25", "Serbia%252Fsrb%2525", "Serbia/srb%"},
		{String, "100%25", "100%2525", "100%252525", "100%25"},
		{String, "", null, "same", ""},
		{String, nil, null, "same", ""},
		{String, " ", " ", "%20", " "},
		{String, "  ", "  ", "%20%20", "  "},
	} {
		row := i + 1
		got, err := FormatPartitionValue(c.t, c.v)
		if c.folder == "refused" {
			if err == nil {
				t.Errorf("row %d: %q was accepted", row, *got)
			}
			continue
		}
		if err != nil || (got == nil) != (c.value == "") || got != nil && *got != c.value {
			t.Errorf("row %d: value %v, %v; want %q", row, got, err, c.value)
			continue
		}
		folder := PartitionFolder("p", c.t, got)
		if folder != "p="+c.folder {
			t.Errorf("row %d: folder %q, want %q", row, folder, "p="+c.folder)
		}
		if c.path == "same" {
			c.path = c.folder
		}
		path := EncodePath(folder)
		if back, err := DecodePath(path); path != "p="+c.path || back != folder || err != nil {
			t.Errorf("row %d: path %q, want %q; back %q, %v", row, path, "p="+c.path, back, err)
		}
	}
	if s := PartitionFolder("a b/c", String, nil); s != "a b%2Fc="+null {
		t.Errorf("column name: %s", s)
	}
}

// TestPartitionRoundTrip writes random values of all types and reads them back (faults 22 and 23).
func TestPartitionRoundTrip(t *testing.T) {
	r := newRand(seedtest.New(t))
	at := func() time.Time { return time.UnixMicro(r.Int64N(4e15) - 2e15).UTC() } // before and after 1970
	for range 2000 {
		for _, c := range []struct {
			t DataType
			v any
		}{
			{Byte, int8(r.Uint32())}, {Short, int16(r.Uint32())}, {Integer, int32(r.Uint32())}, {Long, int64(r.Uint64())},
			{Float, math.Float32frombits(r.Uint32())}, {Double, math.Float64frombits(r.Uint64())}, {Double, float64(r.Int64N(2e7)) / 1000}, {Boolean, r.IntN(2) == 0},
			{Date, at().Truncate(24 * time.Hour)}, {Timestamp, at()}, {TimestampNTZ, at()},
			{Decimal{20, 5}, big.NewInt(int64(r.Uint64()))}, {Decimal{3, 3}, big.NewInt(r.Int64N(1999) - 999)}, {Decimal{10, 0}, big.NewInt(r.Int64N(1e10))},
			{String, randomText(r)}, {Binary, []byte(randomText(r))},
		} {
			s, err := FormatPartitionValue(c.t, c.v)
			if err != nil {
				t.Fatalf("%v %v: %v", c.t, c.v, err)
			}
			got, err := ParsePartitionValue(c.t, s)
			if err != nil {
				t.Fatalf("%v %v: %v", c.t, c.v, err)
			}
			if f, ok := c.v.(float64); ok && f != f || s == nil {
				continue
			} else if f, ok := c.v.(float32); ok && f != f {
				continue
			}
			if b, ok := c.v.(*big.Int); ok {
				if b.Cmp(got.(*big.Int)) != 0 {
					t.Fatalf("%v: %v became %v by %s", c.t, b, got, *s)
				}
			} else if !reflect.DeepEqual(got, c.v) {
				t.Fatalf("%v: %v became %v by %s", c.t, c.v, got, *s)
			}
		}
	}
}

func randomText(r *rand.Rand) string {
	const alphabet = "ab/%+= {}\\\"'\u00FC\u65E5\U0001F3B5#?*:[]^<>|\x01\x7F&"
	runes := []rune(alphabet)
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteRune(runes[r.IntN(len(runes))])
	}
	return b.String()
}

func TestPartitionRefusals(t *testing.T) {
	for _, c := range []struct {
		t DataType
		v any
	}{{Byte, 200}, {Integer, int64(1) << 40}, {Long, "1"}, {String, 5}, {&ArrayType{Element: Long}, 1}, {Variant, "x"},
		{Decimal{3, 1}, big.NewInt(12345)}, {Date, time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, {Double, float32(1)}} {
		if s, err := FormatPartitionValue(c.t, c.v); err == nil {
			t.Errorf("%v: %v was written as %s", c.t, c.v, *s)
		}
	}
	for _, c := range []struct {
		t DataType
		s string
	}{{Byte, "200"}, {Integer, "x"}, {Boolean, "perhaps"}, {Date, "2024-13-01"}, {Timestamp, "noon"}, {Decimal{5, 2}, "1.234"}, {Decimal{5, 2}, "1.-2"}, {Decimal{5, 2}, "123456789"}} {
		if v, err := ParsePartitionValue(c.t, &c.s); err == nil {
			t.Errorf("%v: %q was read as %v", c.t, c.s, v)
		}
	}
	for _, s := range []string{"", hiveNull} { // fault 18
		if v, err := ParsePartitionValue(String, &s); v != nil || err != nil {
			t.Errorf("%q: %v, %v", s, v, err)
		}
	}
}

// Values as Java writes them that no other program would: decimals with an exponent, and years of a sign (fault 17).
func TestPartitionValuesOfJava(t *testing.T) {
	for _, c := range []struct {
		t       DataType
		s, want string // what it is written as, here; "": refused
	}{
		{Decimal{38, 18}, "0E-18", "0.000000000000000000"},
		{Decimal{20, 10}, "1.500E-7", "0.0000001500"},
		{Decimal{20, 10}, "-1E-10", "-0.0000000001"},
		{Decimal{20, 0}, "1E+3", "1000"},
		{Decimal{20, 2}, "1.50E1", "15.00"},
		{Decimal{5, 2}, "1.230", "1.23"},
		{Decimal{5, 2}, "1E3", ""},
		{Decimal{5, 2}, "1E-3", ""},
		{Decimal{5, 2}, "1E", ""},
		{Decimal{5, 2}, "1E999999999", ""},
		{Decimal{5, 2}, "E5", ""},
		{Decimal{5, 2}, ".", ""},
		{Decimal{5, 2}, "0x1", ""},
		{Decimal{5, 2}, "1_0", ""},
		{Long, " 7 ", "7"},
	} {
		v, err := ParsePartitionValue(c.t, &c.s)
		if (err != nil) != (c.want == "") {
			t.Errorf("%v: %q was read as %v, %v", c.t, c.s, v, err)
			continue
		}
		if err != nil {
			continue
		}
		if got, err := FormatPartitionValue(c.t, v); err != nil || *got != c.want {
			t.Errorf("%v: %q became %q, %v, want %q", c.t, c.s, *got, err, c.want)
		}
	}
	for _, c := range []struct {
		t    DataType
		s    string
		want time.Time
		bad  bool
	}{
		{t: Date, s: "+10000-01-02", want: time.Date(10000, 1, 2, 0, 0, 0, 0, time.UTC)},
		{t: Date, s: "-0044-03-15", want: time.Date(-44, 3, 15, 0, 0, 0, 0, time.UTC)},
		{t: Date, s: "+10000-02-29", want: time.Date(10000, 2, 29, 0, 0, 0, 0, time.UTC)},
		{t: Date, s: "+10001-02-29", bad: true},
		{t: Date, s: "+1-02-03", bad: true},
		{t: Date, s: "+99999999-02-03", bad: true},
		{t: Date, s: "--0001-02-03", bad: true},
		{t: Date, s: "+", bad: true},
		{t: Timestamp, s: "+12345-12-31 23:59:59.5", want: time.Date(12345, 12, 31, 23, 59, 59, 500000000, time.UTC)},
		{t: TimestampNTZ, s: "-0001-12-31 00:00:00", want: time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC)},
		{t: Timestamp, s: "+12345-12-31T23:59:59Z", want: time.Date(12345, 12, 31, 23, 59, 59, 0, time.UTC)},
		{t: Timestamp, s: "+12345-06-01T00:30:00+02:00", want: time.Date(12345, 5, 31, 22, 30, 0, 0, time.UTC)},
		// the offset of a zone leads into another year (I8)
		{t: Timestamp, s: "+12345-01-01T00:30:00+02:00", want: time.Date(12344, 12, 31, 22, 30, 0, 0, time.UTC)},
		{t: Timestamp, s: "+12344-12-31T23:30:00-02:00", want: time.Date(12345, 1, 1, 1, 30, 0, 0, time.UTC)},
		{t: Timestamp, s: "-0044-12-31T23:30:00-02:00", want: time.Date(-43, 1, 1, 1, 30, 0, 0, time.UTC)},
		{t: Timestamp, s: "9999-12-31T23:30:00-02:00", want: time.Date(10000, 1, 1, 1, 30, 0, 0, time.UTC)},
	} {
		v, err := ParsePartitionValue(c.t, &c.s)
		if at, ok := v.(time.Time); (err != nil) != c.bad || !c.bad && (!ok || !at.Equal(c.want)) {
			t.Errorf("%v: %q was read as %v, %v, want %v", c.t, c.s, v, err, c.want)
		}
	}
}

// FuzzPartitionValue checks that what is read as a partition value is written and read again as the same (I8).
func FuzzPartitionValue(f *testing.F) {
	types := []DataType{Byte, Short, Integer, Long, Float, Double, Boolean, String, Binary, Date, Timestamp, TimestampNTZ, Decimal{5, 2}, Decimal{38, 18}}
	for _, s := range []string{"1", "-1.5", "1E-7", "0E-18", "2024-02-29", "+10000-01-01", "2024-01-01 00:00:00.5", "2024-01-01T00:00:00Z", "true", "NaN", "__HIVE_DEFAULT_PARTITION__", "\x00"} {
		for i := range types {
			f.Add(s, byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, s string, i byte) {
		typ := types[int(i)%len(types)]
		v, err := ParsePartitionValue(typ, &s)
		if err != nil || v == nil {
			return
		}
		text, err := FormatPartitionValue(typ, v)
		if err != nil || text == nil {
			return // years and bytes that we do not write
		}
		again, err := ParsePartitionValue(typ, text)
		if err != nil {
			t.Fatalf("%v: %q became %q, which is none: %v", typ, s, *text, err)
		}
		back, err := FormatPartitionValue(typ, again)
		if err != nil || *back != *text {
			t.Fatalf("%v: %q became %q and then %q, %v", typ, s, *text, *back, err)
		}
	})
}
