package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// I8: every flip of one bit is noticed, except in the two fields that the format leaves outside its checksum.
func TestEveryBitFlipIsDetected(t *testing.T) {
	for _, c := range codecs {
		raw := build(t, c, 3, []Record{{Timestamp: 1, Key: []byte("k"), Value: []byte("value value value")}, {Timestamp: 2}})
		var it Iterator
		for i := range raw {
			outside := i < posLength || (i >= posEpoch && i < posMagic)
			for bit := range 8 {
				damaged := bytes.Clone(raw)
				damaged[i] ^= 1 << bit
				_, err := readAll(&it, damaged)
				if !outside && err == nil {
					t.Fatalf("%s: flip of bit %d of byte %d was not noticed", c, bit, i)
				}
				if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTruncated) {
					t.Fatalf("%s: byte %d: error %v has no kind", c, i, err)
				}
			}
		}
	}
}

// I8: and without the checksum the decoder still neither panics nor accepts more than the batch holds.
func TestBitFlipsWithoutCRC(t *testing.T) {
	for _, c := range codecs {
		raw := build(t, c, 3, odd()[:3])
		var it Iterator
		for i := range raw {
			for bit := range 8 {
				damaged := bytes.Clone(raw)
				damaged[i] ^= 1 << bit
				b, err := ReadBatch(damaged)
				if err != nil {
					continue
				}
				if it.Reset(b) != nil {
					continue
				}
				n := int32(0)
				for it.Next() {
					n++
				}
				if it.Err() == nil && n != b.Count {
					t.Fatalf("%s: byte %d: %d records of %d without an error", c, i, n, b.Count)
				}
			}
		}
	}
}

func TestEveryTruncation(t *testing.T) {
	for _, c := range codecs {
		raw := build(t, c, 3, odd()[:3])
		for n := range raw {
			if _, err := ReadBatch(raw[:n]); !errors.Is(err, ErrTruncated) {
				t.Fatalf("%s: %d of %d bytes: %v", c, n, len(raw), err)
			}
			if n < HeaderSize {
				continue
			}
			// The same cut, with a length that claims to be whole.
			cut := bytes.Clone(raw[:n])
			binary.BigEndian.PutUint32(cut[posLength:], uint32(n-lengthEnd))
			if _, err := readAll(new(Iterator), cut); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: cut at %d: %v", c, n, err)
			}
			reseal(cut)
			if _, err := readAll(new(Iterator), cut); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: cut at %d and summed again: %v", c, n, err)
			}
		}
	}
}

func reseal(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[posLength:], uint32(len(raw)-lengthEnd))
	binary.BigEndian.PutUint32(raw[posCRC:], crc32.Checksum(raw[posAttributes:], castagnoli))
	return raw
}

// withBody makes a batch with a right CRC around arbitrary record bytes.
func withBody(t testing.TB, codec Codec, count int32, body []byte) []byte {
	raw := build(t, None, 0, []Record{{}})[:HeaderSize]
	raw = append(raw, body...)
	raw[posAttributes+1] = byte(codec)
	binary.BigEndian.PutUint32(raw[posLastDelta:], uint32(max(count, 1)-1))
	binary.BigEndian.PutUint32(raw[posCount:], uint32(count))
	return reseal(raw)
}

func TestDamagedHeaders(t *testing.T) {
	be := binary.BigEndian
	tests := []struct {
		name   string
		change func(raw []byte)
		reason string
	}{
		{"old format", func(r []byte) { r[posMagic] = 1 }, "message format"},
		{"length of less than a header", func(r []byte) { be.PutUint32(r[posLength:], 48) }, "batch length"},
		{"negative length", func(r []byte) { be.PutUint32(r[posLength:], 0xffffffff) }, "batch length"},
		{"length that overflows with its field", func(r []byte) { be.PutUint32(r[posLength:], 0x7fffffff) }, "batch length"},
		{"negative base", func(r []byte) { r[0] = 0x80 }, "base offset"},
		{"base at the end of time", func(r []byte) { be.PutUint64(r, 0x7fffffffffffffff) }, "base offset"},
		{"negative delta", func(r []byte) { be.PutUint32(r[posLastDelta:], 0xffffffff) }, "last offset delta"},
		{"negative count", func(r []byte) { be.PutUint32(r[posCount:], 0xffffffff) }, "record count"},
		{"more records than offsets", func(r []byte) { be.PutUint32(r[posCount:], 6) }, "record count"},
	}
	for _, tt := range tests {
		raw := build(t, None, 0, odd())
		tt.change(raw)
		_, err := ReadBatch(raw)
		var c *CorruptError
		if !errors.As(err, &c) || !strings.Contains(c.Reason, tt.reason) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestDamagedRecords(t *testing.T) {
	rec := func(b ...byte) []byte { return append([]byte{byte(len(b) << 1)}, b...) }
	good := rec(0, 0, 0, 1, 1, 0) // attributes, time, offset 0, null key, null value, no headers
	tests := []struct {
		name   string
		count  int32
		body   []byte
		reason string
	}{
		{"no records", 1, nil, "records in the batch"},
		{"fewer records than counted", 2, good, "records in the batch"},
		{"more bytes than counted", 1, append(bytes.Clone(good), good...), "behind the last record"},
		{"record longer than the batch", 1, []byte{100, 0, 0, 0}, "record length"},
		{"negative record length", 1, []byte{1}, "record length"},
		{"record length without end", 1, bytes.Repeat([]byte{0xff}, 11), "varint"},
		{"empty record", 1, []byte{0}, "attributes"},
		{"time without end", 1, rec(0, 0xff, 0xff), "timestamp"},
		{"time of 11 bytes", 1, rec(append([]byte{0}, bytes.Repeat([]byte{0xff}, 11)...)...), "timestamp"},
		{"offset above the last", 1, rec(0, 0, 2, 1, 1, 0), "offset delta"},
		{"offset below the base", 1, rec(0, 0, 1, 1, 1, 0), "offset delta"},
		{"offset twice", 2, append(bytes.Clone(good), good...), "offset delta"},
		{"key past the record", 1, rec(0, 0, 0, 10, 1, 0), "key length"},
		{"key length -2", 1, rec(0, 0, 0, 3, 1, 0), "key length"},
		{"value past the record", 1, rec(0, 0, 0, 1, 10, 0), "value length"},
		{"no value", 1, rec(0, 0, 0, 1), "value length"},
		{"negative header count", 1, rec(0, 0, 0, 1, 1, 1), "headers"},
		{"2^31-1 headers", 1, rec(0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f), "headers"},
		{"header with a null key", 1, rec(0, 0, 0, 1, 1, 2, 1, 1), "header key"},
		{"header value past the record", 1, rec(0, 0, 0, 1, 1, 2, 0, 8), "header value"},
		{"bytes behind the headers", 1, rec(0, 0, 0, 1, 1, 0, 0), "behind the headers"},
	}
	var it Iterator
	for _, tt := range tests {
		_, err := readAll(&it, withBody(t, None, tt.count, tt.body))
		var c *CorruptError
		if !errors.As(err, &c) || !strings.Contains(c.Reason, tt.reason) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if it.Next() {
			t.Errorf("%s: a record after the error", tt.name)
		}
	}
	if got, err := readAll(&it, withBody(t, None, 1, good)); err != nil || len(got) != 1 {
		t.Errorf("the undamaged record: %v, %v", got, err)
	}
	if got, err := readAll(&it, withBody(t, Gzip, 0, nil)); err != nil || len(got) != 0 {
		t.Errorf("a batch emptied by compaction: %v, %v", got, err)
	}
}

// I8: a small batch cannot make us allocate what it claims or expands to.
func TestDecompressionIsBounded(t *testing.T) {
	zeros := make([]byte, 8<<20)
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	bombs := map[string][]byte{"zstd frame": enc.EncodeAll(zeros, nil), "raw snappy": s2.EncodeSnappy(nil, zeros)}
	for _, c := range codecs[1:] {
		bombs[c.String()], err = appendCompressed(nil, zeros, c)
		if err != nil {
			t.Fatal(err)
		}
	}
	codecOf := map[string]Codec{"zstd frame": Zstd, "raw snappy": Snappy, "gzip": Gzip, "snappy": Snappy, "lz4": LZ4, "zstd": Zstd}
	for name, body := range bombs {
		it := Iterator{MaxBytes: 1 << 20}
		_, err := readAll(&it, withBody(t, codecOf[name], 1, body))
		var c *CorruptError
		if !errors.As(err, &c) || c.Want != 1<<20 || !strings.Contains(c.Reason, "limit") {
			t.Errorf("%s: %v", name, err)
		}
	}
	lies := map[string]struct {
		codec Codec
		body  []byte
	}{
		"snappy that claims 100 MiB": {Snappy, []byte{0x80, 0x80, 0x80, 0x32, 0, 'x'}},
		"zstd that claims 100 MiB":   {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x40, 0x06, 1, 0, 0}},
		"xerial block past the end":  {Snappy, append([]byte(xerialHeader), 0x7f, 0xff, 0xff, 0xff, 1)},
		"xerial cut in a length":     {Snappy, append([]byte(xerialHeader), 0, 0)},
	}
	for name, l := range lies {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readAll(new(Iterator), withBody(t, l.codec, 1, l.body))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
	if _, err := readAll(new(Iterator), withBody(t, Codec(6), 1, []byte("x"))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("codec 6: %v", err)
	}
}

func FuzzReadBatch(f *testing.F) {
	for _, c := range codecs {
		f.Add(build(f, c, 9, odd()[:3]))
	}
	f.Add([]byte{})
	f.Add(make([]byte, HeaderSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := ReadBatch(b)
		if err != nil {
			if !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error %v has no kind", err)
			}
			return
		}
		if batch.Size() > len(b) || batch.LastOffset() < batch.BaseOffset || batch.LastOffset()+1 <= batch.BaseOffset {
			t.Fatalf("header %+v of %d bytes", batch.BatchHeader, len(b))
		}
		it := Iterator{MaxBytes: 1 << 20}
		_ = batch.VerifyCRC()
		if it.Reset(batch) == nil {
			for it.Next() {
			}
		}
	})
}

func FuzzIterator(f *testing.F) {
	for _, c := range codecs {
		raw := build(f, c, 0, odd()[:3])
		f.Add(uint8(c), int32(3), raw[HeaderSize:])
	}
	f.Fuzz(func(t *testing.T, codec uint8, count int32, body []byte) {
		if count < 0 {
			return
		}
		b, err := ReadBatch(withBody(t, Codec(codec&codecMask), count, body))
		if err != nil {
			t.Fatal(err)
		}
		it := Iterator{MaxBytes: 1 << 20}
		if it.Reset(b) != nil {
			return
		}
		var recs []Record
		last := Offset(-1)
		for it.Next() {
			r := clone(it.Record())
			if r.Offset <= last || r.Offset > b.LastOffset() {
				t.Fatalf("offset %d after %d, last of the batch %d", r.Offset, last, b.LastOffset())
			}
			last = r.Offset
			recs = append(recs, r)
		}
		if it.Err() != nil || len(recs) == 0 {
			return
		}
		// What was accepted can be written again and reads the same.
		w := NewBuilder(None)
		for _, r := range recs {
			w.AppendAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers)
		}
		raw, err := w.Build(-1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := readAll(new(Iterator), raw)
		if err != nil || len(again) != len(recs) {
			t.Fatalf("%d of %d records again: %v", len(again), len(recs), err)
		}
	})
}
