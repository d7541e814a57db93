package pulsar

import (
	"bytes"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/envelope"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/record"
)

// keyFolder has a private key NAME.pem of each name. With no name the keys are of nobody.
func keyFolder(t *testing.T, names ...string) (dir string, public map[string]*rsa.PublicKey) {
	t.Helper()
	dir, public = t.TempDir(), map[string]*rsa.PublicKey{}
	for _, name := range append(names, "of-nobody") {
		key, raw := pulsartest.PrivateKey(t)
		public[name] = &key.PublicKey
		addKey(t, dir, name, raw)
	}
	return dir, public
}

func addKey(t *testing.T, dir, name string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name+".pem"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func openKeys(t *testing.T, b *pulsartest.Broker, index Index, dir string, keep bool) *Source {
	t.Helper()
	cfg := Config{Service: b.Addr(), Index: index, RetryTimeout: 10 * time.Second, KeepUndecryptable: keep}
	if dir != "" {
		var err error
		if cfg.Keys, err = envelope.Load(dir); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// found is a record with what keeps it decryptable.
type found struct {
	row
	metadata [][]byte
	sizes    string
	wrong    string
}

// readSome gives the records of offsets [from, to), and what ended it before.
func readSome(t *testing.T, s *Source, from, to record.Offset) (out []found, err error) {
	t.Helper()
	for from < to {
		got, err := s.Fetch(t.Context(), []broker.FetchRange{{TP: part, From: from, MaxBytes: 1 << 20}}, broker.FetchOptions{MinBytes: 1, MaxWait: 20 * time.Second})
		if err = errors.Join(err, got[0].Err); err != nil {
			return out, err
		}
		if len(got[0].Batches) == 0 {
			t.Fatalf("nothing comes at offset %d of %d", from, to)
		}
		from = pulsartest.Records(t, got[0].Batches, func(r *record.Record) { out = append(out, foundOf(t, r)) })
	}
	return out, nil
}

func foundOf(t *testing.T, r *record.Record) (f found) {
	t.Helper()
	f.row = rowOf(t, r)
	for _, h := range r.Headers {
		switch string(h.Key) {
		case "__metadata":
			f.metadata = append(f.metadata, bytes.Clone(h.Value))
		case "__chunks":
			f.sizes = string(h.Value)
		case "__error":
			f.wrong = string(h.Value)
		}
	}
	return f
}

// sealedTopic has plain and encrypted messages that mix: single, batched, compressed and in chunks. It gives the values in order, and
// at which offsets rows stand where nothing is decrypted.
func sealedTopic(t *testing.T, b *pulsartest.Broker, p *pulsartest.Producer) (values []string, kept []record.Offset) {
	t.Helper()
	b.Create(brokerName)
	long := strings.Repeat("long ", 100)
	add := func(sealed bool, e []byte, of ...string) {
		if sealed {
			e = p.Encrypt(t, e)
			kept = append(kept, record.Offset(len(values)))
		} else {
			for i := range of {
				kept = append(kept, record.Offset(len(values)+i))
			}
		}
		b.Append(brokerName, len(of), e)
		values = append(values, of...)
	}
	for round := range 3 {
		v := func(i int) string { return fmt.Sprint(round, ".", i, " ", long) }
		seq := int64(100 * round)
		add(false, pulsartest.Message(seq, v(0)), v(0))
		add(true, pulsartest.Message(seq+1, v(1)), v(1))
		add(true, pulsartest.Batch(seq+2, v(2), v(3), v(4)), v(2), v(3), v(4))
		add(false, pulsartest.Batch(seq+3, v(5), v(6)), v(5), v(6))
		add(true, pulsartest.Compress(t, pulsartest.Batch(seq+4, v(7), v(8))), v(7), v(8))
		add(true, pulsartest.Compress(t, pulsartest.Message(seq+5, v(9))), v(9))
		add(true, pulsartest.Message(seq+6, ""), "")
		b.Roll(brokerName, 1)
	}
	// The broker counts a chunk as a message: the running index is of no use behind them.
	whole := "in chunks " + long
	for i, piece := range []string{whole[:200], whole[200:300], whole[300:]} {
		b.Append(brokerName, 1, p.Encrypt(t, pulsartest.Chunk("u", 500, i, 3, len(whole), piece)))
	}
	kept = append(kept, record.Offset(len(values)))
	values = append(values, whole)
	add(false, pulsartest.Message(600, "the last"), "the last")
	return values, kept
}

// openAgain decrypts a row that was kept as it is, by what stands beside it.
func openAgain(t *testing.T, keys *envelope.Keys, f *found) []byte {
	t.Helper()
	rest, out := []byte(f.value), []byte(nil)
	sizes := strings.Fields(f.sizes)
	if len(sizes) == 0 {
		sizes = []string{strconv.Itoa(len(rest))}
	}
	for i, size := range sizes {
		n, err := strconv.Atoi(size)
		if err != nil || len(f.metadata) != len(sizes) {
			t.Fatalf("chunks %q, and the metadata of %d", f.sizes, len(f.metadata))
		}
		if out, err = keys.Open(out, f.metadata[i], rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	return out
}

// TestEncryptedMessagesHaveTheSameOffsets: with the keys each message comes as it was sent, at the offset of its rank. Without, an entry
// is one row that can be decrypted later, and all others stand where they stand with the keys; whoever begins at any row counts
// alike, whatever he and the table have (I2, I4).
func TestEncryptedMessagesHaveTheSameOffsets(t *testing.T) {
	dir, public := keyFolder(t, "app")
	b := pulsartest.Start(t)
	want, keptAt := sealedTopic(t, b, pulsartest.NewProducer(t, []string{"app"}, public["app"]))
	end := record.Offset(len(want))
	opened, err := readSome(t, openKeys(t, b, nil, dir, false), 0, end)
	if err != nil || len(opened) != len(want) {
		t.Fatalf("%d records of %d: %v", len(opened), len(want), err)
	}
	for i, f := range opened {
		if f.value != want[i] || f.place.Offset != record.Offset(i) || f.metadata != nil || f.wrong != "" {
			t.Fatalf("record %d is %.40q at %+v, want %.40q", i, f.value, f.place, want[i])
		}
	}
	kept, err := readSome(t, openKeys(t, b, nil, "", false), 0, end)
	if err != nil || len(kept) != len(keptAt) {
		t.Fatalf("without keys: %d rows of %d: %v", len(kept), len(keptAt), err)
	}
	keys, err := envelope.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range kept {
		if f.place.Offset != keptAt[i] || f.wrong != "" {
			t.Fatalf("without keys row %d stands at %+v, want %d", i, f.place, keptAt[i])
		}
		if f.metadata == nil {
			if f.value != want[f.place.Offset] {
				t.Errorf("a plain message came as %.40q", f.value)
			}
		} else if got := openAgain(t, keys, &f); len(want[f.place.Offset]) > 0 && len(got) == 0 || f.value == want[f.place.Offset] {
			t.Errorf("row %d was not encrypted, or became nothing", i)
		} else if f.sizes != "" && string(got) != want[f.place.Offset] {
			t.Errorf("chunks that were kept became %.40q", got)
		}
	}
	for name, table := range map[string][]found{"decrypted": opened, "kept": kept} {
		for cut := 1; cut < len(table); cut++ {
			index := &rows{}
			for _, f := range table[:cut] {
				index.list = append(index.list, f.row)
			}
			from := table[cut].place.Offset
			for _, with := range []string{dir, ""} {
				s := openKeys(t, b, &sifted{rows: rows{list: index.list}, end: from}, with, false)
				got, err := readSome(t, s, from, end)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range got {
					i := slices.IndexFunc(opened, func(o found) bool { return o.place.Offset == f.place.Offset })
					if f.place.ID.Entry != opened[i].place.ID.Entry || f.place.ID.Ledger != opened[i].place.ID.Ledger || f.place.Index != opened[i].place.Index ||
						f.metadata == nil && f.value != want[i] {
						t.Fatalf("%s, from %d on: offset %d is %.40q at %+v, want %+v", name, from, i, f.value, f.place, opened[i].place)
					}
				}
				if got[0].place.Offset != from || got[len(got)-1].place.Offset != end-1 {
					t.Errorf("%s, from %d on, keys %q: the first is at %d, the last at %d of %d", name, from, with, got[0].place.Offset, got[len(got)-1].place.Offset, end)
				}
				_ = s.Close()
			}
		}
	}
}

// TestATableThatCountedAnEncryptedBatchAsOne: so did builds before there were keys. Who goes on behind such a row gives the next message
// the next offset, as they did (I2, I3).
func TestATableThatCountedAnEncryptedBatchAsOne(t *testing.T) {
	dir, public := keyFolder(t, "app")
	b := pulsartest.Start(t)
	b.Create(brokerName)
	p := pulsartest.NewProducer(t, []string{"app"}, public["app"])
	id := b.Append(brokerName, 3, p.Encrypt(t, pulsartest.Batch(1, "a", "b", "c")))
	b.Append(brokerName, 2, p.Encrypt(t, pulsartest.Batch(2, "d", "e")))
	at := MessageID{Ledger: id.Ledger, Entry: id.Entry, Batch: -1}
	table := &rows{list: []row{{place: Place{Offset: 0, ID: at, First: at, Index: 0}, value: "sealed"}}}
	got, err := readSome(t, openKeys(t, b, table, dir, false), 1, 3)
	if err != nil || len(got) != 2 || got[0].value != "d" || got[0].place.Offset != 1 || got[1].value != "e" || got[1].place.Offset != 2 {
		t.Errorf("behind the old row come %+v, %v", got, err)
	}
}

// TestWhoLacksAKeyEndsBeforeTheMessage: what comes before is given, the error names partition, message and key, again and again; with
// the key it goes on at that message, under the same source (I4, I7). Nothing of a key is in the error.
func TestWhoLacksAKeyEndsBeforeTheMessage(t *testing.T) {
	for _, name := range []string{"one message", "a batch", "in chunks"} {
		t.Run(name, func(t *testing.T) {
			dir, public := keyFolder(t, "old")
			late, lateKey := pulsartest.PrivateKey(t)
			b := pulsartest.Start(t)
			b.Create(brokerName)
			old, fresh := pulsartest.NewProducer(t, []string{"old"}, public["old"]), pulsartest.NewProducer(t, []string{"new"}, &late.PublicKey)
			b.Append(brokerName, 1, old.Encrypt(t, pulsartest.Message(1, "a")))
			end, want := record.Offset(4), []string{"a", "b", "c", "d"}
			switch name {
			case "one message":
				b.Append(brokerName, 1, fresh.Encrypt(t, pulsartest.Message(2, "b")))
				b.Append(brokerName, 1, old.Encrypt(t, pulsartest.Message(3, "c")))
			case "a batch":
				b.Append(brokerName, 2, fresh.Encrypt(t, pulsartest.Batch(2, "b", "c")))
			case "in chunks":
				b.Append(brokerName, 1, old.Encrypt(t, pulsartest.Chunk("u", 2, 0, 2, 1, "")))
				b.Append(brokerName, 1, fresh.Encrypt(t, pulsartest.Chunk("u", 2, 1, 2, 1, "b")))
				b.Append(brokerName, 1, pulsartest.Message(3, "c"))
			}
			b.Append(brokerName, 1, pulsartest.Message(4, "d"))
			s := openKeys(t, b, nil, dir, false)
			got, err := readSome(t, s, 0, end)
			for range 2 {
				var lacks *envelope.KeyError
				if !errors.As(err, &lacks) || !errors.Is(err, broker.ErrGiveUp) || len(got) > 1 {
					t.Fatalf("%d records, %v", len(got), err)
				}
				for _, say := range []string{part.String(), "message 1:", `"new"`, "--pulsar-keep-undecryptable"} {
					if !strings.Contains(err.Error(), say) {
						t.Errorf("%q is not in %v", say, err)
					}
				}
				if strings.Contains(err.Error(), string(lateKey[40:60])) {
					t.Errorf("the error shows the key: %v", err)
				}
				_, err = readSome(t, s, 1, end)
			}
			if last, err := s.CountEnd(t.Context(), part); err != nil || last != end {
				t.Errorf("counting needs no key: the end is %d, %v", last, err)
			}
			kept, err := readSome(t, openKeys(t, b, nil, dir, true), 0, end)
			if err != nil || kept[1].place.Offset != 1 || kept[1].wrong == "" || kept[1].metadata == nil || kept[len(kept)-1].value != "d" || kept[len(kept)-1].place.Offset != 3 {
				t.Errorf("to be kept, it came as %+v, %v", kept, err)
			}
			addKey(t, dir, "new", lateKey)
			if got, err = settled(t, s, 1, end); err != nil {
				t.Fatal(err)
			}
			for i, f := range got {
				if f.value != want[i+1] || f.place.Offset != record.Offset(i+1) {
					t.Errorf("with the key record %d is %q at %+v", i+1, f.value, f.place)
				}
			}
		})
	}
}

// settled is readSome once a new key is seen, which takes a moment.
func settled(t *testing.T, s *Source, from, to record.Offset) (got []found, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if got, err = readSome(t, s, from, to); err == nil {
			return got, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return got, err
		}
	}
}

// TestDamagedCiphertextIsKept: what no key mends is a row with its bytes and what is wrong, and those behind it come (I7). It has the
// offsets that it would have had.
func TestDamagedCiphertextIsKept(t *testing.T) {
	dir, public := keyFolder(t, "app")
	b := pulsartest.Start(t)
	b.Create(brokerName)
	p := pulsartest.NewProducer(t, []string{"app"}, public["app"])
	b.Append(brokerName, 1, pulsartest.Spoil(p.Encrypt(t, pulsartest.Message(1, "a"))))
	b.Append(brokerName, 3, pulsartest.Spoil(p.Encrypt(t, pulsartest.Batch(2, "b", "c", "d"))))
	b.Append(brokerName, 1, p.Encrypt(t, pulsartest.Chunk("u", 3, 0, 2, 2, "e")))
	b.Append(brokerName, 1, pulsartest.Spoil(p.Encrypt(t, pulsartest.Chunk("u", 3, 1, 2, 2, "e"))))
	b.Append(brokerName, 1, p.Encrypt(t, pulsartest.Message(4, "f")))
	got, err := readSome(t, openKeys(t, b, nil, dir, false), 0, 6)
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, at := range []record.Offset{0, 1, 4} {
		if f := got[i]; f.place.Offset != at || !strings.Contains(f.wrong, envelope.ErrDamaged.Error()) || len(f.metadata) == 0 || len(f.value) < 17 {
			t.Errorf("damage %d came as %+v", i, f)
		}
	}
	if f := got[3]; f.place.Offset != 5 || f.value != "f" {
		t.Errorf("behind the damage comes %+v", f)
	}
}
