package pulsarschema

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/record"
)

// topic is a registry: version n is schema n.
type topic struct {
	schemas []Schema
	down    bool
	asked   int
}

func (r *topic) Schema(_ context.Context, version []byte) (Schema, error) {
	r.asked++
	if r.down {
		return Schema{}, errors.New("nobody answers")
	}
	n := len(r.schemas) - 1
	if version != nil {
		n = int(binary.BigEndian.Uint64(version))
	}
	if n < 0 || n >= len(r.schemas) {
		return Schema{}, fmt.Errorf("no version %d: %w", n, registry.ErrUnknown)
	}
	return r.schemas[n], nil
}

// message is a record as pulsar.Source gives it; version -1: it names none.
func message(version int64, key, value []byte) *record.Record {
	o := record.Origin{Ledger: 1, FirstLedger: -1}
	if version >= 0 {
		o.SchemaVersion = binary.BigEndian.AppendUint64(nil, uint64(version))
	}
	return &record.Record{Key: key, Value: value, Headers: []record.Header{{Key: []byte(record.OriginHeader), Value: o.AppendTo(nil)}}}
}

func avroSchema(fields string) Schema {
	return Schema{Type: Avro, Data: []byte(`{"type":"record","name":"R","fields":[` + fields + `]}`)}
}

// kv puts two byte strings together as Pulsar does; nil: null.
func kv(a, b []byte) []byte {
	var out []byte
	for _, x := range [][]byte{a, b} {
		n := uint32(len(x))
		if x == nil {
			n = math.MaxUint32
		}
		out = append(binary.BigEndian.AppendUint32(out, n), x...)
	}
	return out
}

func keyValue(key, value Schema, encoding string) Schema {
	return Schema{Type: KeyValue, Data: kv(key.Data, value.Data),
		Properties: map[string]string{"key.schema.type": key.Type.String(), "value.schema.type": value.Type.String(), "kv.encoding.type": encoding}}
}

func open(t *testing.T, reg Registry) (decode.RecordDecoder, *arrow.Schema) {
	t.Helper()
	f, err := New(reg, "")
	if err != nil {
		t.Fatal(err)
	}
	columns, err := f.Columns(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.NewDecoder(columns)
	if err != nil {
		t.Fatal(err)
	}
	whole, ok := d.(decode.RecordDecoder)
	if !ok {
		t.Fatalf("%T does not look at records", d)
	}
	return whole, columns
}

// row is the last row as JSON.
func row(t *testing.T, d decode.Decoder, columns *arrow.Schema) string {
	t.Helper()
	out := map[string]any{}
	for i, a := range d.Arrays() {
		if n := a.Len() - 1; a.IsValid(n) {
			out[columns.Field(i).Name] = a.GetOneForMarshal(n)
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestVersionsGoIntoOneTable: each message is decoded by the version that it names.
func TestVersionsGoIntoOneTable(t *testing.T) {
	reg := &topic{schemas: []Schema{avroSchema(`{"name":"a","type":"long"}`),
		avroSchema(`{"name":"b","type":["null","string"],"default":null},{"name":"a","type":"long"}`)}}
	d, columns := open(t, reg)
	for _, c := range []struct {
		version int64
		value   []byte
		want    string
	}{
		{0, []byte{8}, `{"a":4}`}, {1, []byte{2, 2, 'x', 6}, `{"a":3,"b":"x"}`}, {0, []byte{2}, `{"a":1}`}, {1, []byte{0, 6}, `{"a":3}`}, {1, nil, `{}`},
	} {
		if err := d.AppendRecord(message(c.version, nil, c.value)); err != nil {
			t.Fatal(err)
		}
		if got := row(t, d, columns); got != c.want {
			t.Errorf("version %d, %x: %s, want %s", c.version, c.value, got, c.want)
		}
	}
	if reg.asked != 3 {
		t.Errorf("the registry was asked %d times, want once for the columns and once a version", reg.asked)
	}
}

// TestBadMessagesLeaveNothing: what names no schema, or one that is not there, of another type, or that the bytes are not of,
// is bad; where the registry is out of reach it is to be tried again (I7).
func TestBadMessagesLeaveNothing(t *testing.T) {
	reg := &topic{schemas: []Schema{{Type: JSON, Data: []byte(`{}`)}, avroSchema(`{"name":"a","type":"long"},{"name":"b","type":"string"}`)}}
	d, _ := open(t, reg)
	for name, c := range map[string]struct {
		m    *record.Record
		says string
	}{
		"no version":     {message(-1, nil, []byte{2}), "names no version"},
		"no origin":      {&record.Record{Value: []byte{2}}, "names no version"},
		"another type":   {message(0, nil, []byte{2}), "of type JSON, and the table is filled by AVRO"},
		"not there":      {message(7, nil, []byte{2}), "has no such schema"},
		"far too high":   {message(1<<40, nil, []byte{2}), "no number that Pulsar gives"},
		"not its bytes":  {message(1, nil, []byte{2, 9, 'x'}), ""},
		"bytes too many": {message(1, nil, []byte{2, 2, 'x', 0}), "after the last field (byte 3)"},
	} {
		err := d.AppendRecord(c.m)
		var bad *decode.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	reg.down = true
	reg.schemas = append(reg.schemas, reg.schemas[1])
	var away *decode.UnavailableError
	if err := d.AppendRecord(message(2, nil, []byte{2, 2, 'x'})); !errors.As(err, &away) {
		t.Errorf("while the registry is down: %v", err)
	}
	reg.down = false
	if err := d.AppendRecord(message(2, nil, []byte{2, 2, 'x'})); err != nil || d.Rows() != 1 {
		t.Errorf("when it is back: %v, %d rows", err, d.Rows())
	}
}

func TestKeysAndValues(t *testing.T) {
	long, text := Schema{Type: Int64}, Schema{Type: String}
	user := avroSchema(`{"name":"n","type":"string"}`)
	object := Schema{Type: JSON, Data: []byte(`{"type":"record","name":"R","fields":[{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}}]}`)}
	eight := binary.BigEndian.AppendUint64(nil, 7)
	for name, c := range map[string]struct {
		schema     Schema
		key, value []byte
		want       string // or the error
	}{
		"inline":             {keyValue(long, user, "INLINE"), nil, kv(eight, []byte{2, 'x'}), `{"key":7,"value":{"n":"x"}}`},
		"inline, null value": {keyValue(long, user, "INLINE"), nil, kv(eight, nil), `{"key":7}`},
		"inline, null key":   {keyValue(long, user, "INLINE"), nil, kv(nil, []byte{2, 'x'}), `{"value":{"n":"x"}}`},
		"separated":          {keyValue(text, object, "SEPARATED"), []byte("k"), []byte(`{"at":12}`), `{"key":"k","value":{"at":12}}`},
		"separated, null":    {keyValue(text, object, "SEPARATED"), []byte("k"), nil, `{"key":"k"}`},
		"no key":             {keyValue(text, object, "SEPARATED"), nil, []byte(`{"at":12}`), `{"value":{"at":12}}`},
		"cut":                {keyValue(long, user, "INLINE"), nil, kv(eight, []byte{2, 'x'})[:15], "no key and value"},
		"too long":           {keyValue(long, user, "INLINE"), nil, append(kv(eight, []byte{2, 'x'}), 0), "no key and value"},
		"a short key":        {keyValue(long, user, "INLINE"), nil, kv(eight[:4], []byte{2, 'x'}), "4 bytes are no INT64"},
		"more than JSON":     {keyValue(text, object, "SEPARATED"), []byte("k"), []byte(`{"at":1},"value":{"at":2}`), "not JSON"},
		"not UTF-8":          {keyValue(text, object, "SEPARATED"), []byte{0xff}, []byte(`{}`), "not UTF-8"},
	} {
		d, columns := open(t, &topic{schemas: []Schema{c.schema}})
		err := d.AppendRecord(message(0, c.key, c.value))
		switch {
		case err != nil && (strings.HasPrefix(c.want, "{") || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", name, err)
		case err == nil && row(t, d, columns) != c.want:
			t.Errorf("%s: %s, want %s", name, row(t, d, columns), c.want)
		}
	}
}

// TestSchemasThatAreNoColumns: the error says which and what to do (I8).
func TestSchemasThatAreNoColumns(t *testing.T) {
	for name, c := range map[string]struct {
		schema Schema
		says   string
	}{
		"protobuf":          {Schema{Type: Protobuf, Data: []byte(`{}`)}, "PROTOBUF_NATIVE"},
		"of the future":     {Schema{Type: 99}, "type 99"},
		"damaged Avro":      {Schema{Type: Avro, Data: []byte(`{"type":`)}, "avro"},
		"recursive":         {avroSchema(`{"name":"r","type":["null","R"]}`), "recursive"},
		"old JSON":          {Schema{Type: JSON, Data: []byte(`{"type":"object","id":"x"}`)}, ""},
		"damaged JSON":      {Schema{Type: JSON, Data: []byte(`{`)}, "JSON"},
		"damaged native":    {Schema{Type: ProtobufNative, Data: []byte(`{"fileDescriptorSet":"AAAA"}`)}, "PROTOBUF_NATIVE"},
		"a message less":    {nativeSchema(t, "x.proto", "p.Gone"), "p.Gone"},
		"a file less":       {nativeSchema(t, "y.proto", "p.M"), "y.proto"},
		"key of the future": {Schema{Type: KeyValue, Data: kv(nil, nil), Properties: map[string]string{"key.schema.type": "QUIPU", "value.schema.type": "INT8"}}, "QUIPU"},
		"an odd encoding":   {keyValue(Schema{Type: Int8}, Schema{Type: Int8}, "ROT13"), "ROT13"},
		"damaged key value": {Schema{Type: KeyValue, Data: []byte{0, 0, 0, 9}}, "damaged"},
		"protobuf value":    {keyValue(Schema{Type: Int8}, Schema{Type: Protobuf}, "INLINE"), "value: "},
	} {
		f, err := New(&topic{schemas: []Schema{c.schema}}, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.Columns(t.Context(), nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil, "AVRO"); err == nil || !strings.Contains(err.Error(), "pulsar://") {
		t.Errorf("without a registry: %v", err)
	}
	if _, err := New(nil, "JSON"); err != nil {
		t.Errorf("JSON needs no registry: %v", err)
	}
}

func nativeSchema(t *testing.T, file, root string) Schema {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: proto.String("x.proto"), Package: proto.String("p"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("First")}, {Name: proto.String("M"),
			Field: []*descriptorpb.FieldDescriptorProto{{Name: proto.String("n"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()}},
			NestedType: []*descriptorpb.DescriptorProto{{Name: proto.String("In"),
				Field: []*descriptorpb.FieldDescriptorProto{{Name: proto.String("s"), Number: proto.Int32(2), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()}}}}}}}}}
	raw, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{"fileDescriptorSet": raw, "rootMessageTypeName": root, "rootFileDescriptorName": file})
	if err != nil {
		t.Fatal(err)
	}
	return Schema{Type: ProtobufNative, Data: data}
}

// TestNativeMessagesAreFoundByName: also those that are not the first of their file, or inside another one.
func TestNativeMessagesAreFoundByName(t *testing.T) {
	for root, c := range map[string]struct {
		value []byte
		want  string
	}{"p.M": {[]byte{8, 5}, `{"n":5}`}, "p.M.In": {[]byte{18, 1, 'x'}, `{"s":"x"}`}} {
		d, columns := open(t, &topic{schemas: []Schema{nativeSchema(t, "x.proto", root)}})
		if err := d.AppendRecord(message(0, nil, c.value)); err != nil {
			t.Fatal(err)
		}
		if got := row(t, d, columns); got != c.want {
			t.Errorf("%s: %s, want %s", root, got, c.want)
		}
	}
}

// TestPrimitivesOfEveryType: the bytes that Pulsar's client writes, and their edges.
func TestPrimitivesOfEveryType(t *testing.T) {
	b8 := func(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
	for _, c := range []struct {
		kind  Type
		value []byte
		want  string
	}{
		{Bool, []byte{1}, "true"}, {Int8, []byte{0x80}, "-128"}, {Int16, []byte{0xff, 0xfe}, "-2"}, {Int32, []byte{0x80, 0, 0, 0}, "-2147483648"},
		{Int64, b8(math.MinInt64), "-9223372036854775808"}, {Float, []byte{0x3e, 0x80, 0, 0}, "0.25"}, {Double, b8(int64(math.Float64bits(-1e300))), "-1e+300"},
		{Double, b8(int64(math.Float64bits(math.NaN()))), "NaN"}, {Timestamp, b8(-1), `"1969-12-31T23:59:59.999Z"`}, {Date, b8(0), `"1970-01-01T00:00:00Z"`},
		{Timestamp, b8(math.MaxInt64), "no time"}, {Instant, append(b8(1), 0, 0, 0x03, 0xe8), `"1970-01-01T00:00:01.000001Z"`}, {Instant, append(b8(1), 0xff, 0, 0, 0), "no time"},
		{LocalDate, b8(-1), `"1969-12-31"`}, {LocalDate, b8(math.MinInt64), "day"}, {Time, b8(5), "5"}, {LocalTime, b8(7), "7"},
		{LocalDateTime, append(b8(1), b8(1_500_000)...), `"1970-01-02T00:00:00.0015"`}, {LocalDateTime, append(b8(1), b8(-1)...), "no time"},
		{LocalDateTime, append(b8(math.MaxInt64), b8(0)...), "no time"}, {Int64, []byte{1}, "1 bytes are no INT64"}, {Bool, nil, "null"},
	} {
		d, columns := open(t, &topic{schemas: []Schema{{Type: c.kind}}})
		err := d.AppendRecord(message(0, nil, c.value))
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %x: %v", c.kind, c.value, err)
			}
			continue
		}
		want := `{"value":` + c.want + `}`
		if c.want == "null" {
			want = "{}"
		}
		if got := row(t, d, columns); got != want {
			t.Errorf("%s %x: %s, want %s", c.kind, c.value, got, want)
		}
	}
}

// FuzzKeyValue: no bytes of a definition or a value make a panic (I8).
func FuzzKeyValue(f *testing.F) {
	f.Add(kv([]byte(`"x"`), []byte(`{"type":"record","name":"R","fields":[{"name":"n","type":"string"}]}`)), kv([]byte("k"), []byte{2, 'x'}), uint8(1), uint8(4))
	f.Add(kv(nil, nil), kv(nil, nil), uint8(16), uint8(19))
	f.Fuzz(func(t *testing.T, definition, value []byte, key, val uint8) {
		s := Schema{Type: KeyValue, Data: definition, Properties: map[string]string{"key.schema.type": Type(key % 21).String(), "value.schema.type": Type(val % 21).String()}}
		form, err := New(&topic{schemas: []Schema{s}}, "")
		if err != nil {
			t.Fatal(err)
		}
		columns, err := form.Columns(t.Context(), nil)
		if err != nil {
			return
		}
		d, err := form.NewDecoder(columns)
		if err != nil {
			return
		}
		rows := d.Rows()
		if err := d.(decode.RecordDecoder).AppendRecord(message(0, nil, value)); err == nil {
			rows++
		}
		if d.Rows() != rows {
			t.Errorf("%d rows, want %d", d.Rows(), rows)
		}
	})
}
