package tiering_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	ouravro "github.com/ledgerlake/ledgerlake/decode/avro"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestFollowTypes: producers of two types of a field take turns; after the column was widened for the one, the values of the
// other are rows still, each as it was (I7).
func TestFollowTypes(t *testing.T) {
	long := func(v int64) []byte { return binary.AppendVarint(nil, v) }
	float := func(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }
	double := func(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) }
	for _, c := range []struct {
		name, older, newer string
		column             arrow.DataType
		a, b               []byte
		typ, rows          string
	}{
		{"int and decimal", `"int"`, `{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}`, arrow.PrimitiveTypes.Int32, long(7), []byte{4, 1, 2}, "decimal(12,2)", "7 2.58"},
		{"date and local time", `{"type":"int","logicalType":"date"}`, `{"type":"long","logicalType":"local-timestamp-millis"}`, arrow.FixedWidthTypes.Date32,
			long(-7), long(2097), "timestamp_ntz", "1969-12-25T00:00:00 1970-01-01T00:00:02.097"},
		{"int and double", `"int"`, `"double"`, arrow.PrimitiveTypes.Int32, long(math.MaxInt32), double(0.5), "double", "2.147483647e+09 0.5"},
		{"float and int", `"float"`, `"int"`, arrow.PrimitiveTypes.Float32, float(7.5), long(16777217), "double", "7.5 1.6777217e+07"},
		{"float and long", `"float"`, `"long"`, arrow.PrimitiveTypes.Float32, float(7.5), long(16777217), "double", "7.5 1.6777217e+07"},
		{"float and double", `"float"`, `"double"`, arrow.PrimitiveTypes.Float32, float(7.5), double(0.1), "double", "7.5 0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const schema = `{"type":"record","name":"R","fields":[{"name":"i","type":%s}]}`
			v := schemas{registry.Avro, []string{fmt.Sprintf(schema, c.older), fmt.Sprintf(schema, c.newer)}}
			r := newRig(t, 1)
			r.partitioned(nil, nullable("i", c.column))
			r.cfg.NewDecoder, r.cfg.Widen = ouravro.Confluent(v, "").NewDecoder, true
			r.log.append(t, 0, record.None, framed(1, c.a), framed(2, c.b), framed(1, c.a), framed(2, c.b))
			if s := r.mustRun(); s.Rows != 4 || s.DeadLetters != 0 {
				t.Errorf("stats %+v", s)
			}
			if got := strings.Join(scanned(t, r.store, "i"), " "); got != c.rows+" "+c.rows {
				t.Errorf("rows are %s, want %s twice", got, c.rows)
			}
			if _, snap := rows(t, r.store); !strings.HasSuffix(snap.Schema().String(), "i:"+c.typ+">") {
				t.Errorf("columns are %s", snap.Schema())
			}
		})
	}
}

// A date beyond what microseconds can count is a dead letter, and no other day.
func TestDateBeyondTimestamps(t *testing.T) {
	v := schemas{registry.Avro, []string{`{"type":"record","name":"R","fields":[{"name":"i","type":{"type":"int","logicalType":"date"}}]}`}}
	r := newRig(t, 1)
	r.partitioned(nil, nullable("i", &arrow.TimestampType{Unit: arrow.Microsecond}))
	r.cfg.NewDecoder = ouravro.Confluent(v, "").NewDecoder
	r.log.append(t, 0, record.None, framed(1, binary.AppendVarint(nil, math.MaxInt32)), framed(1, binary.AppendVarint(nil, 1)))
	if s := r.mustRun(); s.Rows != 1 || s.DeadLetters != 1 {
		t.Errorf("stats %+v", s)
	}
	if got := strings.Join(scanned(t, r.store, "i"), " "); got != "1970-01-02T00:00:00" {
		t.Errorf("rows %s", got)
	}
}

// TestFollowWideMessages: a few lines of schema can declare more columns than there is memory; they are not followed, and the
// record is a row (I7, I8).
func TestFollowWideMessages(t *testing.T) {
	const depth = 60
	var b strings.Builder
	b.WriteString("syntax = \"proto3\"; message M { int64 i = 1; L0 x = 2; map<string, L0> y = 3; repeated L0 z = 4; }")
	for d := range depth {
		fmt.Fprintf(&b, " message L%d { L%d a = 1; L%d b = 2; }", d, d+1, d+1)
	}
	fmt.Fprintf(&b, " message L%d { int32 z = 1; }", depth)
	v := schemas{registry.Protobuf, []string{b.String()}}
	r := newRig(t, 1)
	r.partitioned(nil, nullable("i", arrow.PrimitiveTypes.Int32))
	r.cfg.NewDecoder, r.cfg.Evolve, r.cfg.Widen = protobuf.Confluent(v, "", "").NewDecoder, true, true
	r.log.append(t, 0, record.None, framed(1, []byte{0, 8, 1}))
	if s := r.mustRun(); s.Rows != 1 || s.DeadLetters != 0 {
		t.Errorf("stats %+v", s)
	}
	if _, snap := rows(t, r.store); !strings.HasSuffix(snap.Schema().String(), ",i:long>") {
		t.Errorf("columns are %s", snap.Schema())
	}
}
