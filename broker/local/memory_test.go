package local

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestDecompressionMemory appends small batches that decompress to 100 MB each, many at once: checking them must
// not hold what they decompress to (I8).
func TestDecompressionMemory(t *testing.T) {
	appenders := 12
	if testing.Short() {
		appenders = 3
	}
	for _, codec := range []record.Codec{record.Gzip, record.LZ4, record.Zstd} {
		b := record.NewBuilder(codec)
		value := make([]byte, 1<<20)
		for range 100 {
			b.Append(start.UnixMilli(), nil, value, nil)
		}
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		cfg := smallConfig(vfs.NewMem())
		cfg.ValidateMemory = 40 << 20
		l := mustOpen(t, cfg)
		mustCreate(t, l, "t", broker.TopicConfig{SegmentBytes: 1 << 30})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var wg sync.WaitGroup
		for range appenders {
			wg.Go(func() { mustAppend(t, l, tp("t", 0), bytes.Clone(raw)) })
		}
		wg.Wait()
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > uint64(appenders)*33<<20 {
			t.Errorf("%s: %d bytes were allocated for batches of %d", codec, used, len(raw))
		}
		mustClose(t, l)
	}
}

// TestDecompressedLimit refuses what readers could not decompress.
func TestDecompressedLimit(t *testing.T) {
	cfg := smallConfig(vfs.NewMem())
	cfg.MaxBatchMemory = 1 << 20
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	b := record.NewBuilder(record.Gzip)
	b.Append(start.UnixMilli(), nil, make([]byte, 2<<20), nil)
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), tp("t", 0), raw); !errors.Is(err, broker.ErrInvalidRecord) {
		t.Fatalf("append: %v", err)
	}
	mustClose(t, l)
}
