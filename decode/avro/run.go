package avro

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/sink"
)

// maxCalls bounds the nesting of records of a recursive type, which is in the message's hands (I8).
const maxCalls = 1000

// Records that are skipped may be so many in a message: some, and some more for each byte of it (I8).
const (
	freeCalls    = 10_000
	callsPerByte = 64
)

// fail notes what is wrong and gives the position that stands for failure.
func (d *decoder) fail(in *instr, pos int, reason string) int {
	d.err = &decode.Error{Reason: reason, Path: in.path, Pos: pos}
	return -1
}

func (d *decoder) short(in *instr, b []byte) int {
	return d.fail(in, len(b), "the value ends inside a field")
}

// long reads a zigzag varint of at most 10 bytes. next is negative when there is none.
func long(b []byte, i int) (v int64, next int) {
	if i < len(b) && b[i] < 0x80 {
		return int64(b[i]>>1) ^ -int64(b[i]&1), i + 1
	}
	u, n := binary.Uvarint(b[min(i, len(b)):])
	if n <= 0 {
		return 0, -1
	}
	return int64(u>>1) ^ -int64(u&1), i + n
}

// length reads the length of bytes that must be there.
func length(b []byte, i int) (n, next int) {
	v, next := long(b, i)
	if next < 0 || v < 0 || v > int64(len(b)-next) {
		return 0, -1
	}
	return int(v), next
}

// run executes the steps [pc, end) on the bytes from i on.
//
//house:allow func-size: one switch, a case an instruction
func (d *decoder) run(steps []instr, pc, end int, b []byte, i int) int {
	for pc < end {
		in := &steps[pc]
		pc++
		switch in.op {
		case opInt64, opInt32, opInt, opScale:
			v, next := long(b, i)
			if next < 0 {
				return d.badLong(in, b, i)
			}
			switch in.op {
			case opInt64:
				in.sink.I64.Append(v)
			case opInt32:
				if v != int64(int32(v)) {
					return d.outOfRange(in, i, v)
				}
				in.sink.I32.Append(int32(v))
			case opInt:
				if !in.sink.PutInt(v) {
					return d.outOfRange(in, i, v)
				}
			default:
				if !scale(in, v) {
					return d.outOfRange(in, i, v)
				}
			}
			i = next
		case opText, opBytes:
			n, next := length(b, i)
			if next < 0 {
				return d.badLength(in, b, i)
			}
			if !in.sink.PutBytes(b[next : next+n]) {
				return d.fail(in, next, "the bytes are not UTF-8")
			}
			i = next + n
		case opDouble:
			if len(b)-i < 8 {
				return d.short(in, b)
			}
			if !in.sink.PutFloat(math.Float64frombits(binary.LittleEndian.Uint64(b[i:]))) {
				return d.fail(in, i, "the number is out of the range of "+in.sink.TypeName())
			}
			i += 8
		case opFloat:
			if len(b)-i < 4 {
				return d.short(in, b)
			}
			in.sink.PutFloat(float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))))
			i += 4
		case opBool:
			if i >= len(b) {
				return d.short(in, b)
			}
			if b[i] > 1 {
				return d.fail(in, i, fmt.Sprintf("the boolean is %d, not 0 or 1", b[i]))
			}
			in.sink.Bl.Append(b[i] == 1)
			i++
		case opUnion:
			v, next := long(b, i)
			if next < 0 || v < 0 || v >= int64(len(in.jumps)) {
				return d.badBranch(in, b, i)
			}
			pc, i = in.jumps[v], next
		case opNull:
			if in.b > 1 && d.Filled(int(in.b)) {
				return d.fail(in, i, "the value leaves out too many nested fields")
			}
			in.sink.Col.AppendNull()
		case opJump:
			pc = in.a
		case opRecord:
			in.sink.St.Append()
		case opArray, opMap, opSkipArray, opSkipMap:
			if i = d.blocks(steps, in, pc, b, i); i < 0 {
				return i
			}
			pc = in.a
		case opReturn:
			return i
		case opCall:
			if d.calls++; d.calls > maxCalls {
				return d.fail(in, i, fmt.Sprintf("nested deeper than %d records", maxCalls))
			}
			if d.budget--; d.budget < 0 {
				return d.fail(in, i, fmt.Sprintf("more than %d nested records a byte are to be passed over", callsPerByte))
			}
			if i = d.run(steps, in.a, len(steps), b, i); i < 0 {
				return i
			}
			d.calls--
		default:
			if i = d.rare(in, b, i); i < 0 {
				return i
			}
		}
	}
	return i
}

// rare executes the steps that few messages have.
func (d *decoder) rare(in *instr, b []byte, i int) int {
	switch in.op {
	case opSkipInt:
		_, next := long(b, i)
		if next < 0 {
			return d.badLong(in, b, i)
		}
		return next
	case opSkipBytes:
		n, next := length(b, i)
		if next < 0 {
			return d.badLength(in, b, i)
		}
		return next + n
	case opEnum:
		v, next := long(b, i)
		if next < 0 || v < 0 || v >= int64(len(in.enum)) {
			return d.fail(in, i, fmt.Sprintf("the enum has no symbol of that number, only %d", len(in.enum)))
		}
		symbol := in.enum[v]
		if len(symbol) > 1 && d.Filled(len(symbol)-1) {
			return d.fail(in, i, "the symbols of enums are too much text")
		}
		in.sink.Bin.Append(symbol)
		return next
	case opDecimal:
		n, next := length(b, i)
		if next < 0 {
			return d.badLength(in, b, i)
		}
		return d.decimal(in, b, next, n)
	case opRefuse:
		return d.fail(in, i, in.text)
	}
	if len(b)-i < in.a {
		return d.short(in, b)
	}
	switch in.op {
	case opFixed:
		if !in.sink.PutBytes(b[i : i+in.a]) {
			return d.fail(in, i, "the bytes are not UTF-8")
		}
	case opDecimalN:
		return d.decimal(in, b, i, in.a)
	case opUUID:
		var text [36]byte
		in.sink.Bin.Append(uuid(text[:], b[i:i+16]))
	}
	return i + in.a // opSkip too
}

func uuid(dst, b []byte) []byte {
	at := 0
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			dst[at] = '-'
			at++
		}
		at += hex.Encode(dst[at:], b[:n])
		b = b[n:]
	}
	return dst
}

// scale appends an integer to a timestamp column, in microseconds.
func scale(in *instr, v int64) bool {
	if in.b < 0 {
		v = sink.FloorDiv(v, -in.b)
	} else if in.b > 1 {
		w := v * in.b
		if w/in.b != v {
			return false
		}
		v = w
	}
	in.sink.TS.Append(arrow.Timestamp(v))
	return true
}

// decimal appends n bytes of a big-endian two's complement number.
func (d *decoder) decimal(in *instr, b []byte, i, n int) int {
	raw := b[i : i+n]
	var sign byte
	if n > 0 && raw[0]&0x80 != 0 {
		sign = 0xff
	}
	for len(raw) > 16 && raw[0] == sign && (raw[1]^sign)&0x80 == 0 {
		raw = raw[1:]
	}
	if len(raw) > 16 {
		return d.fail(in, i, "the decimal has more digits than "+in.sink.TypeName())
	}
	var full [16]byte
	for j := range full[:16-len(raw)] {
		full[j] = sign
	}
	copy(full[16-len(raw):], raw)
	v := decimal128.New(int64(binary.BigEndian.Uint64(full[:])), binary.BigEndian.Uint64(full[8:]))
	if !in.sink.PutDecimal(v, int32(in.b)) {
		return d.fail(in, i, "the decimal does not fit "+in.sink.TypeName())
	}
	return i + n
}

// blocks decodes an array or a map, whose body is [pc, in.a).
func (d *decoder) blocks(steps []instr, in *instr, pc int, b []byte, i int) int {
	first, index := 0, 0
	if in.op == opMap {
		first = in.sink.Mp.Entries()
	}
	for {
		count, next := long(b, i)
		if next < 0 {
			return d.badLong(in, b, i)
		}
		size := -1
		if count < 0 { // the block tells its length in bytes
			if size, next = length(b, next); next < 0 {
				return d.badLength(in, b, i)
			}
			count = -count
		}
		if count == 0 {
			break
		}
		if !d.roomFor(in, count, len(b)-next) {
			return d.fail(in, i, fmt.Sprintf("a block of %d elements is longer than the value", uint64(count)))
		}
		i = next
		if size >= 0 && (in.op == opSkipArray || in.op == opSkipMap) {
			i += size
			continue
		}
		if in.op == opSkipArray && in.least == 0 { // elements without a byte
			continue
		}
		for range count {
			if i = d.element(steps, in, pc, b, i, index); i < 0 {
				return i
			}
			index++
		}
		if size >= 0 && i != next+size {
			return d.fail(in, i, fmt.Sprintf("a block of %d bytes has %d", size, i-next))
		}
	}
	_, i = long(b, i)
	switch in.op {
	case opArray:
		in.sink.Li.Append()
	case opMap:
		if drop := in.sink.Overridden(first); drop != nil {
			return d.fail(in, i, "a key of the map occurs twice")
		}
		in.sink.Mp.Append()
	}
	return i
}

// roomFor says whether so many elements may come: each takes bytes, or is counted.
func (d *decoder) roomFor(in *instr, count int64, left int) bool {
	if count < 0 { // the one number that has no opposite
		return false
	}
	cells := in.blank
	if in.least > 0 {
		if count > int64(left/in.least) {
			return false
		}
	} else {
		cells++
	}
	hi, n := bits.Mul64(uint64(count), uint64(cells))
	return hi == 0 && n <= sink.MaxFill && !d.Filled(int(n))
}

func (d *decoder) element(steps []instr, in *instr, pc int, b []byte, i, index int) int {
	if in.op == opMap || in.op == opSkipMap {
		n, next := length(b, i)
		if next < 0 {
			return d.badLength(in, b, i)
		}
		if in.op == opMap && !in.sink.Key.PutBytes(b[next:next+n]) {
			return d.fail(in, next, "a key of the map is not UTF-8")
		}
		i = next + n
	}
	if i = d.run(steps, pc, in.a, b, i); i < 0 {
		d.err.Under(in.path + "[" + strconv.Itoa(index) + "]")
		return i
	}
	if in.op == opMap {
		in.sink.Mp.AppendEntry()
	}
	return i
}

func (d *decoder) badLong(in *instr, b []byte, i int) int {
	if len(b)-i < binary.MaxVarintLen64 {
		return d.short(in, b)
	}
	return d.fail(in, i, "a number has more than 10 bytes")
}

func (d *decoder) badLength(in *instr, b []byte, i int) int {
	v, next := long(b, i)
	if next < 0 {
		return d.badLong(in, b, i)
	}
	if v < 0 {
		return d.fail(in, i, fmt.Sprintf("the length %d is negative", v))
	}
	return d.fail(in, i, fmt.Sprintf("%d bytes are to come, and the value has %d more", v, len(b)-next))
}

func (d *decoder) badBranch(in *instr, b []byte, i int) int {
	v, next := long(b, i)
	if next < 0 {
		return d.badLong(in, b, i)
	}
	return d.fail(in, i, fmt.Sprintf("the union has no branch %d, only %d", v, len(in.jumps)))
}

func (d *decoder) outOfRange(in *instr, i int, v int64) int {
	return d.fail(in, i, fmt.Sprintf("%d is out of the range of %s", v, in.sink.TypeName()))
}
