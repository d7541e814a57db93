package offload

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/envelope"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// TestEncryptedLedgersHaveTheSameOffsets: with the key the messages of offloaded ledgers come as they were sent; without, what is not
// encrypted stands at the same offsets (I2).
func TestEncryptedLedgersHaveTheSameOffsets(t *testing.T) {
	key, raw := pulsartest.PrivateKey(t)
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := envelope.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	p := pulsartest.NewProducer(t, []string{"app"}, &key.PublicKey)
	s := mem.New()
	put(t, s, 5, pulsartest.Message(1, "a"), p.Encrypt(t, pulsartest.Batch(2, "b", "c", "d")), p.Encrypt(t, pulsartest.Chunk("u", 3, 0, 2, 2, "e")))
	put(t, s, 6, p.Encrypt(t, pulsartest.Chunk("u", 3, 1, 2, 2, "f")), pulsartest.Message(4, "g"))
	f := open(t, Config{Store: s})
	if got, want := readBy(t, pulsar.Config{Keys: keys}, f, 0), []string{"0 a", "1 b", "2 c", "3 d", "4 ef", "5 g"}; !slices.Equal(got, want) {
		t.Errorf("with the key: %q, want %q", got, want)
	}
	if got := read(t, f, 0); len(got) != 4 || got[0] != "0 a" || got[1][:2] != "1 " || got[2][:2] != "4 " || got[3] != "5 g" {
		t.Errorf("without: %q", got)
	}
}
