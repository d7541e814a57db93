package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// OriginHeader is the key of the header in which a record of a log that is not Kafka's carries its Origin. It comes
// before all other headers.
const OriginHeader = "__origin"

// Origin says where a record was before it became one, and what that log keeps of it that Kafka has no field for.
// The words are Pulsar's.
type Origin struct {
	Ledger, Entry           int64
	Batch                   int32 // index in the entry's batch; -1: the entry is one message
	FirstLedger, FirstEntry int64 // of the first chunk of a message in chunks, whose last one is at Ledger, Entry; else -1
	Index                   int64 // the broker's running index, which is not always sound; -1: none
	EventTime               int64 // ms; 0: none
	Sequence                int64 // of the producer
	Producer                []byte
	OrderingKey             []byte // nil: none
	SchemaVersion           []byte // nil: none
}

// ErrBadOrigin is returned for bytes that are no Origin.
var ErrBadOrigin = errors.New("malformed origin header")

const originVersion = 1

// AppendTo appends the value of an OriginHeader: a version, the numbers as varints (zigzag) in the order of the fields,
// then each byte string behind its length + 1; 0 is nil.
func (o *Origin) AppendTo(b []byte) []byte {
	b = append(b, originVersion)
	for _, v := range [...]int64{o.Ledger, o.Entry, int64(o.Batch), o.FirstLedger, o.FirstEntry, o.Index, o.EventTime, o.Sequence} {
		b = binary.AppendVarint(b, v)
	}
	for _, s := range [...][]byte{o.Producer, o.OrderingKey, o.SchemaVersion} {
		if s == nil {
			b = append(b, 0)
			continue
		}
		b = append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
	}
	return b
}

// Parse reads what AppendTo wrote. The byte strings alias b.
func (o *Origin) Parse(b []byte) error {
	*o = Origin{}
	if len(b) == 0 || b[0] != originVersion {
		return fmt.Errorf("%w: version", ErrBadOrigin)
	}
	b = b[1:]
	var batch int64
	for _, p := range [...]*int64{&o.Ledger, &o.Entry, &batch, &o.FirstLedger, &o.FirstEntry, &o.Index, &o.EventTime, &o.Sequence} {
		v, n := binary.Varint(b)
		if n <= 0 {
			return fmt.Errorf("%w: number", ErrBadOrigin)
		}
		*p, b = v, b[n:]
	}
	if o.Batch = int32(batch); int64(o.Batch) != batch {
		return fmt.Errorf("%w: batch index %d", ErrBadOrigin, batch)
	}
	for _, p := range [...]*[]byte{&o.Producer, &o.OrderingKey, &o.SchemaVersion} {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > uint64(len(b)-n)+1 {
			return fmt.Errorf("%w: length", ErrBadOrigin)
		}
		if b = b[n:]; v > 0 {
			*p, b = b[:v-1:v-1], b[v-1:]
		}
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes left", ErrBadOrigin, len(b))
	}
	return nil
}

// OriginOf reads the origin of a record, which is its first header; false when it has none.
func OriginOf(rec *Record, o *Origin) bool {
	return len(rec.Headers) > 0 && string(rec.Headers[0].Key) == OriginHeader && o.Parse(rec.Headers[0].Value) == nil
}
