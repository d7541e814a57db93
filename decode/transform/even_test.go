package transform_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// Whatever messages and policies come together, after each message all columns and the fields below them have as many
// rows as the decoder: a value that landed a row too early would stop the whole program (I7, I8).
func TestColumnsStayEven(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 3))
	specs := 0
	for range 1000 {
		spec := randomSpec(rng)
		if len(spec.Set) == 0 || spec.Validate() != nil {
			continue
		}
		specs++
		kafka := arrow.StructOf(column("offset", long), column("topic", text))
		producer := arrow.StructOf(column("ts", text), arrow.Field{Name: "need", Type: long, Nullable: rng.IntN(3) > 0})
		d := decoder(t, spec, column("meta", arrow.StructOf(column("kafka", kafka), column("producer", producer))), column("n", long),
			column("m", long), arrow.Field{Name: "req", Type: text, Nullable: rng.IntN(2) == 0})
		for range 20 {
			v := randomMessage(rng)
			_ = d.AppendRecord(rec(v)) // a bad one is taken back whole
			for i, a := range d.Arrays() {
				wantRows(t, a, d.Rows(), i, spec, v)
			}
		}
	}
	t.Logf("%d specs", specs)
	if specs < 100 {
		t.Fatalf("%d specs are none to judge by", specs)
	}
}

func randomSpec(rng *rand.Rand) (spec transform.Spec) {
	sources := []string{"a", "b", "meta", "meta.kafka", "kafka.offset", "kafka.topic"}
	policies := []transform.Policy{"", transform.Null, transform.Null, transform.DeadLetter}
	for _, p := range []string{"meta", "meta.kafka", "meta.kafka.offset", "meta.kafka.topic", "meta.producer", "n", "m", "req"} {
		if rng.IntN(2) == 0 {
			spec.Set = append(spec.Set, transform.Field{Property: p, Source: sources[rng.IntN(len(sources))], OnError: policies[rng.IntN(len(policies))]})
		}
	}
	rng.Shuffle(len(spec.Set), func(i, j int) { spec.Set[i], spec.Set[j] = spec.Set[j], spec.Set[i] })
	return spec
}

func randomMessage(rng *rand.Rand) string {
	members := []string{`"a":1`, `"a":"s"`, `"a":null`, `"a":{}`, `"a":{"offset":1}`, `"b":{"kafka":{"offset":"bad"}}`, `"b":2`, `"meta":null`, `"meta":{}`,
		`"meta":{"kafka":{"offset":5}}`, `"meta":{"kafka":null,"producer":{"need":1}}`, `"meta":{"producer":{}}`, `"n":3`, `"req":"r"`}
	var m []string
	for range rng.IntN(5) {
		m = append(m, members[rng.IntN(len(members))])
	}
	return "{" + strings.Join(m, ",") + "}"
}

func wantRows(t *testing.T, a arrow.Array, rows, column int, spec transform.Spec, message string) {
	t.Helper()
	if a.Len() != rows {
		t.Fatalf("%+v: %s: column %d, %s, has %d rows of %d", spec.Set, message, column, a.DataType(), a.Len(), rows)
	}
	if s, ok := a.(*array.Struct); ok {
		for i := range s.NumField() {
			wantRows(t, s.Field(i), rows, column, spec, message)
		}
	}
}
