package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrUnsupported is wrapped by errors of expressions that this package does not evaluate.
var ErrUnsupported = errors.New("cannot be evaluated")

const (
	maxText  = 64 << 10 // of an expression (I8)
	maxDepth = 200      // of its tree
	maxNodes = 10_000   // in its tree
	maxMade  = 64 << 20 // bytes of the texts that are made for one row
)

type kind int8

const (
	kindEnd kind = iota
	kindWord
	kindName // in back quotes
	kindText
	kindNumber
	kindSign
)

type token struct {
	kind kind
	text string // without quotes
	at   int
}

func scan(s string) ([]token, error) {
	var out []token
	for i := 0; i < len(s); {
		c, start := s[i], i
		var t token
		var err error
		switch {
		case strings.IndexByte(" \t\n\r", c) >= 0:
			i++
			continue
		case c == '`':
			t, i, err = scanName(s, i)
		case c == '\'' || c == '"':
			t, i, err = scanText(s, i)
		case digit(c) || c == '.' && i+1 < len(s) && digit(s[i+1]):
			i = scanNumber(s, i)
			t = token{kindNumber, s[start:i], start}
		case wordByte(c):
			for i++; i < len(s) && wordByte(s[i]); i++ {
			}
			t = token{kindWord, s[start:i], start}
		default:
			t, i, err = scanSign(s, i)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return append(out, token{kindEnd, "", len(s)}), nil
}

// scanName reads a name in back quotes; one inside is written twice.
func scanName(s string, start int) (token, int, error) {
	var b strings.Builder
	for i := start + 1; i < len(s); i++ {
		if s[i] != '`' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '`' {
			b.WriteByte('`')
			i++
			continue
		}
		return token{kindName, b.String(), start}, i + 1, nil
	}
	return token{}, 0, fmt.Errorf("%w: the quote at position %d does not end", ErrUnsupported, start+1)
}

// scanText reads a text. Two quotes in a row mean different things to different versions of Spark.
func scanText(s string, start int) (token, int, error) {
	q := s[start]
	var b strings.Builder
	for i := start + 1; i < len(s); i++ {
		switch {
		case s[i] == q && i+1 < len(s) && (s[i+1] == q):
			return token{}, 0, fmt.Errorf("%w: two quotes in a row at position %d", ErrUnsupported, i+1)
		case s[i] == q:
			return token{kindText, b.String(), start}, i + 1, nil
		case s[i] != '\\':
			b.WriteByte(s[i])
		case i+1 == len(s):
		default:
			i++
			n, err := unescape(&b, s[i:])
			if err != nil {
				return token{}, 0, fmt.Errorf("%w: position %d", err, i)
			}
			i += n - 1
		}
	}
	return token{}, 0, fmt.Errorf("%w: the quote at position %d does not end", ErrUnsupported, start+1)
}

// unescape writes what stands behind a backslash, and says how much of it was read.
func unescape(b *strings.Builder, s string) (int, error) {
	switch c := s[0]; c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'b':
		b.WriteByte('\b')
	case 'Z':
		b.WriteByte(26)
	case '%', '_': // for LIKE, which takes the backslash itself
		b.WriteByte('\\')
		b.WriteByte(c)
	case 'u':
		if len(s) < 5 {
			return 0, fmt.Errorf("%w: a text with half a \\u", ErrUnsupported)
		}
		r, err := strconv.ParseUint(s[1:5], 16, 16)
		if err != nil || 0xD800 <= r && r < 0xE000 {
			return 0, fmt.Errorf("%w: the text \\u%s", ErrUnsupported, s[1:5])
		}
		b.WriteRune(rune(r))
		return 5, nil
	case 'U', '0', '1', '2', '3':
		return 0, fmt.Errorf("%w: a text with \\%c", ErrUnsupported, c)
	default:
		b.WriteByte(c)
	}
	return 1, nil
}

func scanNumber(s string, i int) int {
	for ; i < len(s) && (wordByte(s[i]) || s[i] == '.' || (s[i] == '-' || s[i] == '+') && (s[i-1]|0x20) == 'e'); i++ {
	}
	return i
}

func scanSign(s string, i int) (token, int, error) {
	for _, sign := range []string{"<=>", "<=", ">=", "<>", "!=", "==", "||", "::", "(", ")", ",", ".", "=", "<", ">", "+", "-", "*", "/", "%", "!"} {
		if strings.HasPrefix(s[i:], sign) && !slices.Contains([]string{"--", "/*"}, s[i:min(i+2, len(s))]) {
			return token{kindSign, sign, i}, i + len(sign), nil
		}
	}
	r, _ := utf8.DecodeRuneInString(s[i:])
	return token{}, 0, fmt.Errorf("%w: %q at position %d has no meaning here", ErrUnsupported, r, i+1)
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func wordByte(c byte) bool {
	return c == '_' || digit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= utf8.RuneSelf
}
