package tiering_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ledgerlake/ledgerlake/decode"
	ouravro "github.com/ledgerlake/ledgerlake/decode/avro"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// schemas is a registry of schemas of one kind, from id 1 on.
type schemas struct {
	kind  registry.Kind
	texts []string
}

func (s schemas) ByID(id int) (*registry.Schema, error) {
	if id < 1 || id > len(s.texts) {
		return nil, registry.ErrUnknown
	}
	return &registry.Schema{ID: id, Kind: s.kind, Text: s.texts[id-1]}, nil
}

func (s schemas) Latest(context.Context, string) (*registry.Schema, error) {
	return s.ByID(len(s.texts))
}

func framed(id uint32, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), body...)
}

// avroValue writes fields by a schema of the registry.
func (s schemas) avroValue(t *testing.T, id uint32, fields map[string]any) []byte {
	t.Helper()
	schema, err := avro.Parse(s.texts[id-1])
	if err != nil {
		t.Fatal(err)
	}
	body, err := schema.Encode(fields)
	if err != nil {
		t.Fatal(err)
	}
	return framed(id, body)
}

var avroVersions = schemas{registry.Avro, []string{
	`{"type":"record","name":"R","fields":[{"name":"i","type":"int"},{"name":"f","type":"float"},{"name":"o","type":{"type":"record","name":"O","fields":[{"name":"i","type":"int"}]}}]}`,
	`{"type":"record","name":"R","fields":[{"name":"i","type":"long"},{"name":"f","type":"double"},{"name":"o","type":{"type":"record","name":"O","fields":[
		{"name":"i","type":"long"},{"name":"name","type":["null","string"]}]}},{"name":"more","type":{"type":"array","items":"long"}},{"name":"odd","type":["int","string"]}]}`,
	`{"type":"record","name":"R","fields":[{"name":"i","type":["null","double"]},{"name":"f","type":"string"}]}`,
}}

func avroColumns() []arrow.Field {
	return []arrow.Field{nullable("i", arrow.PrimitiveTypes.Int32), nullable("f", arrow.PrimitiveTypes.Float32),
		nullable("o", arrow.StructOf(nullable("i", arrow.PrimitiveTypes.Int32)))}
}

func avroRecords(t *testing.T) (old, wide, odd []byte) {
	t.Helper()
	old = avroVersions.avroValue(t, 1, map[string]any{"i": int32(1), "f": float32(0.5), "o": map[string]any{"i": int32(2)}})
	wide = avroVersions.avroValue(t, 2, map[string]any{"i": int64(3), "f": 0.1, "o": map[string]any{"i": int64(5_000_000_000), "name": "x"},
		"more": []int64{6, 7}, "odd": int32(1)})
	odd = avroVersions.avroValue(t, 3, map[string]any{"i": 1.5, "f": "text"})
	return old, wide, odd
}

// TestFollowAvro: the table gets the fields and the wider types of a schema before the first record of it is a row, so that
// no digit is lost; what rows there are keep their values; a type that no column widens to makes dead letters (I3, I7).
func TestFollowAvro(t *testing.T) {
	for _, c := range []struct {
		name          string
		evolve, widen bool
		schema, rows  string
		dead          int64
	}{
		{"both", true, true, "i:long,f:double,o:struct<i:long,name:string>,more:array<long>", "1|0.5|{\"i\":2,\"name\":null}|(null) 3|0.1|{\"i\":5000000000,\"name\":\"x\"}|[6,7] 1|0.5|{\"i\":2,\"name\":null}|(null)", 1},
		{"widen alone", false, true, "i:long,f:double,o:struct<i:long>", "1|0.5|{\"i\":2} 3|0.1|{\"i\":5000000000} 1|0.5|{\"i\":2}", 1},
		{"evolve alone", true, false, "i:integer,f:float,o:struct<i:integer,name:string>,more:array<long>", "1|0.5|{\"i\":2,\"name\":null}|(null) 1|0.5|{\"i\":2,\"name\":null}|(null)", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.partitioned(nil, avroColumns()...)
			r.cfg.NewDecoder, r.cfg.Evolve, r.cfg.Widen = ouravro.Confluent(avroVersions, "").NewDecoder, c.evolve, c.widen
			old, wide, odd := avroRecords(t)
			r.log.append(t, 0, record.None, old)
			r.mustRun()
			r.log.append(t, 0, record.None, wide, old, odd)
			if s := r.mustRun(); s.DeadLetters != c.dead {
				t.Errorf("%d dead letters, want %d", s.DeadLetters, c.dead)
			}
			columns := []string{"i", "f", "o"}
			if c.evolve {
				columns = append(columns, "more")
			}
			if got := strings.Join(scanned(t, r.store, columns...), " "); got != c.rows {
				t.Errorf("rows are\n%s\nwant\n%s", got, c.rows)
			}
			_, snap := rows(t, r.store)
			if s := snap.Schema().String(); !strings.Contains(s, c.schema) {
				t.Errorf("columns are %s, want %s", s, c.schema)
			}
			if c.widen != (len(snap.ReaderFeatures()) > 0) {
				t.Errorf("features %v", snap.ReaderFeatures())
			}
			if s := r.mustRun(); s.Records != 0 { // nothing is read again, and nothing changes any more
				t.Errorf("a run with nothing to do: %+v", s)
			}
		})
	}
}

// Producers of two schemas that take turns cost one change of the table, not one each.
func TestFollowTurns(t *testing.T) {
	r := newRig(t, 1)
	r.partitioned(nil, avroColumns()...)
	r.cfg.NewDecoder, r.cfg.Evolve, r.cfg.Widen = ouravro.Confluent(avroVersions, "").NewDecoder, true, true
	old, wide, _ := avroRecords(t)
	var values [][]byte
	for range 50 {
		values = append(values, old, wide)
	}
	r.log.append(t, 0, record.None, values...)
	s := r.mustRun()
	if s.Rows != 100 || s.DeadLetters != 0 || s.Restarts > 2 { // one for the fields, one for the types
		t.Errorf("%+v", s)
	}
}

// What is compressed, or goes through a transform, follows its schema too; a column that a transform fills does not.
func TestFollowThroughOthers(t *testing.T) {
	old, wide, _ := avroRecords(t)
	r := newRig(t, 1)
	r.partitioned(nil, append(avroColumns(), nullable("twice", arrow.PrimitiveTypes.Int32))...)
	r.cfg.NewDecoder = func(payload *arrow.Schema) (decode.Decoder, error) {
		d, err := ouravro.Confluent(avroVersions, "").NewDecoder(payload)
		return &inside{d}, err
	}
	r.cfg.Evolve, r.cfg.Widen = true, true
	r.cfg.Transform = transform.Spec{Set: []transform.Field{{Property: "f", Source: "kafka.offset"}}}
	r.log.append(t, 0, record.None, old, wide)
	if s := r.mustRun(); s.Rows != 2 {
		t.Errorf("%+v", s)
	}
	_, snap := rows(t, r.store)
	if s := snap.Schema().String(); !strings.Contains(s, "i:long") || !strings.Contains(s, "f:float") || !strings.Contains(s, "more:array<long>") {
		t.Errorf("columns are %s", s)
	}
}

// inside is a decoder around another one.
type inside struct{ decode.Decoder }

func (i *inside) Inner() decode.Decoder { return i.Decoder }

// TestFollowProtobuf is TestFollowAvro for messages: int32 becomes int64 and uint64 a decimal of 20 digits, as fields of new tables do.
func TestFollowProtobuf(t *testing.T) {
	versions := schemas{registry.Protobuf, []string{
		"syntax = \"proto3\"; message M { int32 i = 1; int64 u = 2; float f = 3; }",
		"syntax = \"proto3\"; message M { int64 i = 1; uint64 u = 2; double f = 3; string name = 4; }",
	}}
	r := newRig(t, 1)
	r.partitioned(nil, nullable("i", arrow.PrimitiveTypes.Int32), nullable("u", arrow.PrimitiveTypes.Int64), nullable("f", arrow.PrimitiveTypes.Float32))
	r.cfg.NewDecoder, r.cfg.Evolve, r.cfg.Widen = protobuf.Confluent(versions, "", "").NewDecoder, true, true
	varint := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	old := varint(varint([]byte{0}, 1, 7), 2, 8) // the message index, and two fields
	wide := varint(varint([]byte{0}, 1, 5_000_000_000), 2, math.MaxUint64)
	wide = protowire.AppendFixed64(protowire.AppendTag(wide, 3, protowire.Fixed64Type), math.Float64bits(0.1))
	wide = protowire.AppendString(protowire.AppendTag(wide, 4, protowire.BytesType), "x")
	r.log.append(t, 0, record.None, framed(1, old), framed(2, wide))
	if s := r.mustRun(); s.Rows != 2 || s.DeadLetters != 0 {
		t.Errorf("%+v", s)
	}
	if got := strings.Join(scanned(t, r.store, "i", "u", "f", "name"), " "); got != "7|8|0|(null) 5000000000|18446744073709551615|0.1|x" {
		t.Errorf("rows are %s", got)
	}
	_, snap := rows(t, r.store)
	if s := snap.Schema().String(); !strings.Contains(s, "i:long,u:decimal(20,0),f:double,name:string") {
		t.Errorf("columns are %s", s)
	}
}

// TestFollowFaults proves I3 over a change by schema: whatever one call of the store fails or loses its answer, the table comes
// to the same rows.
func TestFollowFaults(t *testing.T) {
	old, wide, _ := avroRecords(t)
	for _, lose := range []bool{false, true} {
		for k := int64(1); ; k++ {
			r := newRig(t, 1)
			r.partitioned(nil, avroColumns()...)
			r.cfg.NewDecoder, r.cfg.Evolve, r.cfg.Widen, r.cfg.MaxRows = ouravro.Confluent(avroVersions, "").NewDecoder, true, true, 2
			r.log.append(t, 0, record.None, old, old)
			r.log.append(t, 0, record.None, wide, old, wide)
			tr, done := r.open()
			first, hit := r.store.Calls(), false
			r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
				if c.N != first+k {
					return mem.Fault{}
				}
				hit = true
				if lose {
					return mem.Fault{After: errors.New("injected")}
				}
				return mem.Fault{Before: errors.New("injected")}
			})
			err := tr.Run(t.Context())
			done()
			r.store.SetHook(nil)
			if err != nil {
				r.mustRun() // a fault of the last commit ends the run; the next one goes on
			}
			if got := strings.Join(scanned(t, r.store, "i", "f"), " "); got != "1|0.5 1|0.5 3|0.1 1|0.5 3|0.1" {
				t.Fatalf("call %d, lost %v: rows %s (%v)", k, lose, got, err)
			}
			if !hit {
				if k < 10 {
					t.Fatalf("only %d calls: nothing is proven", k)
				}
				break
			}
		}
	}
}
