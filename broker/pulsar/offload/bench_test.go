package offload

import (
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// BenchmarkEntries reads the entries of an offloaded ledger, 1 KB each, up to where package pulsar takes them.
func BenchmarkEntries(b *testing.B) {
	store := mem.New()
	all := make([][]byte, 20_000)
	for i := range all {
		all[i] = message(strings.Repeat("v", 1000), int64(i), nil)
	}
	data, idx := objects(managed, 4<<20, all...)
	for key, raw := range map[string][]byte{objectName(1): data, objectName(1) + "-index": idx} {
		if err := store.Put(b.Context(), key, raw); err != nil {
			b.Fatal(err)
		}
	}
	f := open(b, Config{Store: store})
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		k, err := f.Open(b.Context(), "persistent://a/b/events", pulsar.MessageID{Ledger: -1, Entry: -1}, nil)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for {
			_, ok, err := k.TryReceive()
			if err != nil {
				b.Fatal(err)
			}
			if !ok {
				break
			}
			n++
		}
		k.Close()
		if n != len(all) {
			b.Fatalf("%d entries, want %d", n, len(all))
		}
	}
}
