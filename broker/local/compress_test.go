package local

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// compressedBatch is a batch of n records of a producer.
func compressedBatch(t testing.TB, codec record.Codec, producer int64, sequence int32, n int) []byte {
	t.Helper()
	b := record.NewBuilder(codec)
	b.ProducerID, b.BaseSequence = producer, sequence
	if producer >= 0 {
		b.ProducerEpoch = 0
	}
	for i := range n {
		b.Append(start.UnixMilli()+int64(i), []byte("k"), fmt.Appendf(nil, "%s %d", strings.Repeat("v", 40), i), nil)
	}
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A topic's compression.type decides how its batches are kept, whatever their producers used: same records, offsets, sequences and
// answers to retries, over a restart too (I1, I2).
func TestCompressionType(t *testing.T) {
	codecs := []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}
	for _, durability := range []Durability{DurabilityGroup, DurabilityNone} {
		for _, kind := range []string{"", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"} {
			cfg := smallConfig(vfs.NewMem())
			cfg.Durability = durability
			l := mustOpen(t, cfg)
			mustCreate(t, l, "t", broker.TopicConfig{Compression: kind})
			const n = 20
			for i, sent := range codecs {
				for _, retry := range []bool{false, true} {
					res, err := l.Append(t.Context(), tp("t", 0), compressedBatch(t, sent, 7, int32(i*n), n))
					if err != nil || int(res.Base) != i*n || res.Duplicate != retry {
						t.Fatalf("%s to %q: %+v, %v", sent, kind, res, err)
					}
				}
			}
			for range 2 {
				var at record.Offset
				for i, sent := range codecs {
					got, err := l.Fetch(t.Context(), []broker.FetchRange{{TP: tp("t", 0), From: at, MaxBytes: 1}}, broker.FetchOptions{})
					if err != nil || got[0].Err != nil {
						t.Fatal(err, got)
					}
					b, err := record.ReadBatch(got[0].Batches)
					if err != nil {
						t.Fatal(err)
					}
					want, err := broker.TopicConfig{Compression: kind}.KeptAs(sent)
					if err != nil {
						t.Fatal(err)
					}
					if err := b.VerifyCRC(); err != nil || b.Codec() != want || b.BaseOffset != at || b.Count != n || int(b.BaseSequence) != i*n || b.ProducerID != 7 {
						t.Fatalf("%s to %q: %+v, %v", sent, kind, b.BatchHeader, err)
					}
					at = b.LastOffset() + 1
				}
				values, _ := mustRead(t, l, tp("t", 0))
				for o := range len(codecs) * n {
					if want := fmt.Sprintf("%s %d", strings.Repeat("v", 40), o%n); values[record.Offset(o)] != want {
						t.Fatalf("%q: offset %d: %q", kind, o, values[record.Offset(o)])
					}
				}
				mustClose(t, l)
				l = mustOpen(t, cfg)
			}
			mustClose(t, l)
		}
	}
}

// Stamped times go into the batch that is kept, a batch that grows too large is refused, and none of it holds memory for long (I8).
func TestCompressionTypeBounds(t *testing.T) {
	cfg := smallConfig(vfs.NewMem())
	cfg.ValidateMemory = 1 << 20 // less than one batch asks for
	l := mustOpen(t, cfg)
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{Compression: "uncompressed", LogAppendTime: true, MaxMessageBytes: 2000})
	for i := range 50 {
		_, err := l.Append(t.Context(), tp("t", 0), compressedBatch(t, record.Zstd, -1, -1, 100))
		if !errors.Is(err, broker.ErrTooLarge) {
			t.Fatalf("a batch that unfolds above max.message.bytes: %v", err)
		}
		res, err := l.Append(t.Context(), tp("t", 0), compressedBatch(t, record.Zstd, -1, -1, 10))
		if err != nil || int(res.Base) != i*10 || res.LogAppendTime != start.UnixMilli() {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if !l.validating.TryAcquire(cfg.ValidateMemory) {
		t.Error("memory of batches that are in the log is still held")
	}
	l.validating.Release(cfg.ValidateMemory)
	_, err := l.CreateTopic(t.Context(), "x", broker.TopicConfig{Compression: "none"})
	if !errors.Is(err, broker.ErrInvalidTopic) {
		t.Errorf("a codec that there is not: %v", err)
	}
}
