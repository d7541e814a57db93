package decodetest

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/decode/avro"
)

// CheckAvro decodes what encodeavro.py wrote, raw, as single objects and as containers.
func CheckAvro(t testing.TB, ndjson []byte) {
	t.Helper()
	type vector struct {
		Schema, SOE string
		Rows        []struct {
			Hex, Container string
			Want           map[string]any
		}
	}
	Lines(t, ndjson, func(v vector) {
		var raw, single, container []Row
		for _, r := range v.Rows {
			b := Hex(t, r.Hex)
			raw = append(raw, Row{b, r.Want})
			single = append(single, Row{append(append([]byte{0xc3, 1}, Hex(t, v.SOE)...), b...), r.Want})
			container = append(container, Row{Hex(t, r.Container), r.Want})
		}
		f, err := avro.Raw(v.Schema)
		if err != nil {
			t.Fatal(err)
		}
		Check(t, f, raw)
		if f, err = avro.SingleObject([]string{v.Schema}); err != nil {
			t.Fatal(err)
		}
		Check(t, f, single)
		Check(t, avro.Container(), container)
	})
}
