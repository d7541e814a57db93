package record

// Varints in records are zigzag: 32 bits in at most 5 bytes, 64 bits in at most 10.

// readVarint gives the 32-bit varint at b[pos:] and the position behind it; next < 0 when there is none.
func readVarint(b []byte, pos int) (v int32, next int) {
	if uint(pos) < uint(len(b)) && b[pos] < 0x80 { // most are one byte
		u := uint32(b[pos])
		return int32(u>>1) ^ -int32(u&1), pos + 1
	}
	return readVarintSlow(b, pos)
}

func readVarintSlow(b []byte, pos int) (int32, int) {
	var u uint32
	for shift := 0; pos < len(b); shift += 7 {
		c := b[pos]
		pos++
		if shift == 28 && c > 0x0f { // would not fit 32 bits
			return 0, -1
		}
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), pos
		}
	}
	return 0, -1
}

// readVarlong is readVarint for 64 bits.
func readVarlong(b []byte, pos int) (int64, int) {
	var u uint64
	for shift := 0; pos < len(b); shift += 7 {
		c := b[pos]
		pos++
		if shift == 63 && c > 1 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), pos
		}
	}
	return 0, -1
}

func appendVarlong(b []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

// varlongLen is how many bytes appendVarlong would add.
func varlongLen(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
