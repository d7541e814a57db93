package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A ledger that is asked for in vain again and again is lost; one that is asked for once may still come.
func TestLostLedger(t *testing.T) {
	p := &RealPulsar{dir: t.TempDir()}
	const line = "08:23:02.848 ERROR ReadLastConfirmedOp Mac mismatch for ledger: 160, entry: -1 while reading last entry from bookie: 127.0.0.1:27963\n"
	for _, c := range []struct {
		times int
		lost  bool
	}{{0, false}, {1, false}, {20, true}} {
		if err := os.WriteFile(filepath.Join(p.dir, "broker.log"), []byte(strings.Repeat(line, c.times)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.lostLedger(); (err != nil) != c.lost || err != nil && !strings.Contains(err.Error(), "ledger 160") {
			t.Errorf("%d times: %v", c.times, err)
		}
	}
}
