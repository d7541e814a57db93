package decode

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const benchMessages = 8192

func eventSchema() *arrow.Schema {
	geo := arrow.StructOf(field("lat", arrow.PrimitiveTypes.Float64), field("lon", arrow.PrimitiveTypes.Float64))
	return arrow.NewSchema([]arrow.Field{
		field("event_id", arrow.BinaryTypes.String), field("event_type", arrow.BinaryTypes.String),
		field("occurred_at", utc), field("user_id", arrow.PrimitiveTypes.Int64), field("session", arrow.BinaryTypes.String),
		field("amount", arrow.PrimitiveTypes.Float64), field("quantity", arrow.PrimitiveTypes.Int32), field("success", arrow.FixedWidthTypes.Boolean),
		field("url", arrow.BinaryTypes.String), field("user_agent", arrow.BinaryTypes.String),
		field("device", arrow.StructOf(field("os", arrow.BinaryTypes.String), field("model", arrow.BinaryTypes.String), field("geo", geo))),
		field("tags", arrow.ListOf(arrow.BinaryTypes.String)), field("comment", arrow.BinaryTypes.String),
	}, nil)
}

// events writes messages of about 690 bytes, always the same ones, their keys in schema order or shuffled.
func events(n int, shuffle bool) [][]byte {
	rng := rand.New(rand.NewPCG(11, 13))
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	object := func(members ...string) string {
		if shuffle {
			rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	out := make([][]byte, n)
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	words := strings.Fields("the order came late but the box was fine and the second one too so please send more of the blue ones before friday thanks")
	for i := range out {
		at = at.Add(time.Duration(rng.IntN(5000)) * time.Microsecond)
		var comment []string
		for range 36 + rng.IntN(24) {
			comment = append(comment, words[rng.IntN(len(words))])
		}
		var tags []string
		for range rng.IntN(5) {
			tags = append(tags, `"`+pick("new", "returning", "mobile", "campaign-17", "beta", "eu-west")+`"`)
		}
		geo := object(fmt.Sprintf(`"lat":%.6f`, rng.Float64()*180-90), fmt.Sprintf(`"lon":%.6f`, rng.Float64()*360-180))
		device := object(`"os":"`+pick("linux", "android", "ios", "windows")+`"`, `"model":"`+pick("pixel-9", "mini-13", "generic")+`"`, `"geo":`+geo)
		out[i] = []byte(object(
			fmt.Sprintf(`"event_id":"%08x-%04x-4%03x-a%03x-%012x"`, rng.Uint32(), rng.IntN(1<<16), rng.IntN(1<<12), rng.IntN(1<<12), rng.Int64N(1<<48)),
			`"event_type":"`+pick("page_view", "purchase", "search", "sign_in")+`"`,
			`"occurred_at":"`+at.Format("2006-01-02T15:04:05.000000Z07:00")+`"`,
			fmt.Sprintf(`"user_id":%d`, rng.Int64N(1e9)), fmt.Sprintf(`"session":"%016x"`, rng.Uint64()),
			fmt.Sprintf(`"amount":%.2f`, rng.Float64()*1000), fmt.Sprintf(`"quantity":%d`, rng.IntN(20)), `"success":`+pick("true", "true", "false"),
			fmt.Sprintf(`"url":"https://shop.example.com/%s/item/%d?ref=%s"`, pick("toys", "books", "garden"), rng.IntN(1e6), pick("mail", "search", "none")),
			`"user_agent":"`+pick("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "Mozilla/5.0 (iPhone; CPU iPhone OS 19_2 like Mac OS X)", "shop-app/4.2.1 (android 16)")+`"`,
			`"device":`+device, `"tags":[`+strings.Join(tags, ",")+`]`, `"comment":"`+strings.Join(comment, " ")+`"`))
	}
	return out
}

func totalBytes(msgs [][]byte) (n int64) {
	for _, m := range msgs {
		n += int64(len(m))
	}
	return n
}

func TestWarmJSONDoesNotAllocate(t *testing.T) {
	for _, shuffle := range []bool{false, true} {
		d, err := NewJSON(eventSchema(), JSONOptions{})
		if err != nil {
			t.Fatal(err)
		}
		msgs := events(500, shuffle)
		if mean := totalBytes(msgs) / 500; mean < 640 || mean > 740 {
			t.Errorf("a message has %d bytes", mean)
		}
		all := func() {
			d.Reset()
			for _, m := range msgs {
				if err := d.Append(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		all()
		if n := testing.AllocsPerRun(100, all); n != 0 {
			t.Errorf("shuffle %v: %v allocations for 500 rows", shuffle, n)
		}
	}
	// Escapes, maps with equal keys, decimals and base64 take the slow paths.
	d := newTestJSON(t, JSONOptions{}, everyType().Fields()...)
	msg := []byte(`{"need":1,"\u0074ext":"a\n\u20ac","blob":"AAEC","price":12.5,"f64":1.7976931348623157e300,"props":{"a":"1","b":"2","a":"3"},"unknown":[{"x":"\n"}]}`)
	one := func() {
		d.Reset()
		if err := d.Append(msg); err != nil {
			t.Fatal(err)
		}
	}
	one()
	if n := testing.AllocsPerRun(100, one); n != 0 {
		t.Errorf("%v allocations for a row of slow paths", n)
	}
}

// The benchmark events decode to what the baseline makes of them.
func TestJSONEqualsBuilders(t *testing.T) {
	for _, shuffle := range []bool{false, true} {
		msgs := events(300, shuffle)
		d := newTestJSON(t, JSONOptions{}, eventSchema().Fields()...)
		b := newBaseline()
		for _, m := range msgs {
			if err := errorsOf(d.Append(m), b.append(m)); err != nil {
				t.Fatal(err)
			}
		}
		got := array.NewRecordBatch(d.Schema(), d.Arrays(), int64(d.Rows()))
		if want := b.builder.NewRecordBatch(); !array.RecordEqual(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// baseline is the plain way: encoding/json into a map, then the builders of arrow.
type baseline struct{ builder *array.RecordBuilder }

func newBaseline() *baseline {
	return &baseline{builder: array.NewRecordBuilder(memory.DefaultAllocator, eventSchema())}
}

func (b *baseline) append(msg []byte) error {
	var row map[string]any
	if err := json.Unmarshal(msg, &row); err != nil {
		return err
	}
	for i, f := range b.builder.Schema().Fields() {
		if err := put(b.builder.Field(i), f.Type, row[f.Name]); err != nil {
			return err
		}
	}
	return nil
}

func put(b array.Builder, t arrow.DataType, v any) error {
	if v == nil {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.Int64Builder:
		b.Append(int64(v.(float64)))
	case *array.Int32Builder:
		b.Append(int32(v.(float64)))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.TimestampBuilder:
		at, err := time.Parse(time.RFC3339, v.(string))
		if err != nil {
			return err
		}
		b.Append(arrow.Timestamp(at.UnixMicro()))
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range t.(*arrow.StructType).Fields() {
			if err := put(b.FieldBuilder(i), f.Type, v.(map[string]any)[f.Name]); err != nil {
				return err
			}
		}
	case *array.ListBuilder:
		b.Append(true)
		for _, e := range v.([]any) {
			if err := put(b.ValueBuilder(), t.(*arrow.ListType).Elem(), e); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("no baseline for %s", t)
	}
	return nil
}

func benchDecoder(b *testing.B, msgs [][]byte) {
	d, err := NewJSON(eventSchema(), JSONOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(totalBytes(msgs))
	for b.Loop() {
		d.Reset()
		for _, m := range msgs {
			if err := d.Append(m); err != nil {
				b.Fatal(err)
			}
		}
		if len(d.Arrays()) != 13 {
			b.Fatal("columns missing")
		}
	}
}

// reversed writes the members of a message in the opposite order.
func reversed(b *testing.B, msg []byte) []byte {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(msg, &members); err != nil {
		b.Fatal(err)
	}
	var parts []string
	for _, f := range eventSchema().Fields() {
		parts = append([]string{fmt.Sprintf("%q:%s", f.Name, members[f.Name])}, parts...)
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// BenchmarkJSON decodes batches of 8192 messages; an operation is a batch.
func BenchmarkJSON(b *testing.B) {
	ordered, shuffled := events(benchMessages, false), events(benchMessages, true)
	b.Run("one_key_order", func(b *testing.B) { benchDecoder(b, ordered) })
	b.Run("random_key_order", func(b *testing.B) { benchDecoder(b, shuffled) })
	b.Run("two_key_orders", func(b *testing.B) {
		mixed := make([][]byte, len(ordered))
		for i := range mixed {
			mixed[i] = ordered[i]
			if i%2 == 1 {
				mixed[i] = reversed(b, ordered[i])
			}
		}
		benchDecoder(b, mixed)
	})
	b.Run("one_key_order_spaced", func(b *testing.B) {
		spaced := make([][]byte, len(ordered))
		for i, m := range ordered {
			spaced[i] = []byte(strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(string(m)))
		}
		benchDecoder(b, spaced)
	})
	b.Run("baseline_map_builders", func(b *testing.B) {
		base := newBaseline()
		b.ReportAllocs()
		b.SetBytes(totalBytes(ordered))
		for b.Loop() {
			for _, m := range ordered {
				if err := base.append(m); err != nil {
					b.Fatal(err)
				}
			}
			base.builder.NewRecordBatch().Release()
		}
	})
}
