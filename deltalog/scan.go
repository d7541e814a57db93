package deltalog

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// scanner reads one JSON value by pulling. It is as strict as encoding/json about syntax, but it neither
// allocates nor reflects, and it leaves out what nobody asked for without decoding it.
type scanner struct {
	b       []byte
	i       int
	depth   int
	scratch []byte // of unescaped strings
}

const maxJSONDepth = 1000

func (s *scanner) fail(what string) error {
	if s.i >= len(s.b) {
		return fmt.Errorf("JSON ends in the middle: want %s", what)
	}
	return fmt.Errorf("JSON byte %d: found %q, want %s", s.i, s.b[s.i], what)
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// peek skips space and gives the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' { // as most writers have it
		return s.b[s.i]
	}
	return s.peekBehindSpace()
}

func (s *scanner) peekBehindSpace() byte {
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) take(c byte) error {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return nil
	}
	if s.peek() != c || s.i >= len(s.b) {
		return s.fail(strconv.Quote(string(c)))
	}
	s.i++
	return nil
}

// object calls member for each key of an object; member must consume the value. The key is valid until then.
func (s *scanner) object(member func(key []byte) error) error {
	if err := s.take('{'); err != nil {
		return err
	}
	if s.depth++; s.depth > maxJSONDepth {
		return fmt.Errorf("JSON is nested deeper than %d", maxJSONDepth)
	}
	if s.peek() == '}' {
		s.i++
		s.depth--
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.fail("a key")
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		if err := s.take(':'); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if s.peek() == ',' {
			s.i++
			continue
		}
		s.depth--
		return s.take('}')
	}
}

func (s *scanner) array() error {
	s.i++ // '['
	if s.depth++; s.depth > maxJSONDepth {
		return fmt.Errorf("JSON is nested deeper than %d", maxJSONDepth)
	}
	if s.peek() == ']' {
		s.i++
		s.depth--
		return nil
	}
	for {
		if err := s.skip(); err != nil {
			return err
		}
		if s.peek() == ',' {
			s.i++
			continue
		}
		s.depth--
		return s.take(']')
	}
}

// skip checks and passes one value.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(func([]byte) error { return s.skip() })
	case c == '[':
		return s.array()
	case c == '"':
		return s.skipText()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.fail("a value")
}

// raw passes one value and gives its text.
func (s *scanner) raw() ([]byte, error) {
	s.space()
	from := s.i
	err := s.skip()
	return s.b[from:s.i], err
}

func (s *scanner) word(w string) error {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return s.fail(w)
	}
	s.i += len(w)
	return nil
}

// null passes a null if there is one.
func (s *scanner) null() (bool, error) {
	if s.peek() != 'n' {
		return false, nil
	}
	return true, s.word("null")
}

func (s *scanner) digits() error {
	from := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	if s.i == from {
		return s.fail("a digit")
	}
	return nil
}

func (s *scanner) number() error {
	if s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) int() (int64, error) {
	// Up to 18 digits, behind no sign and before the end of a member, are read in one pass.
	v, i := int64(0), s.i
	for ; i < len(s.b) && i-s.i < 18 && '0' <= s.b[i] && s.b[i] <= '9'; i++ {
		v = v*10 + int64(s.b[i]-'0')
	}
	if i > s.i && i < len(s.b) && (s.b[i] == ',' || s.b[i] == '}') && (s.b[s.i] != '0' || i == s.i+1) {
		s.i = i
		return v, nil
	}
	return s.anyInt()
}

func (s *scanner) anyInt() (int64, error) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.fail("a whole number")
	}
	from := s.i
	if err := s.number(); err != nil {
		return 0, err
	}
	num := s.b[from:s.i]
	if len(num) <= 18 {
		v, neg := int64(0), false
		for j, c := range num {
			switch {
			case c == '-' && j == 0:
				neg = true
			case '0' <= c && c <= '9':
				v = v*10 + int64(c-'0')
			default:
				return 0, fmt.Errorf("number %s is not a whole number", num)
			}
		}
		if neg {
			v = -v
		}
		return v, nil
	}
	v, err := strconv.ParseInt(string(num), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("number %.40q is not a whole number of 64 bits", num)
	}
	return v, nil
}

func (s *scanner) bool() (bool, error) {
	if s.peek() == 't' {
		return true, s.word("true")
	}
	return false, s.word("false")
}

// plainRun gives the place of the first byte from i on that is not plain text: a quote, a backslash, a control
// character or a part of a non-ASCII one. It looks at eight bytes at a time.
func plainRun(b []byte, i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		// A byte's high bit is set in one of these when it is special; a borrow can only come from one before it.
		m := (x | (x - 0x20*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones)) & high
		if m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

func (s *scanner) skipText() error {
	s.i++
	for {
		s.i = plainRun(s.b, s.i)
		if s.i >= len(s.b) {
			return s.fail("the end of a string")
		}
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < 0x20:
			return s.fail("a string without control characters")
		default:
			s.i++
		}
	}
}

// escape passes an escape and checks it.
func (s *scanner) escape() error {
	s.i++
	if s.i >= len(s.b) {
		return s.fail("an escape")
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
	case 'u':
		s.i++
		for range 4 {
			if s.i >= len(s.b) || hexValue(s.b[s.i]) < 0 {
				return s.fail("a hex digit")
			}
			s.i++
		}
	default:
		return s.fail("an escape")
	}
	return nil
}

// text passes a string and gives its content: a piece of the input, or of scratch memory that the next call reuses.
func (s *scanner) text() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.fail("a string")
	}
	from := s.i + 1
	to := plainRun(s.b, from)
	if to < len(s.b) && s.b[to] == '"' {
		s.i = to + 1
		return s.b[from:to], nil
	}
	return s.slowText(from, to)
}

// slowText decodes a string with escapes or non-ASCII characters, whose first run of plain text is known; broken
// UTF-8 becomes U+FFFD as in encoding/json. Statistics are strings with an escape every few bytes, so plain text
// is copied eight bytes at a time, and what was copied too far is written over.
func (s *scanner) slowText(from, to int) ([]byte, error) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	b := s.b
	if need := 3*(len(b)-from) + 8; cap(s.scratch) < need { // a broken byte becomes three
		s.scratch = make([]byte, need+need/2)
	}
	out := s.scratch[:cap(s.scratch)]
	n := copy(out, b[from:to])
	for i, n := unquote(out, n, b, to); ; {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			binary.LittleEndian.PutUint64(out[n:], x)
			m := (x | (x - 0x20*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones)) & high
			if m != 0 {
				k := bits.TrailingZeros64(m) / 8
				i, n = i+k, n+k
				break
			}
			i, n = i+8, n+8
		}
		if i >= len(b) {
			s.i = i
			return nil, s.fail("the end of a string")
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return out[:n], nil
		case c == '\\':
			if i+1 < len(b) && b[i+1] == '"' {
				out[n] = '"'
				i, n = i+2, n+1
				continue
			}
			s.i = i
			if err := s.escape(); err != nil {
				return nil, err
			}
			var length int
			var text []byte
			text, length = unescape(out[:n], b[i:])
			i, n = i+length, len(text)
		case c < 0x20:
			s.i = i
			return nil, s.fail("a string without control characters")
		case c < utf8.RuneSelf: // near the end, one at a time
			out[n] = c
			i, n = i+1, n+1
		default:
			r, length := utf8.DecodeRune(b[i:])
			n += utf8.EncodeRune(out[n:], r)
			i += length
		}
	}
}

// unquote copies b from i on to out[n:], eight bytes at a time and without a branch that depends on them, as long as there is
// nothing but plain text and quotes behind a backslash, which are in statistics every few bytes. It gives how far it came in
// both.
func unquote(out []byte, n int, b []byte, i int) (from, to int) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	behind := uint64(0) // the last byte was a backslash
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		// The high bits of bytes that are a backslash, and of those that are a quote, exactly.
		s, q := x^'\\'*ones, x^'"'*ones
		s, q = ^((s&^high+0x7f*ones)|s)&high, ^((q&^high+0x7f*ones)|q)&high
		odd := (s<<8 | behind) ^ q // what is one of: behind a backslash, and a quote
		if odd|(x|(x-0x20*ones))&high != 0 {
			break
		}
		behind = s >> 56
		at := n
		n += 8 - bits.OnesCount64(s)
		x, s = without(x, s)
		x, s = without(x, s)
		if s != 0 { // eight bytes have four at most
			x, s = without(x, s)
			x, _ = without(x, s)
		}
		binary.LittleEndian.PutUint64(out[at:], x)
	}
	return i - int(behind>>7), n
}

// without takes the first marked byte out of x, if there is one; marks are high bits.
func without(x, marks uint64) (rest, left uint64) {
	below := marks&-marks>>7 - 1
	return x&below | x>>8&^below, marks & (marks - 1) >> 8
}

// unescape decodes the escape at the start of b, which is known to be well formed, and gives its length.
func unescape(out, b []byte) ([]byte, int) {
	switch b[1] {
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		r := hexRune(b[2:])
		if r >= 0xD800 && r < 0xDC00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if low := hexRune(b[8:]); low >= 0xDC00 && low < 0xE000 {
				return utf8.AppendRune(out, 0x10000+(r-0xD800)<<10+(low-0xDC00)), 12
			}
		}
		return utf8.AppendRune(out, r), 6 // a lone surrogate becomes U+FFFD
	}
	return append(out, b[1]), 2
}

func hexRune(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		r = r<<4 | rune(hexValue(c))
	}
	return r
}

// slab hands out strings cut from large pieces of memory, so that a million paths are not a million allocations.
type slab struct {
	buf  []byte
	size int // of the next piece
	most int // of a piece; 0 for maxSlab
}

const (
	maxSlab = 64 << 10
	// maxAgain is the limit of one that is used again: it soon holds all the text of a piece of a log.
	maxAgain = 1 << 20
)

func (s *slab) string(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > maxSlab/4 {
		return string(b)
	}
	if cap(s.buf)-len(s.buf) < len(b) {
		s.size = min(max(2*s.size, 256), max(s.most, maxSlab))
		s.buf = make([]byte, 0, max(s.size, len(b)))
	}
	from := len(s.buf)
	s.buf = append(s.buf, b...)
	return unsafe.String(&s.buf[from], len(b)) // not written again before again
}

// again gives the slab's memory for new strings. Nobody may have one of the old ones any more.
func (s *slab) again() slab { return slab{buf: s.buf[:0], size: s.size, most: maxAgain} }
