package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kgoBatch encodes records with franz-go's types and compressors, not with ours.
func kgoBatch(t *testing.T, c Codec, recs []Record) []byte {
	t.Helper()
	var body []byte
	for i, r := range recs {
		k := kmsg.Record{TimestampDelta64: r.Timestamp - recs[0].Timestamp, OffsetDelta: int32(i), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kmsg.Header{Key: string(h.Key), Value: h.Value})
		}
		k.Length = int32(len(k.AppendTo(nil)) - 1) // the length of a zero length is one byte
		body = k.AppendTo(body)
	}
	kinds := map[Codec]kgo.CompressionCodec{Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression()}
	if kind, ok := kinds[c]; ok {
		comp, err := kgo.DefaultCompressor(kind)
		if err != nil {
			t.Fatal(err)
		}
		body, _ = comp.Compress(new(bytes.Buffer), body)
	}
	b := kmsg.RecordBatch{Magic: 2, Attributes: int16(c), LastOffsetDelta: int32(len(recs) - 1), FirstTimestamp: recs[0].Timestamp,
		MaxTimestamp: 1 << 42, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(recs)), Records: body}
	b.Length = int32(len(b.AppendTo(nil)) - lengthEnd)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[posCRC:], crc32.Checksum(raw[posAttributes:], castagnoli))
	return raw
}

func TestReadFranzGo(t *testing.T) {
	var it Iterator
	for _, c := range codecs {
		got, err := readAll(&it, kgoBatch(t, c, odd()))
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if d := diff(numbered(0, odd()), got); d != "" {
			t.Errorf("%s: -want +got\n%s", c, d)
		}
	}
}

func TestFranzGoReadsOurs(t *testing.T) {
	for _, c := range codecs {
		resp := kmsg.NewFetchResponseTopicPartition()
		resp.RecordBatches = build(t, c, 40, odd())
		fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t", Offset: 40}, &resp, kgo.DefaultDecompressor(), nil)
		if fp.Err != nil {
			t.Fatalf("%s: %v", c, fp.Err)
		}
		var got []Record
		for _, r := range fp.Records {
			n := Record{Offset: Offset(r.Offset), Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				n.Headers = append(n.Headers, Header{Key: []byte(h.Key), Value: h.Value})
			}
			got = append(got, n)
		}
		if d := diff(numbered(40, odd()), got); d != "" {
			t.Errorf("%s: -want +got\n%s", c, d)
		}
	}
}

// snappy-java cuts its stream into blocks and begins it with a header; the uncompressed records here span two.
func TestXerialFraming(t *testing.T) {
	plain := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	framed := appendXerial(nil, plain)
	if !bytes.HasPrefix(framed, []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}) {
		t.Fatalf("header % x", framed[:16])
	}
	got, err := decompress(nil, framed, Snappy, 1<<20)
	if err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(plain), err)
	}
}

// lz4ByHand is a frame: flags, 64 KiB blocks, the header's checksum, then the blocks.
func lz4ByHand(flags byte, blocks ...[]byte) []byte {
	desc := []byte{flags, 0x40}
	f := append([]byte{0x04, 0x22, 0x4d, 0x18}, desc...)
	f = append(f, byte(xxh32(desc)>>8))
	for _, b := range blocks {
		f = binary.LittleEndian.AppendUint32(f, uint32(len(b)))
		f = append(f, b...)
	}
	return append(f, 0, 0, 0, 0)
}

// librdkafka and old C clients may write linked blocks: the second copies from the first.
func TestLZ4LinkedBlocks(t *testing.T) {
	const independent, linked = 0x60, 0x40
	first := append([]byte{0xf0, 1}, "abcdefghijklmnop"...)      // 16 literals
	second := []byte{0x02, 16, 0, 0x50, 'v', 'w', 'x', 'y', 'z'} // match: 16 back, 6 long; then 5 literals
	got, err := decompress(nil, lz4ByHand(linked, first, second), LZ4, 1<<20)
	if want := "abcdefghijklmnopabcdefvwxyz"; err != nil || string(got) != want {
		t.Fatalf("linked: %q, %v; want %q", got, err, want)
	}
	if got, err := decompress(nil, lz4ByHand(independent, first, second), LZ4, 1<<20); err == nil && string(got) == "abcdefghijklmnopabcdefvwxyz" {
		t.Log("the library also lets independent blocks refer back")
	}
	got, err = decompress(nil, lz4ByHand(independent, first), LZ4, 1<<20)
	if err != nil || string(got) != "abcdefghijklmnop" {
		t.Fatalf("independent: %q, %v", got, err)
	}
	// Nothing of one batch may show up in the next, however damaged that is.
	if got, err := decompress(nil, lz4ByHand(independent, second), LZ4, 1<<20); err == nil {
		t.Fatalf("a block that copies from nothing gave %q", got)
	}
}

// librdkafka: content size and content checksum set; Java: neither.
func TestLZ4FrameOptions(t *testing.T) {
	plain := bytes.Repeat([]byte("ledger lake "), 30000)
	for _, opts := range [][]lz4.Option{
		{lz4.ChecksumOption(true), lz4.SizeOption(uint64(len(plain)))},
		{lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block4Mb)},
		{lz4.ChecksumOption(false), lz4.BlockSizeOption(lz4.Block256Kb)},
	} {
		var buf bytes.Buffer
		w := lz4.NewWriter(&buf)
		if err := w.Apply(opts...); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := decompress(nil, buf.Bytes(), LZ4, 1<<20)
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d of %d bytes, %v", len(got), len(plain), err)
		}
	}
	ours, err := appendCompressed(nil, plain, LZ4)
	if err != nil {
		t.Fatal(err)
	}
	const blockIndependent, size64K = 0x20, 4 << 4
	if ours[4]&blockIndependent == 0 || ours[5] != size64K {
		t.Errorf("frame descriptor % x is not what Java reads", ours[4:6])
	}
}

// The files in testdata are segments that Kafka 4.4 stored: 300 records each, from its Java console producer
// and from librdkafka 2.16.
func TestReadStored(t *testing.T) {
	for _, writer := range []string{"java", "librdkafka"} {
		for _, c := range codecs {
			name := writer + "-" + c.String() + ".log"
			log, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			var it Iterator
			n := 0
			for len(log) > 0 {
				b, err := ReadBatch(log)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if b.Codec() != c {
					t.Errorf("%s: codec %s", name, b.Codec())
				}
				recs, err := readAll(&it, log)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, r := range recs {
					if want := fmt.Sprintf("java value %d abcabcabc", n+1); string(r.Value) != want || r.Offset != Offset(n) || r.Timestamp < 1e12 {
						t.Fatalf("%s: record %d: offset %d, time %d, value %q", name, n, r.Offset, r.Timestamp, r.Value)
					}
					if writer == "librdkafka" && ((r.Key == nil) != (n%2 == 0) || len(r.Headers) != 2 || r.Headers[1].Value != nil) {
						t.Fatalf("%s: record %d: key %v, headers %v", name, n, r.Key, r.Headers)
					}
					n++
				}
				log = log[b.Size():]
			}
			if n != 300 {
				t.Errorf("%s: %d records", name, n)
			}
		}
	}
}
