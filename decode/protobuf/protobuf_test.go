package protobuf_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/decodetest"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

const schemaText = `syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "geo/place.proto";
message Other { int32 x = 1; message Inner { string s = 1; } repeated Inner wide = 2; }
message Order {
  int64 id = 1;
  optional string note = 2;
  Part part = 3;
  repeated int32 n = 4;
  map<string, int64> m = 5;
  oneof way { string mail = 6; Part by = 7; }
  google.protobuf.Timestamp at = 8;
  geo.Place place = 9;
  message Part { int32 a = 1; string b = 2; repeated int32 l = 3; }
}
message Tree { int32 v = 1; Tree left = 2; }`

const placeText = `syntax = "proto3"; package geo; message Place { double lat = 1; }`

// served gives a registry with a schema that imports geo/place.proto, and its id.
func served(t testing.TB, schema, place string) (*registry.Client, int) {
	t.Helper()
	srv := srfake.New()
	t.Cleanup(srv.Close)
	if _, _, err := srv.RegisterSchema("place", sr.Schema{Type: sr.TypeProtobuf, Schema: place}); err != nil {
		t.Fatal(err)
	}
	id, _, err := srv.RegisterSchema("orders-value", sr.Schema{Type: sr.TypeProtobuf, Schema: schema,
		References: []sr.SchemaReference{{Name: "geo/place.proto", Subject: "place", Version: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.Open(registry.Config{URLs: []string{srv.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reg.Close() })
	return reg, id
}

func framed(id int, index string, parts ...[]byte) []byte {
	b := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), index...)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func num(n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
}

func str(n protowire.Number, v ...[]byte) []byte {
	var all []byte
	for _, b := range v {
		all = append(all, b...)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), all)
}

// order is the message index of Order: one place, 1.
const order = "\x02\x02"

func orders(t testing.TB) (d decode.Decoder, names []string, id int) {
	t.Helper()
	reg, id := served(t, schemaText, placeText)
	f := protobuf.Confluent(reg, "orders-value", "shop.Order")
	schema, err := f.Columns(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range schema.Fields() {
		names = append(names, c.Name)
	}
	if d, err = f.NewDecoder(schema); err != nil {
		t.Fatal(err)
	}
	return d, names, id
}

func row(d decode.Decoder, names []string, i int) string {
	out := map[string]any{}
	for c, a := range d.Arrays() {
		out[names[c]] = decodetest.Plain(a, i)
	}
	return fmt.Sprint(out)
}

// The specification's rules for fields that come again: the last scalar counts, messages merge, maps override, a oneof
// forgets.
func TestFieldsThatComeAgain(t *testing.T) {
	d, names, id := orders(t)
	for _, c := range []struct {
		parts [][]byte
		want  string
	}{
		{nil, "map[at:<nil> by:<nil> id:0 m:map[] mail:<nil> n:[] note:<nil> part:<nil> place:<nil>]"},
		{[][]byte{num(1, 5), str(2), num(1, 6), str(2, []byte("x")), str(2, []byte("yz"))},
			"map[at:<nil> by:<nil> id:6 m:map[] mail:<nil> n:[] note:yz part:<nil> place:<nil>]"},
		{[][]byte{str(3, num(1, 7), num(3, 1)), num(1, 1), str(3, str(2, []byte("b")), num(3, 2)), str(3, num(1, 8))},
			"map[at:<nil> by:<nil> id:1 m:map[] mail:<nil> n:[] note:<nil> part:map[a:8 b:b l:[1 2]] place:<nil>]"},
		{[][]byte{num(4, 1), str(4, []byte{2, 3}), num(4, 4)}, // packed and not, in one message
			"map[at:<nil> by:<nil> id:0 m:map[] mail:<nil> n:[1 2 3 4] note:<nil> part:<nil> place:<nil>]"},
		{[][]byte{str(5, str(1, []byte("k")), num(2, 1)), str(5, num(2, 9)), num(99, 1), str(5, num(2, 2), str(1, []byte("k")))},
			"map[at:<nil> by:<nil> id:0 m:map[:9 k:2] mail:<nil> n:[] note:<nil> part:<nil> place:<nil>]"},
		{[][]byte{str(6, []byte("m")), str(7, num(1, 3)), str(7, str(2, []byte("z")))},
			"map[at:<nil> by:map[a:3 b:z l:[]] id:0 m:map[] mail:<nil> n:[] note:<nil> part:<nil> place:<nil>]"},
		{[][]byte{str(7, num(1, 3)), str(6, []byte("m")), str(7, str(2, []byte("z")))},
			"map[at:<nil> by:map[a:0 b:z l:[]] id:0 m:map[] mail:<nil> n:[] note:<nil> part:<nil> place:<nil>]"},
		{[][]byte{str(7, num(1, 3)), str(7, num(1, 4)), str(6, []byte("m"))},
			"map[at:<nil> by:<nil> id:0 m:map[] mail:m n:[] note:<nil> part:<nil> place:<nil>]"},
		{[][]byte{str(8, num(1, 1)), str(8, num(2, 5000)), str(9, num(1, 3))}, // a field of a wrong wire type is unknown
			"map[at:1000005 by:<nil> id:0 m:map[] mail:<nil> n:[] note:<nil> part:<nil> place:map[lat:f:0000000000000000]]"},
		{[][]byte{protowire.AppendTag(nil, 50, protowire.StartGroupType), num(1, 3), protowire.AppendTag(nil, 50, protowire.EndGroupType), num(1, 2)},
			"map[at:<nil> by:<nil> id:2 m:map[] mail:<nil> n:[] note:<nil> part:<nil> place:<nil>]"},
	} {
		n := d.Rows()
		if err := d.Append(framed(id, order, c.parts...)); err != nil {
			t.Errorf("%v: %v", c.parts, err)
			continue
		}
		if got := row(d, names, n); got != c.want {
			t.Errorf("%x\n got %s\nwant %s", c.parts, got, c.want)
		}
	}
}

// A message that is bad half-way leaves nothing, and says where (I7).
func TestBadMessagesLeaveNothing(t *testing.T) {
	d, names, id := orders(t)
	good := framed(id, order, num(1, 5), str(2, []byte("note")), str(3, num(1, 7), str(3, []byte{1, 2})), str(5, str(1, []byte("k")), num(2, 1)), str(8, num(1, 1)))
	if err := d.Append(good); err != nil {
		t.Fatal(err)
	}
	want := row(d, names, 0)
	for i := range good {
		n := d.Rows()
		if err := d.Append(good[:i]); err != nil && d.Rows() != n { // a cut between two fields is a message too
			t.Errorf("a row of a bad message, %d bytes", i)
		}
	}
	for name, c := range map[string]struct{ value, want string }{
		"text":        {string(str(2, []byte{0xff})), "note: the bytes are not UTF-8"},
		"nested text": {string(str(3, str(2, []byte{0xff}))), "part.b: the bytes are not UTF-8"},
		"list":        {string(num(4, 1)) + "\x22\x02\x01\x80", "n[2]: a number ends early"},
		"map":         {string(str(5, num(2, 1))) + string(str(5, str(1, []byte{0xff}))), "m[1].key: the bytes are not UTF-8"},
		"wire":        {"\x0f", "field 1 has wire type 7"},
		"zero":        {"\x02\x00", "a field has the number 0"},
		"group":       {"\x93\x03", "the value ends inside a group"},
		"end":         {"\x94\x03", "wire type 4"},
		"groups":      {strings.Repeat("\x93\x03", 200), "groups are nested deeper"},
		"time":        {string(str(8, num(1, 1<<62))), "at: 4611686018427387904 seconds"},
		"nanos":       {string(str(8, num(2, 1e9))), "at: 0 seconds and 1000000000 nanoseconds"},
	} {
		var bad *decode.Error
		n := d.Rows()
		if err := d.Append(framed(id, order, []byte(c.value))); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || d.Rows() != n {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	n := d.Rows()
	if err := d.Append(good); err != nil {
		t.Fatal(err)
	}
	if got := row(d, names, n); got != want {
		t.Errorf("after bad messages: %s, want %s", got, want)
	}
}

// I8: many parts of one message cost no more than their bytes, and few bytes do not fill many cells.
func TestHostileMessages(t *testing.T) {
	d, _, id := orders(t)
	if err := d.Append(framed(id, order, []byte(strings.Repeat(string(str(3, num(1, 7))), 100_000)))); err != nil {
		t.Error(err)
	}
	reg, id := served(t, schemaText, placeText)
	var wide []arrow.Field
	for i := range 1000 {
		wide = append(wide, arrow.Field{Name: fmt.Sprint("w", i), Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	d, err := protobuf.Confluent(reg, "", "").NewDecoder(arrow.NewSchema([]arrow.Field{{Name: "wide", Type: arrow.ListOf(arrow.StructOf(wide...)), Nullable: true}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	var bad *decode.Error
	if err := d.Append(framed(id, "\x00", []byte(strings.Repeat("\x12\x00", 9000)))); !errors.As(err, &bad) || bad.Path != "wide[4194]" {
		t.Errorf("9000 empty messages in 1000 columns: %v", err)
	}
}

// Serializers register a schema as a descriptor in base64, and Google's Python library leaves JSON names out of it. What
// it imports may be text, or the same.
func TestSchemasInBase64(t *testing.T) {
	field := func(name string, n int32, typ descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Type: &typ, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	text := func(fd *descriptorpb.FileDescriptorProto) string {
		raw, err := proto.Marshal(fd)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	place := text(&descriptorpb.FileDescriptorProto{Name: proto.String("elsewhere.proto"), Package: proto.String("geo"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Place"), Field: []*descriptorpb.FieldDescriptorProto{
			field("lat", 1, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, ""), field("lon", 2, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, "")}}}})
	order := text(&descriptorpb.FileDescriptorProto{Name: proto.String("shop.proto"), Package: proto.String("shop"), Syntax: proto.String("proto3"),
		Dependency: []string{"geo/place.proto", "google/protobuf/timestamp.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Outer"), NestedType: []*descriptorpb.DescriptorProto{{Name: proto.String("Order"),
			Field: []*descriptorpb.FieldDescriptorProto{field("order_id", 1, descriptorpb.FieldDescriptorProto_TYPE_INT64, ""),
				field("at", 2, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".google.protobuf.Timestamp"),
				field("place", 3, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".geo.Place")}}}}}})
	for _, place := range []string{place, `syntax = "proto3"; package geo; message Place { double lat = 1; double lon = 2; }`} {
		reg, id := served(t, order, place)
		f := protobuf.Confluent(reg, "", "")
		value := framed(id, "\x04\x00\x00", num(1, 7), str(2, num(1, 3)), str(3))
		s, err := f.Columns(t.Context(), [][]byte{value})
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.NewDecoder(s)
		if err == nil {
			err = d.Append(value)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, want := row(d, []string{"id", "at", "place"}, 0), "map[at:3000000 id:7 place:map[lat:f:0000000000000000 lon:f:0000000000000000]]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSchemasOfTheRegistry(t *testing.T) {
	reg, id := served(t, schemaText, placeText)
	f := protobuf.Confluent(reg, "", "")
	s, err := f.Columns(t.Context(), [][]byte{[]byte("x"), framed(id, "\x04\x00\x00", nil)}) // Other.Inner
	if err != nil || s.NumFields() != 1 || s.Field(0).Name != "s" {
		t.Errorf("Columns of Other.Inner = %v, %v", s, err)
	}
	if s, err = f.Columns(t.Context(), [][]byte{framed(id, "\x00", nil)}); err != nil || s.Field(0).Name != "x" {
		t.Errorf("Columns of Other = %v, %v", s, err)
	}
	if _, err = f.Columns(t.Context(), [][]byte{framed(id, "\x02\x04", nil)}); !errors.Is(err, protobuf.ErrSchema) || !strings.Contains(err.Error(), "left: message shop.Tree is recursive") {
		t.Errorf("Columns of Tree = %v", err)
	}
	d, err := f.NewDecoder(arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "x", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range [][]byte{framed(id, "\x02\x04", num(1, 3), str(2, str(2))), framed(id, "\x00", num(1, 4)), framed(id, "\x02\x00", num(1, 5))} {
		if err := d.Append(v); err != nil {
			t.Error(err)
		}
	}
	if got := row(d, []string{"v", "x"}, 0) + row(d, []string{"v", "x"}, 1) + row(d, []string{"v", "x"}, 2); got != "map[v:3 x:<nil>]map[v:<nil> x:4]map[v:<nil> x:5]" {
		t.Error(got)
	}
	var bad *decode.Error
	for _, v := range []string{"\x02\x10", "\x05", "\xff", "", "\x02"} {
		if err := d.Append(framed(id, v)); !errors.As(err, &bad) {
			t.Errorf("index %x: %v", v, err)
		}
	}
}
