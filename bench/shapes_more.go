package bench

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// wideMessages makes messages of 40 leaves: 20 beside each other, and 20 in four objects, one of them two levels deep.
func wideMessages(seed uint64) func([]byte) []byte {
	rng := rand.New(rand.NewPCG(seed, 4))
	at := start()
	return func(b []byte) []byte {
		at = at.Add(time.Millisecond)
		b = appendUUID(append(b, `{"id":"`...), rng)
		b = at.AppendFormat(append(b, `","at":"`...), "2006-01-02T15:04:05.000Z")
		b = append(b, '"')
		for i := range 18 {
			b = appendLeaf(fmt.Appendf(b, `,"c%02d":`, i), i, rng)
		}
		for o := range 4 {
			b = fmt.Appendf(b, `,"o%d":{`, o)
			if o == 3 {
				b = append(b, `"inner":{`...)
			}
			for i := range 5 {
				if i > 0 {
					b = append(b, ',')
				}
				b = appendLeaf(fmt.Appendf(b, `"f%d":`, i), i+o, rng)
			}
			if b = append(b, '}'); o == 3 {
				b = append(b, '}')
			}
		}
		return append(b, '}')
	}
}

// appendLeaf appends a value; its type follows from kind. One in ten may be missing, as null.
func appendLeaf(b []byte, kind int, rng *rand.Rand) []byte {
	switch {
	case kind%5 > 1 && rng.IntN(10) == 0:
		return append(b, `null`...)
	case kind%5 == 0:
		return strconv.AppendInt(b, rng.Int64N(1<<40), 10)
	case kind%5 == 1:
		b = append(append(b, '"'), cities[rng.IntN(len(cities))]...)
		return append(b, '"')
	case kind%5 == 2:
		return strconv.AppendFloat(b, float64(rng.IntN(1_000_000))/1000+0.0005, 'f', 4, 64)
	case kind%5 == 3:
		return strconv.AppendBool(b, rng.IntN(2) == 0)
	}
	return append(fmt.Appendf(append(b, '"'), "%016x", rng.Uint64()), '"')
}

// avroSchema is in Avro's canonical form, so that its fingerprint is that of its bytes.
const avroSchema = `{"name":"Request","type":"record","fields":[{"name":"uuid","type":"string"},{"name":"session_id","type":"string"},` +
	`{"name":"method","type":"string"},{"name":"status","type":"int"},{"name":"url","type":"string"},{"name":"at","type":"string"},` +
	`{"name":"size","type":"long"},{"name":"took","type":"double"}]}`

const avroFields = `{"type":"struct","fields":[
{"name":"uuid","type":"string","nullable":true,"metadata":{}},{"name":"session_id","type":"string","nullable":true,"metadata":{}},
{"name":"method","type":"string","nullable":true,"metadata":{}},{"name":"status","type":"integer","nullable":true,"metadata":{}},
{"name":"url","type":"string","nullable":true,"metadata":{}},{"name":"at","type":"string","nullable":true,"metadata":{}},
{"name":"size","type":"long","nullable":true,"metadata":{}},{"name":"took","type":"double","nullable":true,"metadata":{}}]}`

// avroRequests makes web requests in Avro's encoding of single objects: C3 01, the fingerprint of the schema, the record.
func avroRequests(seed uint64) func([]byte) []byte {
	rng := rand.New(rand.NewPCG(seed, 5))
	head := binary.LittleEndian.AppendUint64([]byte{0xc3, 0x01}, avroFingerprint(avroSchema))
	text := func(b []byte, s string) []byte { return append(binary.AppendVarint(b, int64(len(s))), s...) }
	methods := []string{"GET", "POST", "PUT", "DELETE"}
	statuses := []int64{200, 201, 204, 301, 404, 500}
	at := start()
	return func(b []byte) []byte {
		at = at.Add(time.Millisecond)
		b = append(b, head...)
		b = text(b, string(appendUUID(nil, rng)))
		b = text(b, string(appendUUID(nil, rng)))
		b = text(b, methods[rng.IntN(len(methods))])
		b = binary.AppendVarint(b, statuses[rng.IntN(len(statuses))])
		b = text(b, "http://www.shop.example/p/"+string(appendUUID(nil, rng)))
		b = text(b, at.Format("2006-01-02T15:04:05.000000Z"))
		b = binary.AppendVarint(b, rng.Int64N(1<<24))
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(rng.IntN(400_000))/1000))
	}
}

// avroID finds the first field of a message of avroRequests.
func avroID(message []byte) []byte {
	const head = 10
	n, size := binary.Varint(message[head:])
	return message[head+size:][:n]
}

// avroFingerprint is CRC-64-AVRO, by the Avro specification 1.12, "Schema Fingerprints".
func avroFingerprint(schema string) uint64 {
	const empty = 0xc15d213aa4d7a795
	fp := uint64(empty)
	for _, c := range []byte(schema) {
		fp ^= uint64(c)
		for range 8 {
			fp = fp>>1 ^ empty&-(fp&1)
		}
	}
	return fp
}
