package decode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
)

// TestRescuedColumn: I7, what no column takes is kept as it was written, however many fields there are.
func TestRescuedColumn(t *testing.T) {
	d, err := decode.ForTable(arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: decode.RescuedColumn, Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil))
	if err != nil {
		t.Fatal(err)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"f%d":%d`, i, i))
	}
	all := "{" + strings.Join(many, ",") + "}"
	for _, c := range []struct{ value, want string }{
		{`{"a":1}`, "(null)"},
		{`{"b" : [1, {"x":"\u0041"}],"a":2,"_rescued":"mine","c\"":null}`, `{"b":[1, {"x":"\u0041"}],"_rescued":"mine","c\"":null}`},
		{all, all},
		{`{"a":"x","b":1}`, "error"},
		{`{}`, "(null)"},
	} {
		got := "error"
		if err := d.Append([]byte(c.value)); err == nil {
			got = d.Arrays()[1].ValueStr(d.Rows() - 1)
		}
		if got != c.want {
			t.Errorf("%.60s: %.80s, want %.80s", c.value, got, c.want)
		}
	}
	if d.Rows() != 4 || d.Arrays()[0].Len() != 4 || d.Arrays()[1].Len() != 4 {
		t.Errorf("%d rows, columns of %d and %d", d.Rows(), d.Arrays()[0].Len(), d.Arrays()[1].Len())
	}
}

func TestUnknownFieldsAreToldOnce(t *testing.T) {
	obj := arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	d, err := decode.ForTable(arrow.NewSchema([]arrow.Field{{Name: "o", Type: obj, Nullable: true}, {Name: "l", Type: arrow.ListOf(obj), Nullable: true}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	d.WatchUnknown()
	d.Ignore("secret")
	for _, c := range []struct{ value, want string }{
		{`{"secret":1,"n":null,"o":{"x":1}}`, "[]"},
		{`{"n":1,"o":{"y":1},"l":[{"z":{"deep":1}},{"z":2}]}`, "[n o.y l.z]"},
		{`{"n":1,"o":{"y":1},"l":[{"z":1}]}`, "[]"},
	} {
		if err := d.Append([]byte(c.value)); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(d.Unknown()); got != c.want {
			t.Errorf("%s tells of %s, want %s", c.value, got, c.want)
		}
	}
}
