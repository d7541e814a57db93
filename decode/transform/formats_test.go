package transform_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/record"
)

const orderAvro = `{"type":"record","name":"Order","fields":[
	{"name":"id","type":"long"},{"name":"kind","type":"string"},{"name":"price","type":"double"},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"who","type":{"type":"record","name":"Who","fields":[{"name":"name","type":["null","string"]},{"name":"age","type":"int"}]}},
	{"name":"tags","type":{"type":"array","items":"string"}},
	{"name":"odd","type":["null","long","string"]}]}`

// orderFile is the same message in Protobuf, without the union.
func orderFile() *descriptorpb.FileDescriptorProto {
	field := func(name string, n int32, t descriptorpb.FieldDescriptorProto_Type, typeName string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Type: &t, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if typeName != "" {
			f.TypeName = &typeName
		}
		return f
	}
	tags := field("tags", 6, descriptorpb.FieldDescriptorProto_TYPE_STRING, "")
	tags.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("order.proto"), Syntax: proto.String("proto3"), Dependency: []string{"google/protobuf/timestamp.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Order"), Field: []*descriptorpb.FieldDescriptorProto{
			field("id", 1, descriptorpb.FieldDescriptorProto_TYPE_INT64, ""), field("kind", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING, ""),
			field("price", 3, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, ""),
			field("at", 4, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".google.protobuf.Timestamp"),
			field("who", 5, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".Order.Who"), tags,
		}, NestedType: []*descriptorpb.DescriptorProto{{Name: proto.String("Who"), Field: []*descriptorpb.FieldDescriptorProto{
			field("name", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING, ""), field("age", 2, descriptorpb.FieldDescriptorProto_TYPE_INT32, "")}}}}},
	}
}

func orderSet(t testing.TB) (set []byte, encode func(json string) []byte) {
	t.Helper()
	file := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto), orderFile()}}
	files, err := protodesc.NewFiles(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindFileByPath("order.proto")
	if err != nil {
		t.Fatal(err)
	}
	if set, err = proto.Marshal(file); err != nil {
		t.Fatal(err)
	}
	return set, func(json string) []byte {
		m := dynamicpb.NewMessage(d.Messages().ByName("Order"))
		if err := protojson.Unmarshal([]byte(json), m); err != nil {
			t.Fatal(err)
		}
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// encodings gives one order in each format, with what its format needs.
func encodings(t testing.TB) map[string]struct {
	options format.Options
	value   []byte
} {
	t.Helper()
	const text = `{"id":7,"kind":"order","price":2.5,"at":"2026-01-02T03:04:05.678Z","who":{"name":"ann","age":41},"tags":["x","y"]}`
	s, err := avro.Parse(orderAvro)
	if err != nil {
		t.Fatal(err)
	}
	av, err := s.Encode(map[string]any{"id": int64(7), "kind": "order", "price": 2.5, "at": int64(1767323045678),
		"who": map[string]any{"name": "ann", "age": int32(41)}, "tags": []any{"x", "y"}, "odd": nil})
	if err != nil {
		t.Fatal(err)
	}
	set, encode := orderSet(t)
	pb := encode(text)
	srv := srfake.New()
	t.Cleanup(srv.Close)
	framed := func(subject string, schema sr.Schema, index string, body []byte) []byte {
		id, _, err := srv.RegisterSchema(subject, schema)
		if err != nil {
			t.Fatal(err)
		}
		return append(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), index...), body...)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	reg := registry.Config{URLs: []string{srv.URL()}}
	const csvNames, csvLine = "id,kind,price,at", `7,order,2.5,2026-01-02T03:04:05.678Z`
	return map[string]struct {
		options format.Options
		value   []byte
	}{
		"json":           {format.Options{}, []byte(text)},
		"json+gzip":      {format.Options{}, zipped.Bytes()},
		"json-registry":  {format.Options{Registry: reg}, framed("j", sr.Schema{Type: sr.TypeJSON, Schema: `{"type":"object"}`}, "", []byte(text))},
		"avro-raw":       {format.Options{Schemas: []string{orderAvro}}, av},
		"avro-confluent": {format.Options{Registry: reg}, framed("a", sr.Schema{Type: sr.TypeAvro, Schema: orderAvro}, "", av)},
		"protobuf":       {format.Options{Schemas: []string{string(set)}, Message: "Order"}, pb},
		"csv":            {format.Options{CSV: format.CSVOptions{Fields: strings.Split(csvNames, ",")}}, []byte(csvLine)},
	}
}

// The same Spec makes the same row of the same record in every format: paths, functions, trees, fields of structs, what is
// renamed and dropped, a null that leaves what the value has, and filters. Lines of CSV have no nested fields.
func TestEveryFormat(t *testing.T) {
	utc := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	payload := arrow.NewSchema([]arrow.Field{column("id", arrow.PrimitiveTypes.Int64), column("sort", arrow.BinaryTypes.String),
		column("price", arrow.PrimitiveTypes.Float64), column("at", utc), column("day", arrow.FixedWidthTypes.Date32), column("text", arrow.BinaryTypes.String),
		column("kind", arrow.BinaryTypes.String), column("iso", arrow.BinaryTypes.String),
		column("meta", arrow.StructOf(column("offset", arrow.PrimitiveTypes.Int64), column("age", arrow.PrimitiveTypes.Int32))),
		column("who", arrow.StructOf(column("name", arrow.BinaryTypes.String), column("age", arrow.PrimitiveTypes.Int32))),
		column("twice", arrow.BinaryTypes.String)}, nil)
	spec := transform.Spec{Rename: map[string]string{"kind": "sort"}, Where: "kind == 'order' && kafka.offset > `1`", Set: []transform.Field{
		{Property: "day", Source: "at"}, {Property: "text", Source: "substr(kind, `1`, `3`)"}, {Property: "price", Source: "kafka.headers.price"},
		{Property: "meta.offset", Source: "kafka.offset"}, {Property: "meta.age", Source: "who.age"}, {Property: "twice", Source: "join('-', [kind, kind])"},
	}}
	want := `[7 order 2.5 2026-01-02T03:04:05.678Z 2026-01-02 rde (null) (null) {"age":41,"offset":5} {"age":41,"name":"ann"} order-order]`
	for name, e := range encodings(t) {
		t.Run(name, func(t *testing.T) {
			f, err := format.Parse(name, e.options)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			spec, want := spec, want
			if name != "json" && !strings.HasPrefix(name, "json") && name != "csv" { // formats that know times
				spec.Set = append(spec.Set, transform.Field{Property: "iso", Source: "epoch_millis_to_iso8601(at)"})
				want = strings.Replace(want, "rde (null) (null)", "rde (null) 2026-01-02T03:04:05.678Z", 1)
			}
			if name == "csv" {
				spec.Set = append([]transform.Field{}, spec.Set...)
				spec.Set[4].Source = "kafka.partition"
				want = strings.Replace(want, `{"age":41,"offset":5} {"age":41,"name":"ann"}`, `{"age":3,"offset":5} (null)`, 1)
			}
			d, err := transform.Wrap(f.NewDecoder, payload, spec, "orders")
			if err != nil {
				t.Fatal(err)
			}
			whole := d.(decode.RecordDecoder)
			whole.Begin(3, record.BatchHeader{LeaderEpoch: -1})
			for range 2 {
				if err := whole.AppendRecord(&record.Record{Offset: 1, Value: e.value}); !errors.Is(err, decode.ErrFiltered) {
					t.Fatalf("offset 1 is to be left out: %v", err)
				}
				if err := whole.AppendRecord(&record.Record{Offset: 5, Value: e.value}); err != nil {
					t.Fatal(err)
				}
				if err := whole.AppendRecord(&record.Record{Offset: 6, Value: e.value[:len(e.value)-1]}); name != "csv" && err == nil {
					t.Fatal("a value that was cut off is a row")
				} else if err == nil {
					d.(decode.Truncater).Truncate(1)
				}
				var row []string
				for _, a := range d.Arrays() {
					if a.Len() != 1 {
						t.Fatalf("%d rows, want 1", a.Len())
					}
					row = append(row, a.ValueStr(0))
				}
				if got := fmt.Sprint(row); got != want {
					t.Errorf("the row is\n%s, want\n%s", got, want)
				}
				d.Reset()
			}
		})
	}
}

// A field that no column can hold, of several types, is told of by name where an expression looks at it, and is in
// nobody's way where none does.
func TestFieldsThatCannotBeRead(t *testing.T) {
	e := encodings(t)["avro-raw"]
	f, err := format.Parse("avro-raw", e.options)
	if err != nil {
		t.Fatal(err)
	}
	payload := arrow.NewSchema([]arrow.Field{column("id", arrow.PrimitiveTypes.Int64), column("odd", arrow.BinaryTypes.String)}, nil)
	for source, bad := range map[string]bool{"odd": true, "kind": false} {
		d, err := transform.Wrap(f.NewDecoder, payload, transform.Spec{Set: []transform.Field{{Property: "odd", Source: source}}}, "orders")
		if err != nil {
			t.Fatal(err)
		}
		err = d.Append(e.value)
		var why *decode.Error
		if bad != (errors.As(err, &why) && strings.Contains(why.Reason, "odd is a union of")) || !bad && err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
}
