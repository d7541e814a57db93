package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

var codecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

// clone copies a record out of its iterator.
func clone(r *Record) Record {
	c := Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, Header{Key: bytes.Clone(h.Key), Value: bytes.Clone(h.Value)})
	}
	return c
}

// diff is cmp.Diff for records that are nearly always equal; walking long values by reflection takes seconds.
func diff(want, got []Record) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// readAll decodes one batch with its CRC.
func readAll(it *Iterator, raw []byte) ([]Record, error) {
	b, err := ReadBatch(raw)
	if err != nil {
		return nil, err
	}
	if err := b.VerifyCRC(); err != nil {
		return nil, err
	}
	if err := it.Reset(b); err != nil {
		return nil, err
	}
	var out []Record
	for it.Next() {
		out = append(out, clone(it.Record()))
	}
	return out, it.Err()
}

// odd is the set of records that codecs get wrong: null, empty, repeated headers, times out of order.
func odd() []Record {
	return []Record{
		{Timestamp: 1000, Key: nil, Value: nil},
		{Timestamp: 900, Key: []byte{}, Value: []byte{}},
		{Timestamp: 5000, Key: []byte("k"), Value: []byte("v"), Headers: []Header{
			{Key: []byte("dup"), Value: []byte("1")}, {Key: []byte("dup"), Value: nil},
			{Key: []byte("dup"), Value: []byte{}}, {Key: []byte{}, Value: []byte("empty name")}}},
		{Timestamp: 1 << 42, Value: bytes.Repeat([]byte("long "), 40000)},
		{Timestamp: 0, Key: bytes.Repeat([]byte{0}, 64), Value: []byte(`{"a":1}`)},
	}
}

func build(t testing.TB, c Codec, base Offset, recs []Record) []byte {
	t.Helper()
	b := NewBuilder(c)
	for _, r := range recs {
		b.Append(r.Timestamp, r.Key, r.Value, r.Headers)
	}
	raw, err := b.Build(base)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func numbered(base Offset, recs []Record) []Record {
	for i := range recs {
		recs[i].Offset = base + Offset(i)
	}
	return recs
}

func TestRoundTrip(t *testing.T) {
	var it Iterator // one for all: buffers carry nothing over
	for _, c := range codecs {
		for range 2 {
			got, err := readAll(&it, build(t, c, 40, odd()))
			if err != nil {
				t.Fatalf("%s: %v", c, err)
			}
			if d := diff(numbered(40, odd()), got); d != "" {
				t.Errorf("%s: -want +got\n%s", c, d)
			}
		}
	}
}

func TestRoundTripRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 1))
	random := func(n int) []byte {
		if rng.IntN(8) == 0 {
			return nil
		}
		p := make([]byte, rng.IntN(n))
		for i := range p {
			p[i] = byte(rng.IntN(7)) // compresses a little
		}
		return p
	}
	var it Iterator
	for i := range 100 {
		c := codecs[i%len(codecs)]
		b := NewBuilder(c)
		var want []Record
		offset := Offset(rng.Int64N(1 << 40))
		for range 1 + rng.IntN(200) {
			r := Record{Offset: offset, Timestamp: rng.Int64(), Key: random(50), Value: random(2000)}
			for range rng.IntN(3) {
				r.Headers = append(r.Headers, Header{Key: append([]byte{}, random(9)...), Value: random(20)})
			}
			b.AppendAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers)
			want = append(want, r)
			offset += 1 + Offset(rng.IntN(3)) // as after compaction
		}
		raw, err := b.Build(-1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(&it, raw)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if d := diff(want, got); d != "" {
			t.Fatalf("%s: -want +got\n%s", c, d)
		}
	}
}

func TestHeaderFields(t *testing.T) {
	b := NewBuilder(Zstd)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.LeaderEpoch, b.Transactional = 77, 3, 12, 9, true
	b.AppendAt(100, 50, nil, []byte("a"), nil)
	b.AppendAt(103, 40, nil, []byte("b"), nil)
	b.ExtendTo(109)
	raw, err := b.Build(100)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ParseHeader(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := BatchHeader{BaseOffset: 100, Length: int32(len(raw) - 12), LeaderEpoch: 9, Magic: 2, CRC: h.CRC,
		Attributes: int16(Zstd) | attrTransactional, LastOffsetDelta: 9, BaseTimestamp: 50, MaxTimestamp: 50,
		ProducerID: 77, ProducerEpoch: 3, BaseSequence: 12, Count: 2}
	if h != want {
		t.Errorf("header\n got %+v\nwant %+v", h, want)
	}
	if h.LastOffset() != 109 || h.Size() != len(raw) || h.Codec() != Zstd || !h.Transactional() || h.Control() || h.LogAppendTime() {
		t.Errorf("methods of %+v", h)
	}
	if b.Len() != 0 || b.Bytes() != HeaderSize {
		t.Errorf("Build left %d records", b.Len())
	}
}

func TestFieldsOutsideTheCRC(t *testing.T) {
	raw := build(t, None, 0, odd())
	SetBaseOffset(raw, 1000)
	SetLeaderEpoch(raw, 6)
	b, err := ReadBatch(raw)
	if err != nil || b.VerifyCRC() != nil || b.BaseOffset != 1000 || b.LeaderEpoch != 6 {
		t.Fatalf("batch %+v, %v", b.BatchHeader, err)
	}
	StampAppendTime(raw, 123456)
	got, err := readAll(new(Iterator), raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		if r.Timestamp != 123456 {
			t.Fatalf("timestamp %d after StampAppendTime", r.Timestamp)
		}
	}
	for _, short := range [][]byte{nil, raw[:HeaderSize-1]} { // I8
		before := bytes.Clone(short)
		SetBaseOffset(short, 1)
		SetLeaderEpoch(short, 1)
		StampAppendTime(short, 1)
		if !bytes.Equal(before, short) {
			t.Error("a short batch was changed")
		}
	}
}

func TestBuilderRefuses(t *testing.T) {
	tests := []struct {
		name string
		fill func(*Builder)
		base Offset
		want error
	}{
		{"empty", func(*Builder) {}, 0, ErrEmptyBatch},
		{"negative base", func(b *Builder) { b.Append(0, nil, nil, nil) }, -1, ErrUnencodable},
		{"base past the last offset", func(b *Builder) { b.Append(0, nil, nil, nil) }, math.MaxInt64, ErrUnencodable},
		{"offset again", func(b *Builder) { b.AppendAt(5, 0, nil, nil, nil); b.AppendAt(5, 0, nil, nil, nil) }, -1, ErrUnencodable},
		{"offset back", func(b *Builder) { b.AppendAt(5, 0, nil, nil, nil); b.AppendAt(4, 0, nil, nil, nil) }, -1, ErrUnencodable},
		{"gap of more than 2^31", func(b *Builder) { b.AppendAt(5, 0, nil, nil, nil); b.AppendAt(1<<40, 0, nil, nil, nil) }, -1, ErrUnencodable},
		{"another base", func(b *Builder) { b.AppendAt(5, 0, nil, nil, nil) }, 6, ErrUnencodable},
		{"extend back", func(b *Builder) { b.AppendAt(5, 0, nil, nil, nil); b.ExtendTo(4) }, -1, ErrUnencodable},
	}
	for _, tt := range tests {
		b := NewBuilder(None)
		tt.fill(b)
		if _, err := b.Build(tt.base); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
		b.Append(1, nil, []byte("next"), nil) // the Builder is as new
		if _, err := b.Build(0); err != nil {
			t.Errorf("%s: next batch: %v", tt.name, err)
		}
	}
	if _, err := NewBuilder(Codec(9)).BuildTo(nil, 0); err == nil {
		t.Error("codec 9 was taken")
	}
}

func TestBuildToAppends(t *testing.T) {
	b := NewBuilder(LZ4)
	var log []byte
	for i := range 3 {
		b.Append(1, nil, fmt.Append(nil, i), nil)
		var err error
		if log, err = b.BuildTo(log, Offset(i)); err != nil {
			t.Fatal(err)
		}
	}
	var it Iterator
	for i := range 3 {
		got, err := readAll(&it, log)
		if err != nil || len(got) != 1 || string(got[0].Value) != fmt.Sprint(i) || got[0].Offset != Offset(i) {
			t.Fatalf("batch %d: %v, %v", i, got, err)
		}
		h, _ := ParseHeader(log)
		log = log[h.Size():]
	}
	if len(log) != 0 {
		t.Errorf("%d bytes left", len(log))
	}
}

func TestParseCodec(t *testing.T) {
	for _, c := range codecs {
		if got, err := ParseCodec(c.String()); got != c || err != nil {
			t.Errorf("ParseCodec(%s) = %v, %v", c, got, err)
		}
	}
	if _, err := ParseCodec("lzo"); err == nil || !strings.Contains(err.Error(), "lzo") {
		t.Errorf("ParseCodec(lzo): %v", err)
	}
}

// The promise of the fast path: nothing is allocated for a record, nor for a batch once buffers are warm.
func TestIteratorAllocs(t *testing.T) {
	for _, c := range codecs {
		recs := make([]Record, 1000)
		for i := range recs {
			recs[i] = Record{Timestamp: int64(i), Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, `{"n":%d}`, i*i),
				Headers: []Header{{Key: []byte("h"), Value: []byte("v")}}}
		}
		b, err := ReadBatch(build(t, c, 0, recs))
		if err != nil {
			t.Fatal(err)
		}
		var it Iterator
		n := testing.AllocsPerRun(100, func() {
			if err := it.Reset(b); err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				if it.Record().Value == nil {
					t.Fatal("value is null")
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		})
		if perRecord := n / float64(len(recs)); perRecord > 0.02 { // a few a batch inside the codec libraries
			t.Errorf("%s: %.0f allocations for a batch of %d records", c, n, len(recs))
		}
		if c == None && n != 0 {
			t.Errorf("%s: %.0f allocations a batch", c, n)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range codecs {
		b.Run(c.String(), func(b *testing.B) {
			recs := make([]Record, 5000)
			for i := range recs {
				recs[i] = Record{Timestamp: int64(i), Value: fmt.Appendf(nil, `{"id":%d,"name":"user-%d","city":"Lyon","ok":true}`, i, i%97)}
			}
			batch, err := ReadBatch(build(b, c, 0, recs))
			if err != nil {
				b.Fatal(err)
			}
			plain := len(build(b, None, 0, recs))
			var it Iterator
			b.SetBytes(int64(plain))
			b.ReportAllocs()
			for b.Loop() {
				if err := batch.VerifyCRC(); err != nil {
					b.Fatal(err)
				}
				if err := it.Reset(batch); err != nil {
					b.Fatal(err)
				}
				n := 0
				for it.Next() {
					n++
				}
				if n != len(recs) {
					b.Fatalf("%d records", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(recs)), "ns/record")
		})
	}
}

// One huge batch does not hold its memory for good (I8).
func TestIteratorLetsGoOfHugeBuffers(t *testing.T) {
	huge := build(t, Zstd, 0, []Record{{Value: make([]byte, keepBuffer+1)}})
	small := build(t, Zstd, 0, odd()[:1])
	var it Iterator
	for _, raw := range [][]byte{huge, small} {
		if _, err := readAll(&it, raw); err != nil {
			t.Fatal(err)
		}
	}
	if cap(it.buf) > keepBuffer {
		t.Errorf("%d bytes kept", cap(it.buf))
	}
}
