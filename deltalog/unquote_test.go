package deltalog

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// Texts full of quotes, as statistics are, come out as encoding/json has them, wherever backslashes, other escapes, control
// characters and the end of the text fall.
func TestTextsFullOfQuotes(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	pieces := []string{`\"`, `\"`, `\"`, "a", "bc", ":1,", "{", "}", `\\`, `\\\"`, `\n`, `\u0041`, `\/`, "\u00e9", "\xff", "\x01", `"`, `\x`, "and more text than a word"}
	for range 200_000 {
		var text strings.Builder
		text.WriteByte('"')
		plain := rng.IntN(3) > 0 // nothing but quotes and text
		for range rng.IntN(14) {
			if plain {
				text.WriteString(pieces[rng.IntN(8)])
			} else {
				text.WriteString(pieces[rng.IntN(len(pieces))])
			}
		}
		text.WriteString(`"` + strings.Repeat(" ", rng.IntN(10)))
		row := text.String()
		var want string
		wantErr := json.Unmarshal([]byte(row), &want)
		s := scanner{b: []byte(row)}
		got, err := s.text()
		if err == nil {
			s.space()
			if s.i < len(s.b) {
				err = s.fail("the end")
			}
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json says %v", row, err, wantErr)
		}
		if err == nil && string(got) != want {
			t.Fatalf("%q: %q, want %q", row, got, want)
		}
	}
}
