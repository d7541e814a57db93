package transform_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/record"
)

// BenchmarkFormats compares, for each format, rows without transforms, with one of the record's own, and with two that look at the value.
func BenchmarkFormats(b *testing.B) {
	utc := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	payload := arrow.NewSchema([]arrow.Field{column("id", arrow.PrimitiveTypes.Int64), column("kind", arrow.BinaryTypes.String), column("price", arrow.PrimitiveTypes.Float64),
		column("at", utc), column("o", arrow.PrimitiveTypes.Int64), column("n", arrow.PrimitiveTypes.Int64), column("age", arrow.PrimitiveTypes.Int32)}, nil)
	specs := []struct {
		name string
		spec transform.Spec
	}{
		{"plain", transform.Spec{}},
		{"record", transform.Spec{Set: []transform.Field{{Property: "o", Source: "kafka.offset"}}}},
		{"value", transform.Spec{Set: []transform.Field{{Property: "n", Source: "id"}, {Property: "age", Source: "who.age"}}}},
	}
	for _, name := range []string{"json", "json+gzip", "avro-raw", "avro-confluent", "protobuf"} {
		e := encodings(b)[name]
		f, err := format.Parse(name, e.options)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for _, s := range specs {
			b.Run(name+"/"+s.name, func(b *testing.B) {
				d, err := transform.Wrap(f.NewDecoder, payload, s.spec, "orders")
				if err != nil {
					b.Fatal(err)
				}
				whole, _ := d.(decode.RecordDecoder)
				rec := record.Record{Value: e.value}
				b.ReportAllocs()
				b.SetBytes(int64(len(e.value)))
				for i := 0; b.Loop(); i++ {
					if whole != nil {
						err = whole.AppendRecord(&rec)
					} else {
						err = d.Append(e.value)
					}
					if err != nil {
						b.Fatal(err)
					}
					if i%10_000 == 0 {
						d.Reset()
					}
				}
			})
		}
	}
}
