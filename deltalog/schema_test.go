package deltalog

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

func TestSchemaRoundTrip(t *testing.T) {
	const s = `{"type":"struct","fields":[` +
		`{"name":"a","type":"long","nullable":true,"metadata":{"delta.typeChanges":[{"x":12345678901234567890, "y":{"z":null}}],"comment":"<&>"}},` +
		`{"name":"b \"q\"","type":"decimal(38,18)","nullable":false,"metadata":{}},` +
		`{"name":"c","type":{"type":"array","elementType":"timestamp_ntz","containsNull":false},"nullable":true,"metadata":{}},` +
		`{"name":"d","type":{"type":"map","keyType":"string","valueType":{"type":"struct","fields":[{"name":"e","type":"void","nullable":true,"metadata":{}}]},"valueContainsNull":true},"nullable":true,"metadata":{}},` +
		`{"name":"f","type":"geometry(OGC:CRS84)","nullable":true,"metadata":{}}]}`
	st, err := ParseSchema(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := st.JSON(); got != s {
		t.Fatalf("got\n%s\nwant\n%s", got, s)
	}
	if v, ok := st.Fields[0].MetadataValue("comment"); !ok || string(v) != `"<&>"` {
		t.Fatalf("metadata value %s", v)
	}
	if _, err := ToArrow(st); err == nil || !strings.Contains(err.Error(), `"f"`) {
		t.Fatalf("unknown type to Arrow: %v", err)
	}
}

func TestSchemaErrors(t *testing.T) {
	for _, bad := range []string{``, `"long"`, `{`, `{"type":"struct","fields":[{"name":"a"}]}`, `{"type":"struct","fields":[{"type":"long"}]}`,
		`{"type":"struct","fields":[{"name":"a","type":"decimal(39,1)"}]}`, `{"type":"struct","fields":[{"name":"a","type":"decimal(3"}]}`,
		`{"type":"struct","fields":[{"name":"a","type":{"type":"odd"}}]}`, `{"type":"struct","fields":[{"name":"a","type":"long","metadata":[]}]}`,
		`{"type":"struct","fields":[{"name":"a","type":` + strings.Repeat(`{"type":"array","elementType":`, 500) + `"long"` + strings.Repeat(`}`, 500) + `}]}`} {
		if _, err := ParseSchema(bad); err == nil {
			t.Errorf("no error for %.60s", bad)
		}
	}
}

func TestArrowRoundTrip(t *testing.T) {
	st := &StructType{Fields: []StructField{
		{Name: "s", Type: String, Nullable: true}, {Name: "b", Type: Binary}, {Name: "l", Type: Long}, {Name: "i", Type: Integer},
		{Name: "h", Type: Short}, {Name: "y", Type: Byte}, {Name: "f", Type: Float}, {Name: "d", Type: Double}, {Name: "o", Type: Boolean},
		{Name: "dt", Type: Date}, {Name: "ts", Type: Timestamp}, {Name: "nt", Type: TimestampNTZ}, {Name: "dec", Type: Decimal{20, 3}},
		{Name: "arr", Type: &ArrayType{Element: &StructType{Fields: []StructField{{Name: "x", Type: Long, Nullable: true}}}, ContainsNull: true}},
		{Name: "map", Type: &MapType{Key: String, Value: Long, ValueContainsNull: true}}, {Name: "v", Type: Void, Nullable: true}}}
	a, err := ToArrow(st)
	if err != nil {
		t.Fatal(err)
	}
	back, err := FromArrow(a)
	if err != nil {
		t.Fatal(err)
	}
	if back.JSON() != st.JSON() {
		t.Fatalf("got\n%s\nwant\n%s", back.JSON(), st.JSON())
	}
	if _, err := FromArrow(arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.FixedWidthTypes.Duration_ms}}, nil)); err == nil {
		t.Error("duration was accepted")
	}
}
