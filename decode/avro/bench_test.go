package avro_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	lib "github.com/twmb/avro"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/avro"
)

const eventSchema = `{"type":"record","name":"Event","fields":[
	{"name":"event_id","type":"string"},{"name":"event_type","type":{"type":"enum","name":"T","symbols":["page_view","purchase","search"]}},
	{"name":"occurred_at","type":{"type":"long","logicalType":"timestamp-micros"}},{"name":"user_id","type":"long"},
	{"name":"session","type":["null","string"]},{"name":"amount","type":"double"},{"name":"quantity","type":"int"},
	{"name":"success","type":"boolean"},{"name":"url","type":"string"},
	{"name":"device","type":{"type":"record","name":"D","fields":[{"name":"os","type":"string"},{"name":"lat","type":["null","double"]}]}},
	{"name":"tags","type":{"type":"array","items":"string"}},{"name":"comment","type":["null","string"]}]}`

// events are messages of about 420 bytes.
func events(b testing.TB, n int) (out [][]byte, size int64) {
	b.Helper()
	s := lib.MustParse(eventSchema)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		v, err := s.Encode(map[string]any{
			"event_id": fmt.Sprintf("%032x", rng.Uint64()), "event_type": []string{"page_view", "purchase", "search"}[rng.IntN(3)],
			"occurred_at": int64(1.7e15) + int64(i)*1000, "user_id": rng.Int64N(1e9), "session": fmt.Sprintf("%016x", rng.Uint64()),
			"amount": rng.Float64() * 100, "quantity": int32(rng.IntN(20)), "success": true, "url": "https://example.org/shop/item/" + fmt.Sprint(rng.IntN(1e6)),
			"device": map[string]any{"os": "android", "lat": rng.Float64()}, "tags": []string{"new", "mobile"}[:rng.IntN(3)],
			"comment": strings.Repeat("the box was fine ", rng.IntN(24)),
		})
		if err != nil {
			b.Fatal(err)
		}
		out, size = append(out, v), size+int64(len(v))
	}
	return out, size
}

func benchDecoder(b testing.TB) decode.Decoder {
	b.Helper()
	f, err := avro.Raw(eventSchema)
	if err != nil {
		b.Fatal(err)
	}
	columns, err := f.Columns(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return rawDecoder(b, eventSchema, columns)
}

// BenchmarkDecode compares messages to columns with the library's messages to maps, which has no columns yet.
func BenchmarkDecode(b *testing.B) {
	messages, size := events(b, 4096)
	b.Run("columns", func(b *testing.B) {
		d := benchDecoder(b)
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
	b.Run("twmb maps", func(b *testing.B) {
		s := lib.MustParse(eventSchema)
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			for _, m := range messages {
				var v any
				if _, err := s.Decode(m, &v); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// Once warm, a message costs no allocation.
func TestNoAllocations(t *testing.T) {
	messages, _ := events(t, 500)
	d := benchDecoder(t)
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
