package local

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/ledgerlake/ledgerlake/record"
)

// A journal file is a header and frames; all numbers are big-endian.
//
//	header (64 bytes)              frame header (52 bytes), then the payload
//	 0  magic "LLJOURNL"            0  magic: bytes 36..40 of the file
//	 8  version, 2        uint32    4  bytes of payload            uint32
//	12  zero                        8  CRC-32C                     uint32
//	16  sequence number   uint64   12  kind                        uint8, then 3 zero bytes
//	24  time made, Unix ms int64   16  partition                   int32
//	32  CRC-32C           uint32   20  topic id                    16 bytes
//	36  salt              16 bytes 36  offset                      int64
//	52  zero                       44  end of what was synced      int64
//
// The header's CRC covers bytes 0..32 and the salt. A frame's CRC covers the file's sequence number (8 bytes),
// the salt, the frame header from byte 12, and the payload. The salt is random and leaves the file never: nobody
// can send a record that looks like a frame of the file. An end frame closes a file whose successor holds frames.
//
// The file has its full size from the beginning. Behind the last frame are zeros, or, in a file that was made of
// a spare (see spares), frames of its earlier life: they have another salt, so to this file they are no frames.
//
// "End of what was synced" is the position up to which the file was durable when the frame was written. A
// bad frame at the end of the last file is the torn rest of a write that nobody was told of, unless a good
// frame behind it says that the bad one was durable: then it is damage, and recovery stops.
//
// Versions: 1 has no salt (zeros that no CRC covers) and the magic "LLF1" for all frames; it is still read.
const (
	fileMagic       = "LLJOURNL"
	fileVersion     = 2
	fileHeaderSize  = 64
	frameMagicV1    = 0x4c4c4631 // "LLF1"
	frameHeaderSize = 52
	journalSuffix   = ".wal"
)

// FrameKind says what a journal frame holds.
type FrameKind uint8

// Kinds of frames.
const (
	FrameBatch FrameKind = 1 // payload: a record batch; offset: its base
	FrameStart FrameKind = 2 // offset: the new log start
	FrameHold  FrameKind = 3 // offset: the new hold
	FrameEnd   FrameKind = 4 // the file is complete
)

// String names the kind.
func (k FrameKind) String() string {
	switch k {
	case FrameBatch:
		return "batch"
	case FrameStart:
		return "start"
	case FrameHold:
		return "hold"
	case FrameEnd:
		return "end"
	}
	return "unknown kind " + strconv.Itoa(int(k))
}

// Frame is one entry of the journal.
type Frame struct {
	Kind      FrameKind
	Topic     [16]byte
	Partition int32
	Offset    record.Offset
	Synced    int64  // the file was durable up to here when the frame was written
	Position  int64  // of the frame in its file
	Payload   []byte // valid until the next frame is read
}

func (f *Frame) size() int64 { return frameHeaderSize + int64(len(f.Payload)) }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func fileHeader(seq uint64, ms int64, salt [16]byte) []byte {
	b := make([]byte, fileHeaderSize)
	copy(b, fileMagic)
	binary.BigEndian.PutUint32(b[8:], fileVersion)
	binary.BigEndian.PutUint64(b[16:], seq)
	binary.BigEndian.PutUint64(b[24:], uint64(ms))
	copy(b[36:], salt[:])
	binary.BigEndian.PutUint32(b[32:], headerCRC(b, fileVersion))
	return b
}

func headerCRC(b []byte, version uint32) uint32 {
	sum := crc32.Checksum(b[:32], castagnoli())
	if version > 1 {
		sum = crc32.Update(sum, castagnoli(), b[36:52])
	}
	return sum
}

// newSalt makes the salt of a new file. As a magic number, its beginning must not be taken for zeros.
func newSalt() (salt [16]byte, err error) {
	if _, err = rand.Read(salt[:]); err != nil {
		return salt, fmt.Errorf("make journal: salt: %w", err)
	}
	salt[0] |= 1
	return salt, nil
}

// frameKey is what the frames of one file have in common.
type frameKey struct {
	magic uint32
	seed  uint32 // begins each frame's checksum
	table *crc32.Table
}

func newFrameKey(seq uint64, version uint32, salt [16]byte) frameKey {
	k := frameKey{magic: frameMagicV1, table: castagnoli()}
	k.seed = crc32.Update(0, k.table, binary.BigEndian.AppendUint64(nil, seq))
	if version > 1 {
		k.magic = binary.BigEndian.Uint32(salt[:])
		k.seed = crc32.Update(k.seed, k.table, salt[:])
	}
	return k
}

func (k *frameKey) sum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Update(k.seed, k.table, head), k.table, payload)
}

// appendFrame encodes a frame at the end of buf.
func appendFrame(buf []byte, f *Frame, key *frameKey) []byte {
	at := len(buf)
	buf = binary.BigEndian.AppendUint32(buf, key.magic)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(f.Payload)))
	buf = append(buf, 0, 0, 0, 0, byte(f.Kind), 0, 0, 0)
	buf = binary.BigEndian.AppendUint32(buf, uint32(f.Partition))
	buf = append(buf, f.Topic[:]...)
	buf = binary.BigEndian.AppendUint64(buf, uint64(f.Offset))
	buf = binary.BigEndian.AppendUint64(buf, uint64(f.Synced))
	buf = append(buf, f.Payload...)
	binary.BigEndian.PutUint32(buf[at+8:], key.sum(buf[at+12:], nil))
	return buf
}

// decodeFrameHeader reads all but the payload. n is the payload's length.
func decodeFrameHeader(b []byte) (f Frame, n int64, crc uint32) {
	f = Frame{
		Kind:      FrameKind(b[12]),
		Partition: int32(binary.BigEndian.Uint32(b[16:])),
		Topic:     [16]byte(b[20:36]),
		Offset:    record.Offset(binary.BigEndian.Uint64(b[36:])),
		Synced:    int64(binary.BigEndian.Uint64(b[44:])),
	}
	return f, int64(binary.BigEndian.Uint32(b[4:])), binary.BigEndian.Uint32(b[8:])
}

func journalName(dir string, seq uint64) string {
	return fmt.Sprintf("%s/%020d%s", dir, seq, journalSuffix)
}

func parseJournalName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, journalSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil
}
