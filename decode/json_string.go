package decode

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipSpace gives the first position from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		if c := b[i]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return i
		}
		i++
	}
	return i
}

// scanString finds the first quote, backslash or control byte from i on, len(b) when there is none. high
// has a top bit set when a byte before it has.
//
// It looks at 8 bytes a step. Turning bit 1 over makes the quote 0x20, so that it and the control bytes are
// the ones below 0x21, one test for both. A borrow can mark bytes above a true hit, never below one, so
// that the lowest mark is right.
func scanString(b []byte, i int) (end int, high uint64) {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		hit := (((w ^ 2*ones) - 0x21*ones) | ((w ^ '\\'*ones) - ones)) &^ w & highs
		if hit != 0 {
			n := bits.TrailingZeros64(hit) &^ 7
			return i + n/8, high | w&(1<<n-1)
		}
		high |= w
		i += 8
	}
	for ; i < len(b); i++ {
		c := b[i]
		if c == '"' || c == '\\' || c < ' ' {
			break
		}
		high |= uint64(c)
	}
	return i, high
}

// str reads the string whose quote is at i: its bytes, in the message or unescaped in the scratch buffer,
// and the position behind it. The bytes are valid until the next call.
func (d *JSON) str(b []byte, i int) ([]byte, int) {
	i++
	end, high := scanString(b, i)
	if end < len(b) && b[end] == '"' {
		s := b[i:end]
		if high&highs != 0 && !utf8.Valid(s) {
			return nil, d.fail(i, "the string is not valid UTF-8")
		}
		return s, end + 1
	}
	return d.escaped(b, i, end, high)
}

// escaped reads on at the first byte that is neither plain nor a quote.
func (d *JSON) escaped(b []byte, start, end int, high uint64) ([]byte, int) {
	d.scratch = d.scratch[:0]
	begin := start
	for {
		d.scratch = append(d.scratch, b[start:end]...)
		if end >= len(b) {
			return nil, d.fail(end, "the JSON ends inside a string")
		}
		switch b[end] {
		case '"':
			// Escapes are whole characters: they cannot mend a broken one beside them.
			if high&highs != 0 && !utf8.Valid(d.scratch) {
				return nil, d.fail(begin, "the string is not valid UTF-8")
			}
			return d.scratch, end + 1
		case '\\':
			if start = d.escape(b, end); start < 0 {
				return nil, start
			}
		default:
			return nil, d.fail(end, "a control character inside a string")
		}
		var more uint64
		end, more = scanString(b, start)
		high |= more
	}
}

// escape appends the character of the escape at i and gives the position behind.
func (d *JSON) escape(b []byte, i int) int {
	if i+1 >= len(b) {
		return d.fail(i, "the JSON ends inside a string")
	}
	c := b[i+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return d.unicode(b, i)
	default:
		return d.fail(i, "an unknown escape inside a string")
	}
	d.scratch = append(d.scratch, c)
	return i + 2
}

// unicode appends the character of the \u escape at i, or of the pair of them.
func (d *JSON) unicode(b []byte, i int) int {
	r := hex4(b, i+2)
	if r < 0 {
		return d.fail(i, "a \\u escape without four hexadecimal digits")
	}
	i += 6
	if utf16.IsSurrogate(r) {
		low := rune(-1)
		if i+1 < len(b) && b[i] == '\\' && b[i+1] == 'u' {
			low = hex4(b, i+2)
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return d.fail(i-6, "half of a surrogate pair inside a string")
		}
		i += 6
	}
	d.scratch = utf8.AppendRune(d.scratch, r)
	return i
}

// hex4 is the value of four hexadecimal digits at i, -1 if they are not.
func hex4(b []byte, i int) rune {
	if i+4 > len(b) {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
