package entry

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// sum puts the metadata and payload of an entry together, with the sum over them.
func sum(meta, payload []byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(len(meta)))
	body = append(append(body, meta...), payload...)
	b := binary.BigEndian.AppendUint16(nil, magicCRC)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(body, castagnoli))
	return append(b, body...)
}

// withBroker puts what a broker adds in front.
func withBroker(index int64, e []byte) []byte {
	m := pbfield.AppendInt(pbfield.AppendInt(nil, 1, 1234), 2, index)
	b := binary.BigEndian.AppendUint16(nil, magicBroker)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
	return append(append(b, m...), e...)
}

func metadata(fields func(b []byte) []byte) []byte {
	b := pbfield.AppendString(nil, 1, "producer")
	b = pbfield.AppendInt(b, 2, 7)
	b = pbfield.AppendInt(b, 3, 1_700_000_000_000)
	if fields != nil {
		b = fields(b)
	}
	return b
}

func single(value []byte, fields func(b []byte) []byte) []byte {
	m := pbfield.AppendInt(nil, 3, int64(len(value)))
	if fields != nil {
		m = fields(m)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(m)))
	return append(append(b, m...), value...)
}

func all(t *testing.T, b []byte) (Entry, []Message) {
	t.Helper()
	e, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	var m Messages
	if err := m.Open(&e); err != nil {
		t.Fatal(err)
	}
	var out []Message
	for m.Next() {
		c := *m.Message()
		c.Properties = append([]Property(nil), c.Properties...)
		out = append(out, c)
	}
	if m.Err() != nil {
		t.Fatal(m.Err())
	}
	return e, out
}

func TestOneMessage(t *testing.T) {
	e, got := all(t, withBroker(41, sum(metadata(func(b []byte) []byte {
		b = pbfield.AppendBytes(b, 4, pbfield.AppendString(pbfield.AppendString(nil, 1, "k"), 2, "1"))
		b = pbfield.AppendBytes(b, 4, pbfield.AppendString(pbfield.AppendString(nil, 1, "k"), 2, "2"))
		b = pbfield.AppendString(b, 6, "a2V5")
		return pbfield.AppendBool(b, 17, true)
	}), []byte("hello"))))
	if e.Index != 41 || e.BrokerTime != 1234 || string(e.Producer) != "producer" || e.Sequence != 7 || e.Count != 1 || e.Batched {
		t.Errorf("entry is %+v", e)
	}
	if len(got) != 1 || got[0].Batch != -1 || string(got[0].Key) != "key" || string(got[0].Value) != "hello" || len(got[0].Properties) != 2 || string(got[0].Properties[1].Value) != "2" {
		t.Errorf("messages are %+v", got)
	}
}

// TestNullIsNotEmpty: a null value, an empty one, no key and an empty key are four different things.
func TestNullIsNotEmpty(t *testing.T) {
	_, got := all(t, sum(metadata(func(b []byte) []byte { return pbfield.AppendBool(b, 25, true) }), nil))
	if got[0].Value != nil || got[0].Key != nil {
		t.Errorf("a null value and no key came as %q and %q", got[0].Value, got[0].Key)
	}
	_, got = all(t, sum(metadata(func(b []byte) []byte { return pbfield.AppendString(b, 6, "") }), nil))
	if got[0].Value == nil || got[0].Key == nil {
		t.Error("an empty value or key came as null")
	}
	payload := single(nil, func(b []byte) []byte { return pbfield.AppendBool(b, 9, true) })
	payload = append(payload, single(nil, nil)...)
	_, got = all(t, sum(metadata(func(b []byte) []byte { return pbfield.AppendInt(b, 11, 2) }), payload))
	if len(got) != 2 || got[0].Value != nil || got[1].Value == nil {
		t.Errorf("null and empty in a batch came as %+v", got)
	}
}

func TestBatchesInEveryCompression(t *testing.T) {
	var payload []byte
	for i := range 50 {
		payload = append(payload, single(bytes.Repeat([]byte{byte('a' + i%26)}, 20+i), func(b []byte) []byte { return pbfield.AppendInt(b, 8, int64(100+i)) })...)
	}
	packed := map[Compression]func() []byte{
		None: func() []byte { return payload },
		LZ4: func() []byte {
			out := make([]byte, lz4.CompressBlockBound(len(payload)))
			n, err := lz4.CompressBlock(payload, out, nil)
			if err != nil || n == 0 {
				t.Fatal("lz4", n, err)
			}
			return out[:n]
		},
		Zlib: func() []byte {
			var b bytes.Buffer
			w := zlib.NewWriter(&b)
			_, _ = w.Write(payload)
			_ = w.Close()
			return b.Bytes()
		},
		Zstd: func() []byte {
			w, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			return w.EncodeAll(payload, nil)
		},
		Snappy: func() []byte { return s2.EncodeSnappy(nil, payload) },
	}
	for c, pack := range packed {
		meta := metadata(func(b []byte) []byte {
			b = pbfield.AppendInt(b, 8, int64(c))
			return pbfield.AppendInt(pbfield.AppendInt(b, 9, int64(len(payload))), 11, 50)
		})
		_, got := all(t, sum(meta, pack()))
		if len(got) != 50 || got[49].Sequence != 149 || len(got[49].Value) != 69 || got[49].Batch != 49 {
			t.Errorf("compression %d: %d messages", c, len(got))
		}
		// I8: what says that it is smaller than it is, is damage and not more memory.
		meta = metadata(func(b []byte) []byte {
			b = pbfield.AppendInt(b, 8, int64(c))
			return pbfield.AppendInt(pbfield.AppendInt(b, 9, int64(len(payload)-1)), 11, 50)
		})
		e, err := Parse(sum(meta, pack()))
		if err != nil {
			t.Fatal(err)
		}
		var m Messages
		if err := m.Open(&e); c != None && !errors.Is(err, ErrCorrupt) {
			t.Errorf("compression %d: a wrong size gave %v", c, err)
		}
	}
}

func TestDamageIsFound(t *testing.T) {
	good := withBroker(1, sum(metadata(nil), []byte("hello")))
	for i := range good {
		if i < 6 || i >= 6+4 && i < 12 { // the size of what the broker adds, and its fields, have no sum
			continue
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1
		e, err := Parse(bad)
		if err == nil && string(e.Payload) == "hello" && e.Sequence == 7 && e.Index == 1 && e.BrokerTime == 1234 {
			t.Errorf("a bit flipped at %d was not seen", i)
		}
		if _, err := Parse(good[:i]); err == nil {
			t.Errorf("%d of %d bytes were taken for an entry", i, len(good))
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add(withBroker(1, sum(metadata(nil), []byte("hello"))))
	f.Add(sum(metadata(func(b []byte) []byte { return pbfield.AppendInt(b, 11, 2) }), append(single([]byte("a"), nil), single(nil, nil)...)))
	f.Add(sum(metadata(func(b []byte) []byte { return pbfield.AppendInt(pbfield.AppendInt(b, 8, 3), 9, 100) }), []byte("zstd?")))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Parse(b)
		if err != nil {
			return
		}
		m := Messages{MaxBytes: 1 << 20}
		if m.Open(&e) != nil {
			return
		}
		n := 0
		for m.Next() {
			n++
		}
		if e.Batched && !e.Encrypted && n > e.Count {
			t.Errorf("%d messages of %d", n, e.Count)
		}
	})
}
