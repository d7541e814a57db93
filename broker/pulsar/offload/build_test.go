package offload

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// message makes an entry of one message. index is the broker's running index; -1: none.
func message(value string, index int64, fields func([]byte) []byte) []byte {
	m := pbfield.AppendString(nil, 1, "producer")
	m = pbfield.AppendInt(m, 2, 7)
	m = pbfield.AppendInt(m, 3, 1_700_000_000_000)
	if fields != nil {
		m = fields(m)
	}
	body := binary.BigEndian.AppendUint32(nil, uint32(len(m)))
	body = append(append(body, m...), value...)
	var b []byte
	if index >= 0 {
		x := pbfield.AppendInt(nil, 2, index)
		b = binary.BigEndian.AppendUint32([]byte{0x0e, 0x02}, uint32(len(x)))
		b = append(b, x...)
	}
	b = append(b, 0x0e, 0x01)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, body...)
}

func inTransaction(id uint64) func([]byte) []byte {
	return func(b []byte) []byte { return pbfield.AppendUint(pbfield.AppendUint(b, 22, id), 23, 1) }
}

func marker(kind entry.MarkerKind, id uint64) []byte {
	return message("", -1, func(b []byte) []byte { return inTransaction(id)(pbfield.AppendUint(b, 20, uint64(kind))) })
}

// objects makes the two objects of a ledger. blockSize bounds blocks, as the offloader's setting does.
func objects(topic string, blockSize int, entries ...[]byte) (data, idx []byte) {
	left := 0
	for _, e := range entries {
		left += len(e)
	}
	length := left
	var table []byte
	blocks := 0
	for next := 0; next < len(entries); blocks++ {
		size := min(blockSize, (len(entries)-next)*entryHeader+left+128)
		table = binary.BigEndian.AppendUint64(table, uint64(next))
		table = binary.BigEndian.AppendUint32(table, uint32(blocks+1))
		table = binary.BigEndian.AppendUint64(table, uint64(len(data)))
		b := binary.BigEndian.AppendUint32(nil, magicBlock)
		for _, v := range []int{128, size, next} {
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		}
		b = append(b, make([]byte, 128-len(b))...)
		for ; next < len(entries) && len(b)+entryHeader+len(entries[next]) <= size; next++ {
			b = binary.BigEndian.AppendUint32(b, uint32(len(entries[next])))
			b = binary.BigEndian.AppendUint64(b, uint64(next))
			b = append(b, entries[next]...)
			left -= len(entries[next])
		}
		for i := 0; len(b) < size; i++ {
			b = append(b, []byte{0xFE, 0xDC, 0xDE, 0xAD}[i%4])
		}
		data = append(data, b...)
	}
	m := pbfield.AppendInt(nil, 3, int64(length))
	m = pbfield.AppendInt(m, 4, int64(len(entries)-1))
	m = pbfield.AppendUint(m, 5, 3)
	if topic != "" {
		m = pbfield.AppendBytes(m, 11, pbfield.AppendString(pbfield.AppendString(nil, 1, "pulsar/managed-ledger"), 2, topic))
	}
	idx = binary.BigEndian.AppendUint32(nil, magicIndex)
	idx = binary.BigEndian.AppendUint32(idx, uint32(indexFixed+len(m)+len(table)))
	idx = binary.BigEndian.AppendUint64(idx, uint64(len(data)))
	idx = binary.BigEndian.AppendUint64(idx, 128)
	idx = binary.BigEndian.AppendUint32(idx, uint32(blocks))
	idx = binary.BigEndian.AppendUint32(idx, uint32(len(m)))
	return data, append(append(idx, m...), table...)
}

const managed = "a/b/persistent/events"

func objectName(id int64) string {
	return fmt.Sprintf("%08x-0000-4000-8000-000000000000-ledger-%d", id, id)
}

// put stores a ledger of a/b/events.
func put(t testing.TB, store objstore.Store, id int64, entries ...[]byte) {
	t.Helper()
	size := 300
	for _, e := range entries {
		size = max(size, 128+entryHeader+len(e)) // no entry crosses a block
	}
	data, idx := objects(managed, size, entries...)
	for key, raw := range map[string][]byte{objectName(id): data, objectName(id) + "-index": idx} {
		if err := store.Put(t.Context(), key, raw); err != nil {
			t.Fatal(err)
		}
	}
}
