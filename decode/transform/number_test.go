package transform_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
)

var digits = &arrow.Decimal128Type{Precision: 38, Scale: 0}

// No digit of a whole number is lost on any way to a column, and no comparison takes two for one (I4).
func TestWholeNumbersKeepTheirDigits(t *testing.T) {
	const id = "1234567890123456789"
	const v = `{"id":` + id + `,"next":1234567890123456790,"neg":-9223372036854775808,"text":"` + id + `","o":{"id":` + id + `},"l":[1,` + id + `,9007199254740993],
		"big":18446744073709551615,"bigger":18446744073709551616,"bt":"18446744073709551615","items":[{"k":` + id + `,"n":"a"},{"k":1234567890123456788,"n":"b"}]}`
	yes := arrow.FixedWidthTypes.Boolean
	for _, c := range []struct {
		typ          arrow.DataType
		source, want string
	}{
		{long, "id", id},
		{long, "o.id", id},
		{long, "to_number(text)", id},
		{long, "to_number(id)", id},
		{long, "@.id", id},
		{long, "@.o.id", id},
		{long, "[id][0]", id},
		{long, "id || `0`", id},
		{long, "max([id])", id},
		{long, "max(l)", id},
		{long, "min([id, next])", id},
		{long, "max([id, next, `1`])", "1234567890123456790"},
		{text, "sort(l)", "[1,9007199254740993," + id + "]"},
		{long, "sum([id, `1`])", "1234567890123456790"},
		{long, "sum([`9007199254740991`, `2`])", "9007199254740993"},
		{text, "sum([id, id, id, id, id, id, id, id])", "error"},
		{text, "sum([big, `1`])", "error"},
		{text, "sum([id, `0.5`])", "error"},
		{long, "avg([id, id])", id},
		{long, "abs(`0` - id)", id},
		{digits, "abs(neg)", "9223372036854775808"},
		{long, "ceil(id)", id},
		{long, "id + `1`", "1234567890123456790"},
		{long, "next - id", "1"},
		{text, "id * `10`", "error"},
		{text, "big + `1`", "error"},
		{long, "id % `10`", "9"},
		{long, "-id", "-" + id},
		{text, "type(id)", "number"},
		{text, "to_string(id)", id},
		{text, "max_by(items, &k).n", "a"},
		{text, "min_by(items, &k).n", "b"},
		{text, "sort_by(items, &k)[0].n", "b"},
		{yes, "contains(l, id)", "true"},
		{yes, "contains(l, next)", "false"},
		{yes, "id == to_number(text)", "true"},
		{yes, "id == next", "false"},
		{yes, "id != next", "true"},
		{yes, "id < next", "true"},
		{yes, "next <= id", "false"},
		{yes, "neg < id", "true"},
		{yes, "[id] == [next]", "false"},
		{yes, "o == {id: next}", "false"},
		{yes, "o == {id: id}", "true"},
		{yes, "big < bigger", "true"},
		{yes, "big == bigger", "false"},
		{yes, "big == to_number(bt)", "true"},
		{yes, "id > to_number('1234567890123456788')", "true"},
		{yes, "id > to_number('1234567890123456788.5')", "true"},
		{text, "items[?k > to_number('1234567890123456788')] | [0].n", "a"},
		{digits, "big", "18446744073709551615"},
		{digits, "to_number(bt)", "18446744073709551615"},
		{digits, "max([big, bigger])", "18446744073709551616"},
		{long, "big", "error"},
	} {
		for _, source := range []string{c.source, "not_null(" + c.source + ")"} { // as it is, and over a tree
			if s := got(t, c.typ, source, v); s != c.want && (c.want != "error" || !strings.HasPrefix(s, "error: decode value: x: ")) {
				t.Errorf("%s is %s, want %s", source, s, c.want)
			}
		}
	}
	// The parser of expressions keeps numbers as floats, so those that it has changed are refused.
	for _, source := range []string{"id > `1234567890123456788`", "a || `9007199254740993`", "[`[1, {\"a\": -9007199254740993}]`][0]", "contains(l, `1e30`)"} {
		if _, err := transform.Parse([]string{"x: " + source}); !errors.Is(err, transform.ErrSpec) || !strings.Contains(err.Error(), "to_number('") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// A filter keeps the records that it is to keep, and a dead letter is none of them (I4, I7).
func TestFiltersCompareWholeNumbers(t *testing.T) {
	for where, keep := range map[string]bool{
		"to_number(text) == to_number(other)": false,
		"a == b":                              false,
		"a < b":                               true,
		"@.a == @.b":                          false,
		"[a, b][?@ == to_number('1234567890123456790')] | [0]": true,
		"a > to_number('1234567890123456788')":                 true,
		"kafka.offset == `42` && max([a]) < b":                 true,
	} {
		d := decoder(t, transform.Spec{Where: where}, column("x", long))
		err := d.AppendRecord(rec(`{"text":"1234567890123456789","other":"1234567890123456790","a":1234567890123456789,"b":1234567890123456790}`))
		if (err == nil) != keep || err != nil && !errors.Is(err, decode.ErrFiltered) {
			t.Errorf("%s: %v, want kept: %v", where, err, keep)
		}
	}
}

// A record's time that has no microseconds in 64 bits is a dead letter where it is asked for, not another time (I7).
func TestTimesOutOfRange(t *testing.T) {
	for _, source := range []string{"kafka.timestamp", "not_null(a, `1`)"} {
		for _, ms := range []int64{math.MaxInt64/1000 + 1, 1 << 62, math.MaxInt64, math.MinInt64/1000 - 1, math.MinInt64} {
			for _, typ := range []arrow.DataType{stamp, long, arrow.FixedWidthTypes.Date32, text} {
				spec := transform.Spec{Set: []transform.Field{{Property: "x", Source: source}}}
				if source != "kafka.timestamp" {
					spec = transform.Spec{Where: "max([kafka.timestamp, `0`]) > `-1`"}
				}
				d := decoder(t, spec, column("x", typ))
				r := rec(`{}`)
				r.Timestamp = ms
				var bad *decode.Error
				if err := d.AppendRecord(r); !errors.As(err, &bad) || !strings.Contains(bad.Reason, "out of range") || d.Rows() != 0 {
					t.Errorf("%s of %d ms into %s: %v", source, ms, typ, err)
				}
			}
		}
	}
	d := decoder(t, transform.Spec{Set: []transform.Field{{Property: "x", Source: "kafka.timestamp"}}}, column("x", long))
	r := rec(`{}`)
	r.Timestamp = math.MaxInt64 / 1000
	if err := d.AppendRecord(r); err != nil || d.Arrays()[0].ValueStr(0) != "9223372036854775000" {
		t.Errorf("the last time: %v", err)
	}
}

// Whoever may write the table writes its properties: what they hold is bounded before it is parsed (I8). Millions of
// levels would end the process, since a stack that overflows cannot be caught.
func TestPropertiesAreBounded(t *testing.T) {
	const deep = 20_000
	of := func(text string) error {
		_, err := transform.Of(map[string]string{transform.Property("orders"): text}, "orders")
		return err
	}
	set := func(property, source string) string {
		return `{"set":[{"property":"` + property + `","source":"` + source + `"}]}`
	}
	nest := func(open, inner, end string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	for _, n := range []int{1000, deep} {
		for name, text := range map[string]string{
			"not":      `{"where":"` + nest("!", "a", "", n) + `"}`,
			"paren":    set("x", nest("(", "a", ")", n)),
			"list":     set("x", nest("[", "a", "]", n)),
			"path":     set("x", "a"+strings.Repeat(".a", n)),
			"or":       `{"where":"a` + strings.Repeat("||a", n) + `"}`,
			"flatten":  set("x", "a"+strings.Repeat("[]", n)),
			"minus":    set("x", nest("-", "a", "", n)),
			"property": set("x"+strings.Repeat(".x", n), "a"),
			"kafka":    set("x", "kafka.headers."+strings.Repeat("a", n*20)),
			"many":     `{"set":[` + strings.TrimSuffix(strings.Repeat(`{"property":"x","source":"a"},`, 3*n), ",") + `]}`,
		} {
			err := of(text)
			if n == 1000 && name == "paren" && err == nil {
				continue // which leave no levels
			}
			if !errors.Is(err, transform.ErrSpec) || len(err.Error()) > 20_000 {
				t.Errorf("%s, %d levels: %.200v", name, n, err)
			}
		}
	}
	for _, good := range []string{`{"where":"a` + strings.Repeat("||a", 400) + `"}`, set("x", nest("!", "a", "", 400)), set("x", "a"+strings.Repeat(".a", 100))} {
		if err := of(good); err != nil {
			t.Errorf("%.40s: %v", good, err)
		}
	}
}
