package protobuf_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
)

// eventFile describes the messages of the benchmark.
const eventFile = `{"name":"event.proto","package":"bench","syntax":"proto3","messageType":[
	{"name":"Event","field":[
	{"name":"event_id","number":1,"type":"TYPE_STRING","label":"LABEL_OPTIONAL"},{"name":"kind","number":2,"type":"TYPE_ENUM","typeName":".bench.Kind","label":"LABEL_OPTIONAL"},
	{"name":"occurred_at","number":3,"type":"TYPE_INT64","label":"LABEL_OPTIONAL"},{"name":"user_id","number":4,"type":"TYPE_INT64","label":"LABEL_OPTIONAL"},
	{"name":"session","number":5,"type":"TYPE_STRING","label":"LABEL_OPTIONAL"},{"name":"amount","number":6,"type":"TYPE_DOUBLE","label":"LABEL_OPTIONAL"},
	{"name":"quantity","number":7,"type":"TYPE_INT32","label":"LABEL_OPTIONAL"},{"name":"success","number":8,"type":"TYPE_BOOL","label":"LABEL_OPTIONAL"},
	{"name":"url","number":9,"type":"TYPE_STRING","label":"LABEL_OPTIONAL"},{"name":"device","number":10,"type":"TYPE_MESSAGE","typeName":".bench.Device","label":"LABEL_OPTIONAL"},
	{"name":"tags","number":11,"type":"TYPE_STRING","label":"LABEL_REPEATED"},{"name":"comment","number":12,"type":"TYPE_STRING","label":"LABEL_OPTIONAL"}]},
	{"name":"Device","field":[{"name":"os","number":1,"type":"TYPE_STRING","label":"LABEL_OPTIONAL"},{"name":"lat","number":2,"type":"TYPE_DOUBLE","label":"LABEL_OPTIONAL"}]}],
	"enumType":[{"name":"Kind","value":[{"name":"VIEW","number":0},{"name":"BUY","number":1}]}]}`

func events(b testing.TB, n int) (d decode.Decoder, m protoreflect.MessageDescriptor, out [][]byte, size int64) {
	b.Helper()
	var fd descriptorpb.FileDescriptorProto
	if err := protojson.Unmarshal([]byte(eventFile), &fd); err != nil {
		b.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{&fd}}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		b.Fatal(err)
	}
	found, err := files.FindDescriptorByName("bench.Event")
	if err != nil {
		b.Fatal(err)
	}
	m = found.(protoreflect.MessageDescriptor)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		text, err := json.Marshal(map[string]any{
			"event_id": strings.Repeat("0123456789abcdef", 2), "kind": rng.IntN(2), "occurred_at": int64(1.7e15) + int64(i), "user_id": rng.Int64N(1e9),
			"session": "0123456789abcdef", "amount": rng.Float64(), "quantity": rng.IntN(20), "success": true, "url": "https://example.org/shop/item/1",
			"device": map[string]any{"os": "android", "lat": rng.Float64()}, "tags": []string{"new", "mobile"}[:rng.IntN(3)],
			"comment": strings.Repeat("the box was fine ", rng.IntN(24)),
		})
		if err != nil {
			b.Fatal(err)
		}
		v := dynamicpb.NewMessage(m)
		if err := protojson.Unmarshal(text, v); err != nil {
			b.Fatal(err)
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		out, size = append(out, raw), size+int64(len(raw))
	}
	raw, err := proto.Marshal(set)
	if err != nil {
		b.Fatal(err)
	}
	f, err := protobuf.Message(raw, "bench.Event")
	if err != nil {
		b.Fatal(err)
	}
	columns, err := f.Columns(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	if d, err = f.NewDecoder(columns); err != nil {
		b.Fatal(err)
	}
	return d, m, out, size
}

// BenchmarkDecode compares messages to columns with dynamicpb's messages to trees, which has no columns yet.
func BenchmarkDecode(b *testing.B) {
	d, m, messages, size := events(b, 4096)
	b.Run("columns", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			d.Reset()
			for _, m := range messages {
				if err := d.Append(m); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("dynamicpb", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			for _, raw := range messages {
				if err := proto.Unmarshal(raw, dynamicpb.NewMessage(m)); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// Once warm, a message costs no allocation.
func TestNoAllocations(t *testing.T) {
	d, _, messages, _ := events(t, 500)
	fill := func() {
		d.Reset()
		for _, m := range messages {
			if err := d.Append(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	if n := testing.AllocsPerRun(100, fill); n != 0 {
		t.Errorf("%v allocations for %d messages", n, len(messages))
	}
}
