package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

func TestValidation(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{MaxMessageBytes: 2000})
	mustCreate(t, l, "c", broker.TopicConfig{Compact: true})
	good := func() []byte { return batchOf(t, "a", "b") }
	// attributes sets bits and repairs the CRC.
	attributes := func(bits uint16) []byte {
		raw := good()
		record.StampAppendTime(raw, start.UnixMilli())
		h, err := record.ParseHeader(raw)
		if err != nil || !h.LogAppendTime() {
			t.Fatal(err)
		}
		raw[22] = byte(bits)
		fixCRC(raw)
		return raw
	}
	number := func(at int, n uint32) []byte {
		raw := good()
		binary.BigEndian.PutUint32(raw[at:], n)
		fixCRC(raw)
		return raw
	}
	flip := func(at int) []byte {
		raw := good()
		raw[at] ^= 1
		return raw
	}
	future := record.NewBuilder(record.None)
	future.Append(start.Add(2*time.Hour).UnixMilli(), nil, nil, nil)
	late, err := future.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		topic string
		raw   []byte
		want  error
	}{
		{"empty", "t", nil, broker.ErrCorruptBatch},
		{"short", "t", good()[:30], broker.ErrCorruptBatch},
		{"cut", "t", good()[:len(good())-1], broker.ErrCorruptBatch},
		{"two batches", "t", append(good(), good()...), broker.ErrCorruptBatch},
		{"crc", "t", flip(17), broker.ErrCorruptBatch},
		{"payload", "t", flip(70), broker.ErrCorruptBatch},
		{"magic", "t", flip(16), broker.ErrCorruptBatch},
		{"large", "t", batchOf(t, strings.Repeat("x", 3000)), broker.ErrTooLarge},
		{"control", "t", attributes(0x20), broker.ErrInvalidRecord},
		{"transactional without a producer", "t", attributes(0x10), broker.ErrInvalidRecord},
		{"append time", "t", attributes(0x08), broker.ErrInvalidTimestamp},
		{"codec", "t", attributes(0x07), broker.ErrUnsupported},
		{"count", "t", number(57, 1), broker.ErrInvalidRecord},
		{"delta", "t", number(23, 5), broker.ErrInvalidRecord},
		{"no key", "c", good(), broker.ErrInvalidRecord},
		{"future", "t", late, broker.ErrInvalidTimestamp},
		{"sequence", "t", producedBatch(t, 7, 0, -1, "x"), broker.ErrInvalidRecord},
		{"no topic", "u", good(), broker.ErrUnknownTopic},
	} {
		if _, err := appendEither(t, l, tp(c.topic, 0), c.raw); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if b, err := l.Bounds(t.Context(), tp("t", 0)); err != nil || b.End != 0 {
		t.Errorf("something was appended: %v %v", b, err)
	}
	mustAppend(t, l, tp("t", 0), good())
}

func fixCRC(raw []byte) {
	h, _ := record.ParseHeader(raw)
	attrs := binary.BigEndian.Uint16(raw[21:])
	record.StampAppendTime(raw, h.MaxTimestamp) // computes the CRC, and sets a bit that must go again
	if binary.BigEndian.Uint16(raw[21:]) != attrs {
		binary.BigEndian.PutUint16(raw[21:], attrs)
		binary.BigEndian.PutUint32(raw[17:], crcOf(raw[21:]))
	}
}

func TestLogAppendTime(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{LogAppendTime: true})
	b := record.NewBuilder(record.None)
	b.Append(12345, nil, []byte("v"), nil)
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	if res := mustAppend(t, l, tp("t", 0), raw); res.LogAppendTime != start.UnixMilli() {
		t.Fatalf("%+v", res)
	}
	mustRead(t, l, tp("t", 0)) // checks the CRC
	if o, err := l.OffsetForTime(t.Context(), tp("t", 0), start.UnixMilli()); err != nil || o != 0 {
		t.Fatalf("offset %d, %v", o, err)
	}
}

// TestIdempotence appends with sequence numbers, before and after a restart.
func TestIdempotence(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		t.Run(d.String(), func(t *testing.T) {
			mem := vfs.NewMem()
			cfg := smallConfig(mem)
			cfg.Durability = d
			l := mustOpen(t, cfg)
			mustCreate(t, l, "t", broker.TopicConfig{})
			send := func(id int64, epoch int16, seq int32, n int) (broker.AppendResult, error) {
				values := make([]string, n)
				for i := range values {
					values[i] = fmt.Sprint(seq, i)
				}
				return appendEither(t, l, tp("t", 0), producedBatch(t, id, epoch, seq, values...))
			}
			expect := func(id int64, epoch int16, seq int32, n int, base record.Offset, dup bool, want error) {
				t.Helper()
				res, err := send(id, epoch, seq, n)
				if !errors.Is(err, want) || err == nil && (res.Base != base || res.Duplicate != dup) {
					t.Fatalf("producer %d epoch %d sequence %d: %+v, %v", id, epoch, seq, res, err)
				}
			}
			expect(1, 0, 5, 1, 0, false, broker.ErrOutOfOrder) // an empty partition knows all producers
			for i := range 7 {
				expect(1, 0, int32(2*i), 2, record.Offset(2*i), false, nil)
			}
			check := func() {
				t.Helper()
				for i := 2; i < 7; i++ {
					expect(1, 0, int32(2*i), 2, record.Offset(2*i), true, nil)
				}
				expect(1, 0, 2, 2, 0, false, broker.ErrOutOfOrder)  // more than five batches ago
				expect(1, 0, 12, 1, 0, false, broker.ErrOutOfOrder) // not the same batch
				expect(1, 0, 15, 1, 0, false, broker.ErrOutOfOrder) // a gap
			}
			check()
			mustClose(t, l)
			l = mustOpen(t, cfg) // from the checkpoint
			check()
			expect(2, 3, math.MaxInt32, 2, 14, false, nil) // unknown: any number; and it wraps
			expect(2, 3, 1, 1, 16, false, nil)
			expect(2, 2, 2, 1, 0, false, broker.ErrProducerFenced)
			expect(2, 4, 7, 1, 0, false, broker.ErrOutOfOrder)
			expect(2, 4, 0, 1, 17, false, nil)
			cfg.FS = mem.Crash(nil, vfs.KeepAll)
			mustClose(t, l)
			l = mustOpen(t, cfg) // from the journal or the tail
			check()
			expect(2, 4, 0, 1, 17, true, nil)
			expect(2, 4, 1, 1, 18, false, nil)
			// State outlives the records.
			if _, err := l.DeleteRecords(t.Context(), tp("t", 0), -1); err != nil {
				t.Fatal(err)
			}
			mustClose(t, l)
			l = mustOpen(t, cfg)
			expect(2, 4, 1, 1, 18, true, nil)
			mustClose(t, l)
		})
	}
}

func TestInitProducerID(t *testing.T) {
	mem := vfs.NewMem()
	seen := map[int64]bool{}
	for range 4 {
		l := mustOpen(t, smallConfig(mem))
		for range 700 {
			id, epoch, err := l.InitProducerID(t.Context())
			if err != nil || epoch != 0 || id < 0 || seen[id] {
				t.Fatalf("id %d epoch %d, given before %v, %v", id, epoch, seen[id], err)
			}
			seen[id] = true
		}
		crashed := mem.Crash(nil, vfs.KeepNothing)
		mustClose(t, l)
		mem = crashed
	}
}
