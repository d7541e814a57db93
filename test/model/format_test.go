package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/gzip"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

const avroText = `{"type":"record","name":"R","fields":[{"name":"n","type":"long"},{"name":"s","type":["null","string"]}]}`

// encoded is a format and values of it.
type encoded struct {
	name    string
	options format.Options
	value   func(n int) []byte // of {n, s: "s" and n}
}

// formats are one of each kind, and some that a registry or gzip is needed for.
func formats(t *testing.T) []encoded {
	srv := srfake.New()
	t.Cleanup(srv.Close)
	id, _, err := srv.RegisterSchema("t-value", sr.Schema{Type: sr.TypeAvro, Schema: avroText})
	if err != nil {
		t.Fatal(err)
	}
	schema := avro.MustParse(avroText)
	plain := func(n int) []byte {
		v, err := schema.Encode(map[string]any{"n": int64(n), "s": fmt.Sprint("s", n)})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	framed := func(n int) []byte { return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), plain(n)...) }
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("r.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("R"),
			Field: []*descriptorpb.FieldDescriptorProto{
				{Name: proto.String("n"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
				{Name: proto.String("s"), Number: proto.Int32(2), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
			}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	message := func(n int) []byte {
		b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(n))
		return protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), fmt.Sprint("s", n))
	}
	zipped := func(n int) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(plain(n)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	return []encoded{
		{format.AvroRaw, format.Options{Schemas: []string{avroText}}, plain},
		{format.AvroRaw + format.Gzip, format.Options{Schemas: []string{avroText}}, zipped},
		{format.AvroConfluent, format.Options{Registry: registry.Config{URLs: []string{srv.URL()}}}, framed},
		{format.Protobuf, format.Options{Schemas: []string{string(set)}, Message: "R"}, message},
		{format.CSV, format.Options{CSV: format.CSVOptions{Fields: []string{"s", "n"}, Comma: ';'}}, func(n int) []byte { return fmt.Appendf(nil, "s%d;%d", n, n) }},
	}
}

// What tiering makes of values of any format, and what a reader makes of those that are still in the log, is one stream,
// wherever the seam is: the reader is told the format by the table alone (I4).
func TestSeamOfFormats(t *testing.T) {
	const n, perBatch = 48, 4
	for _, f := range formats(t) {
		made, err := format.Parse(f.name, f.options)
		if err != nil {
			t.Fatal(err)
		}
		defer made.Close()
		for tiered := 0; tiered <= n; tiered += 3 * perBatch {
			w := newWorld(t, rand.New(rand.NewPCG(uint64(tiered), 2)))
			w.store, w.format = mem.New(), made
			cfg := table.Config{Topic: topic, Log: quickLog()}
			if tiered == 0 { // else by the first commit
				cfg.Properties = map[string]string{format.Property(topic): made.String()}
			}
			w.table, err = table.Create(t.Context(), w.store, arrow.NewSchema([]arrow.Field{
				{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, nil), cfg)
			if err != nil {
				t.Fatal(err)
			}
			var want, bad []string
			for at := 0; at < n; at += perBatch {
				b := record.NewBuilder(record.Zstd)
				for i := at; i < at+perBatch; i++ {
					value := f.value(i)
					if i%10 == 5 {
						value = append([]byte{'"', 0xff}, value...) // of no format
						bad = append(bad, fmt.Sprint(i))
					} else {
						want = append(want, fmt.Sprintf("%d|%d|s%d", i, i, i))
					}
					b.Append(int64(1000+i), nil, value, nil)
				}
				raw, err := b.Build(0)
				if err == nil {
					_, err = w.log.Append(t.Context(), tp(0), raw)
				}
				if err != nil {
					t.Fatal(err)
				}
				if at+perBatch == tiered {
					w.tierWith(3)
					w.tierWith(0)
				}
			}
			if got, gaps := w.rows("_offset", "n", "s"); strings.Join(got, " ") != strings.Join(want, " ") || strings.Join(gaps, " ") != strings.Join(bad, " ") {
				w.fail("%s, seam at %d: rows are\n%v\nwant\n%v\ngaps %v, want %v", f.name, tiered, got, want, gaps, bad)
			}
		}
	}
}

// rows gives the named columns of what a reader reads, and the offsets that it reports as gaps.
func (w *world) rows(columns ...string) (rows, gaps []string) {
	cfg := w.config()
	cfg.OnGap = func(g reader.Gap) {
		for o := g.From; o < g.To; o++ {
			gaps = append(gaps, fmt.Sprint(o))
		}
	}
	c := open(w.t, cfg)
	for {
		rb, err := c.Next(w.t.Context())
		if errors.Is(err, io.EOF) {
			return rows, gaps
		}
		if err != nil {
			w.fail("read: %v", err)
		}
		for i := range int(rb.NumRows()) {
			var row []string
			for _, name := range columns {
				row = append(row, rb.Column(rb.Schema().FieldIndices(name)[0]).ValueStr(i))
			}
			rows = append(rows, strings.Join(row, "|"))
		}
		rb.Release()
	}
}

// A registry that cannot be asked ends a read with an error that says so, and never makes gaps of what it would have told.
func TestReadWithoutTheRegistry(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(1, 3)))
	srv := srfake.New()
	made, err := format.Parse(format.AvroConfluent, format.Options{Registry: registry.Config{URLs: []string{srv.URL()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	srv.Close()
	w.store = mem.New()
	w.table, err = table.Create(t.Context(), w.store, payload(), table.Config{Topic: topic, Log: quickLog(), Properties: map[string]string{format.Property(topic): made.String()}})
	if err != nil {
		t.Fatal(err)
	}
	b := record.NewBuilder(record.None)
	b.Append(1000, nil, []byte{0, 0, 0, 0, 1, 2}, nil)
	raw, err := b.Build(0)
	if err == nil {
		_, err = w.log.Append(t.Context(), tp(0), raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := w.config()
	cfg.OnGap = func(g reader.Gap) { t.Errorf("a gap: %+v", g) }
	_, err = open(t, cfg).Next(t.Context())
	var away *decode.UnavailableError
	if !errors.As(err, &away) {
		t.Errorf("Next = %v", err)
	}
}
