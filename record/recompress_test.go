package record

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// TestRecompress: from every codec into every other one, and back, a batch keeps its records and all of its header but length,
// codec and CRC, and whatever reads batches reads it (I4).
func TestRecompress(t *testing.T) {
	seed := seedtest.New(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	long := odd()
	for i := range 400 { // several blocks of each codec
		long = append(long, Record{Timestamp: int64(i), Key: []byte{byte(i)}, Value: bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(2000))})
	}
	for _, recs := range [][]Record{long, odd()[:1]} {
		for _, from := range codecs {
			raw := build(t, from, 42, recs)
			before := bytes.Clone(raw)
			src, err := ReadBatch(raw)
			if err != nil {
				t.Fatal(err)
			}
			var it Iterator
			want, err := readAll(&it, raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, to := range codecs {
				out, err := Recompress(src, to, 0, 10<<20)
				if err != nil {
					t.Fatalf("seed %d, %s to %s: %v", seed, from, to, err)
				}
				if !bytes.Equal(raw, before) {
					t.Fatalf("%s to %s: the original has changed", from, to)
				}
				got, err := readAll(&it, out)
				if err != nil {
					t.Fatalf("seed %d, %s to %s: %v", seed, from, to, err)
				}
				if d := diff(want, got); d != "" {
					t.Fatalf("seed %d, %s to %s: %s", seed, from, to, d)
				}
				b, _ := ReadBatch(out)
				if b.Codec() != to || b.Size() != len(out) {
					t.Fatalf("%s to %s: codec %s, size %d of %d", from, to, b.Codec(), b.Size(), len(out))
				}
				h := b.BatchHeader
				h.Length, h.CRC, h.Attributes = src.Length, src.CRC, h.Attributes&^codecMask|src.Attributes&codecMask
				if h != src.BatchHeader {
					t.Fatalf("%s to %s: header %+v, want %+v", from, to, h, src.BatchHeader)
				}
				if n, err := scanAll(b, 0); err != nil || len(n) != len(want) {
					t.Fatalf("%s to %s: scan: %d records, %v", from, to, len(n), err)
				}
			}
		}
	}
}

// TestRecompressBounds: what would become too large, or unfolds to too much, is refused, whatever a few bytes promise (I8).
func TestRecompressBounds(t *testing.T) {
	b := NewBuilder(None)
	for range 30 {
		b.Append(1, nil, make([]byte, 1<<20), nil)
	}
	plain, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	big, err := ReadBatch(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, codec := range codecs[1:] {
		small, err := Recompress(big, codec, 0, len(plain))
		if err != nil {
			t.Fatalf("%s: %v", codec, err)
		}
		bomb, err := ReadBatch(small)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Recompress(bomb, None, 0, len(plain)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: one byte too many: %v", codec, err)
		}
		if out, err := Recompress(bomb, None, 0, len(plain)); err != nil || !bytes.Equal(out, plain) {
			t.Errorf("%s: back: %d bytes, %v", codec, len(out), err)
		}
		if _, err := Recompress(bomb, Snappy, 10<<20, len(plain)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: above the decompressed limit: %v", codec, err)
		}
		if _, err := Recompress(big, codec, 0, 200); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: larger than 200: %v", codec, err)
		}
		if out, err := Recompress(big, codec, 0, len(plain)); err != nil || !bytes.Equal(out, small) {
			t.Errorf("%s: a compressor that was given up spoils the next batch: %v", codec, err)
		}
	}
}

// TestRecompressDamage: damaged bytes give an error, or a batch of what they decompress to; never a panic (I8).
func TestRecompressDamage(t *testing.T) {
	seed := seedtest.New(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, codec := range codecs {
		raw := build(t, codec, 3, odd())
		for i := range 400 {
			damaged := bytes.Clone(raw)
			damaged[HeaderSize+rng.IntN(len(raw)-HeaderSize)] ^= 1 << rng.IntN(8)
			b, err := ReadBatch(damaged)
			if err != nil {
				t.Fatal(err)
			}
			out, err := Recompress(b, codecs[i%len(codecs)], 1<<20, 1<<20)
			if err != nil {
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
					t.Fatalf("seed %d, %s, round %d: error without a kind: %v", seed, codec, i, err)
				}
				continue
			}
			if h, err := ParseHeader(out); err != nil || h.Size() != len(out) {
				t.Fatalf("seed %d, %s, round %d: %v", seed, codec, i, err)
			}
		}
	}
}
