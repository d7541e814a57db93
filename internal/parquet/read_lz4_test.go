package parquet

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/pierrec/lz4/v4"
)

// The library's writer makes pages of codec LZ4 in tests, as Java does.
type lz4Writer struct{ lz4Codec }

func init() { compress.RegisterCodec(compress.Codecs.Lz4, lz4Writer{}) }

func (lz4Writer) Encode(dst, src []byte) []byte { return append(dst[:0], hadoop(nil, src)...) }
func (w lz4Writer) EncodeLevel(dst, src []byte, _ int) []byte {
	return w.Encode(dst, src)
}
func (lz4Writer) CompressBound(n int64) int64 { return 2*n + 64 }

// hadoop makes blocks of chunks, of random sizes where rng is not nil, else one of each.
func hadoop(rng *rand.Rand, b []byte) (out []byte) {
	part := func(n int) int {
		if rng == nil {
			return n
		}
		return 1 + rng.IntN(n)
	}
	for len(b) > 0 {
		block := part(len(b))
		out = binary.BigEndian.AppendUint32(out, uint32(block))
		for block > 0 {
			n := part(block)
			packed := make([]byte, lz4.CompressBlockBound(n))
			var c lz4.Compressor
			k, err := c.CompressBlock(b[:n], packed)
			if err != nil {
				panic(err)
			}
			out = append(binary.BigEndian.AppendUint32(out, uint32(k)), packed[:k]...)
			b, block = b[n:], block-n
		}
	}
	return out
}

func lz4Frames(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Pages of codec LZ4 are read whichever way they were framed, into exactly the room that the header says; what is cut off,
// too long or too short is damage (I8).
func TestLZ4InEveryFrame(t *testing.T) {
	rng := newRand(t)
	for range rounds(300) {
		plain := make([]byte, 2+rng.IntN(4000))
		for i := range plain {
			plain[i] = byte(rng.IntN(1 + rng.IntN(256)))
		}
		for name, packed := range map[string][]byte{"one block": hadoop(nil, plain), "blocks": hadoop(rng, plain), "a frame": lz4Frames(t, plain), "bare": hadoop(nil, plain)[8:]} {
			dst := bytes.Repeat([]byte{0xa5}, len(plain)+8)
			if err := unpackLZ4(dst[:len(plain)], packed); err != nil || !bytes.Equal(dst[:len(plain)], plain) {
				t.Fatalf("%s: %v", name, err)
			}
			if !bytes.Equal(dst[len(plain):], bytes.Repeat([]byte{0xa5}, 8)) {
				t.Fatalf("%s writes behind its room", name)
			}
			for _, room := range []int{len(plain) - 1, len(plain) + 1} {
				if err := unpackLZ4(dst[:room], packed); err == nil {
					t.Errorf("%s: %d bytes unfold to %d", name, len(plain), room)
				}
			}
			if cut := rng.IntN(len(packed)); unpackLZ4(dst[:len(plain)], packed[:cut]) == nil {
				t.Errorf("%s cut to %d of %d bytes is taken", name, cut, len(packed))
			}
		}
	}
}

func FuzzLZ4(f *testing.F) {
	plain := bytes.Repeat([]byte("ledger lake "), 20)
	for _, b := range [][]byte{hadoop(nil, plain), hadoop(rand.New(rand.NewPCG(1, 0)), plain), lz4Frames(f, plain), hadoop(nil, plain)[8:], make([]byte, 400)} {
		f.Add(b, uint16(len(plain)))
	}
	f.Fuzz(func(t *testing.T, b []byte, n uint16) {
		dst := bytes.Repeat([]byte{0xa5}, int(n)+8)
		_ = unpackLZ4(dst[:n], b)
		if !bytes.Equal(dst[n:], bytes.Repeat([]byte{0xa5}, 8)) {
			t.Fatal("it writes behind its room")
		}
	})
}
