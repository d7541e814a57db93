package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// scanAll gives the shapes that Scan finds, and the error.
func scanAll(b Batch, limit int) (out []Shape, err error) {
	err = Scan(b, limit, func(s Shape) error { out = append(out, s); return nil })
	return out, err
}

func iterateAll(b Batch, limit int) (out []Shape, err error) {
	it := Iterator{MaxBytes: limit}
	if err := it.Reset(b); err != nil {
		return nil, err
	}
	for it.Next() {
		r := it.Record()
		out = append(out, Shape{Delta: int32(r.Offset - b.BaseOffset), HasKey: r.Key != nil, Timestamp: r.Timestamp})
	}
	return out, it.Err()
}

// TestScanIsIterator: whatever the bytes, Scan takes what Iterator takes, and refuses what it refuses (I8).
func TestScanIsIterator(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 1))
	recs := odd()
	for i := range 300 { // larger than the window
		recs = append(recs, Record{Timestamp: int64(i), Key: bytes.Repeat([]byte{byte(i)}, rng.IntN(900)), Value: make([]byte, rng.IntN(900))})
	}
	for _, codec := range codecs {
		for _, rs := range [][]Record{recs, recs[:3]} {
			raw := build(t, codec, 3, rs)
			for i := range 400 {
				damaged := bytes.Clone(raw)
				if i > 0 {
					damaged[HeaderSize+rng.IntN(len(raw)-HeaderSize)] ^= 1 << rng.IntN(8)
				}
				b, err := ReadBatch(damaged)
				if err != nil {
					t.Fatal(err)
				}
				want, wantErr := iterateAll(b, 0)
				got, err := scanAll(b, 0)
				if (err == nil) != (wantErr == nil) || err == nil && len(got) != len(want) {
					t.Fatalf("%s, round %d: scan: %d records, %v; iterator: %d, %v", codec, i, len(got), err, len(want), wantErr)
				}
				if err != nil && !errors.Is(err, ErrCorrupt) {
					t.Fatalf("%s: error without a kind: %v", codec, err)
				}
				for j := range got {
					if err == nil && got[j] != want[j] {
						t.Fatalf("%s: record %d: %v, want %v", codec, j, got[j], want[j])
					}
				}
			}
		}
	}
}

// TestScanMemory: a small batch that decompresses to 100 MB takes what ScanMemory says at most (I8).
func TestScanMemory(t *testing.T) {
	value := make([]byte, 1<<20)
	for _, codec := range []Codec{Gzip, LZ4, Zstd} {
		b := NewBuilder(codec)
		for range 100 {
			b.Append(1, nil, value, nil)
		}
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := ReadBatch(raw)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		got, err := scanAll(batch, 0)
		runtime.ReadMemStats(&after)
		if err != nil || len(got) != 100 {
			t.Fatalf("%s: %d records, %v", codec, len(got), err)
		}
		used := int64(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%s: %d bytes of %d", codec, used, batch.ScanMemory())
		if used > batch.ScanMemory() {
			t.Errorf("%s: %d bytes of batch took %d bytes, said %d", codec, len(raw), used, batch.ScanMemory())
		}
		if _, err := scanAll(batch, 50<<20); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: above the limit: %v", codec, err)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for _, codec := range codecs {
		bld := NewBuilder(codec)
		rng := rand.New(rand.NewPCG(1, 1))
		n := 0
		for i := range 500 {
			v := fmt.Appendf(nil, `{"id":%d,"user":"u%d","note":"%0*d","x":%f}`, i, rng.IntN(1000), 60, rng.IntN(1e9), rng.Float64())
			n += len(v)
			bld.Append(int64(i), nil, v, nil)
		}
		raw, err := bld.Build(0)
		if err != nil {
			b.Fatal(err)
		}
		batch, err := ReadBatch(raw)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("scan/"+codec.String(), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				if err := Scan(batch, 0, func(Shape) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("iterator/"+codec.String(), func(b *testing.B) {
			b.SetBytes(int64(n))
			var it Iterator
			for b.Loop() {
				if err := it.Reset(batch); err != nil {
					b.Fatal(err)
				}
				for it.Next() {
				}
			}
		})
	}
}
