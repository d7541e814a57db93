package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// Frames of the library, of every option and of contents that compress well and badly, become what they were, and what the
// library refuses of damaged ones is refused here (I8).
func TestLZ4AsTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 3))
	for round := range 300 {
		plain := make([]byte, rng.IntN(1<<(4+rng.IntN(17))))
		for i := range plain {
			if plain[i] = byte(rng.Uint32()); i > 40 && round%4 > 0 && rng.IntN(10) < 9 {
				plain[i] = plain[i-1-rng.IntN(40)]
			}
		}
		if round%4 == 3 {
			clear(plain)
		}
		var buf bytes.Buffer
		w := lz4.NewWriter(&buf)
		opts := []lz4.Option{lz4.ChecksumOption(rng.IntN(2) == 0), lz4.BlockChecksumOption(rng.IntN(2) == 0),
			lz4.BlockSizeOption([]lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb}[rng.IntN(4)])}
		if rng.IntN(2) == 0 {
			opts = append(opts, lz4.SizeOption(uint64(len(plain))))
		}
		if err := w.Apply(opts...); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		frame := buf.Bytes()
		got, err := decompress(make([]byte, 0, rng.IntN(100)), frame, LZ4, len(plain))
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("round %d: %d of %d bytes, %v", round, len(got), len(plain), err)
		}
		if len(plain) > 0 {
			if _, err := decompress(nil, frame, LZ4, len(plain)-1); !errors.Is(err, errTooLarge) {
				t.Fatalf("round %d: one byte above the limit: %v", round, err)
			}
		}
		twice := append(append(bytes.Clone(frame), 0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9), frame...)
		if got, err := decompress(got, twice, LZ4, 2*len(plain)); err != nil || !bytes.Equal(got, append(bytes.Clone(plain), plain...)) {
			t.Fatalf("round %d: two frames: %d of %d bytes, %v", round, len(got), 2*len(plain), err)
		}
		damaged := bytes.Clone(frame)
		if damaged[rng.IntN(len(damaged))] ^= byte(1 + rng.IntN(255)); rng.IntN(3) == 0 {
			damaged = damaged[:rng.IntN(len(damaged))]
		}
		want, wantErr := io.ReadAll(io.LimitReader(lz4.NewReader(bytes.NewReader(damaged)), int64(len(plain))+1))
		got, err = decompress(nil, damaged, LZ4, len(plain)+1)
		if wantErr != nil && err == nil && len(damaged) > 0 || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("round %d: a damaged frame gave %d bytes; the library %d, %v", round, len(got), len(want), wantErr)
		}
	}
}

// A small batch in a frame that names large blocks takes memory of its own size (I8), and none when it comes again.
func TestLZ4Memory(t *testing.T) {
	plain := bytes.Repeat([]byte("ledger lake "), 1000)
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf) // blocks of 4 MiB
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := decompress(nil, buf.Bytes(), LZ4, 1<<20)
	if err != nil || !bytes.Equal(got, plain) || cap(got) > 4*len(plain) {
		t.Fatalf("%d of %d bytes in memory of %d, %v", len(got), len(plain), cap(got), err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if got, err = decompress(got, buf.Bytes(), LZ4, 1<<20); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Checksums inside of a batch are looked at unless the caller has verified that of the batch, and what is Verified gives the
// records all the same.
func TestLZ4Verified(t *testing.T) {
	value := bytes.Repeat([]byte("ledger lake "), 100)
	raw := kgoBatch(t, LZ4, []Record{{Timestamp: 1, Value: value}})
	if !lz4Flags(raw[HeaderSize+4]).contentChecksum() {
		t.Fatal("the client's frames have no checksum: the test shows nothing")
	}
	raw[len(raw)-1] ^= 1 // of the content's checksum, behind which nothing stands
	binary.BigEndian.PutUint32(raw[posCRC:], crc32.Checksum(raw[posAttributes:], castagnoli))
	batch, err := ReadBatch(raw)
	if err == nil {
		err = batch.VerifyCRC()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := new(Iterator).Reset(batch); err == nil {
		t.Error("a wrong checksum is not seen")
	}
	it := Iterator{Verified: true}
	if err := it.Reset(batch); err != nil || !it.Next() || !bytes.Equal(it.Record().Value, value) {
		t.Errorf("the record was not read: %v", err)
	}
}

func BenchmarkLZ4(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 3))
	var plain []byte
	for len(plain) < 16<<10 {
		plain = append(plain, `{"user":"user-`...)
		plain = append(plain, byte('0'+rng.IntN(10)), byte('0'+rng.IntN(10)), byte('0'+rng.IntN(10)))
		plain = append(plain, `","status":200,"url":"https://shop.example.org/products"}`...)
	}
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	_, _ = w.Write(plain)
	_ = w.Close()
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			var err error
			if dst, err = decompress(dst, buf.Bytes(), LZ4, 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		b.ReportAllocs()
		r := lz4.NewReader(nil)
		var dst []byte
		for b.Loop() {
			var err error
			r.Reset(bytes.NewReader(buf.Bytes()))
			if dst, err = readBounded(dst, r, 4*buf.Len(), 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
}
