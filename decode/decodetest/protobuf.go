package decodetest

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/decode/protobuf"
)

// CheckProtobuf decodes what encodeproto.py wrote.
func CheckProtobuf(t testing.TB, ndjson []byte) {
	t.Helper()
	type vector struct {
		Set, Message string
		Rows         []struct {
			Hex  string
			Want map[string]any
		}
	}
	Lines(t, ndjson, func(v vector) {
		var rows []Row
		for _, r := range v.Rows {
			rows = append(rows, Row{Hex(t, r.Hex), r.Want})
		}
		f, err := protobuf.Message(Hex(t, v.Set), v.Message)
		if err != nil {
			t.Fatal(err)
		}
		Check(t, f, rows)
	})
}
