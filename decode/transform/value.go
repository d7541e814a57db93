package transform

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/ledgerlake/ledgerlake/decode"
)

// kind is the type of a value.
type kind uint8

const (
	null kind = iota
	boolean
	number
	str
	other // an object or an array
)

// value is what a node gives. JSON of the message is kept as it stands until somebody needs more of it.
type value struct {
	kind  kind
	raw   []byte // JSON; nil: made here
	text  []byte // str: the characters, when raw is nil
	num   float64
	whole int64 // number: as an integer, when exact; see number.go
	exact bool
	yes   bool
}

// constant is a literal of an expression.
func constant(v any) (value, bool) {
	switch v := v.(type) {
	case nil:
		return value{}, true
	case bool:
		return value{kind: boolean, yes: v}, true
	case float64:
		return floatValue(v), true
	case string:
		return value{kind: str, text: []byte(v)}, true
	}
	return value{}, false
}

// rawValue is a value of the message. It was checked by the decoder.
func rawValue(raw []byte) value {
	if len(raw) == 0 {
		return value{}
	}
	v := value{raw: raw}
	switch raw[0] {
	case '"':
		v.kind = str
	case '{', '[':
		v.kind = other
	case 't', 'f':
		v.kind, v.yes = boolean, raw[0] == 't'
	case 'n':
		return value{}
	default:
		return numberValue(raw)
	}
	return v
}

// truth is JMESPath's: null, false and what is empty are not true.
func (v value) truth() bool {
	switch v.kind {
	case null:
		return false
	case boolean:
		return v.yes
	case str:
		return len(v.text) > 0 || len(v.raw) > 2
	case other:
		return firstMember(v.raw) != v.raw[0]+2 // ']' and '}' lie two behind their opening
	}
	return true
}

// firstMember is the first byte after the bracket that is not space.
func firstMember(raw []byte) byte {
	for _, c := range raw[1:] {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

// chars gives the characters of a string, in buf where it has escapes.
func (v value) chars(buf []byte) (text, rest []byte) {
	if v.raw == nil {
		return v.text, buf
	}
	body := v.raw[1 : len(v.raw)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return body, buf
	}
	start := len(buf)
	buf = unescape(buf, body)
	return buf[start:], buf
}

// unescape appends what a JSON string without its quotes means. It was checked before.
func unescape(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			dst = append(dst, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(s, i+1)
			i += 4
			if utf16.IsSurrogate(r) && i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
				r = utf16.DecodeRune(r, hex4(s, i+3))
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, s[i])
		}
	}
	return dst
}

func hex4(s []byte, i int) rune {
	if i+4 > len(s) {
		return utf8.RuneError
	}
	v, err := strconv.ParseUint(unsafe.String(&s[i], 4), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(v)
}

// appendJSON appends the value as JSON.
func (v value) appendJSON(dst []byte) []byte {
	switch {
	case v.raw != nil:
		return append(dst, v.raw...)
	case v.kind == str:
		return decode.AppendString(dst, v.text)
	case v.kind == number && v.exact:
		return strconv.AppendInt(dst, v.whole, 10)
	case v.kind == number:
		return strconv.AppendFloat(dst, v.num, 'g', -1, 64)
	case v.kind == boolean:
		return strconv.AppendBool(dst, v.yes)
	}
	return append(dst, "null"...)
}

// member gives a member of an object by its name, the last one of that name.
func member(obj []byte, name string) []byte {
	if len(obj) == 0 || obj[0] != '{' {
		return nil
	}
	var found []byte
	for i := space(obj, 1); i < len(obj) && obj[i] == '"'; {
		end := skipString(obj, i)
		hit := sameName(obj[i:end], name)
		i = space(obj, end)
		i = space(obj, i+1) // the colon
		end = skipValue(obj, i)
		if hit {
			found = obj[i:end]
		}
		if i = space(obj, end); i < len(obj) && obj[i] == ',' {
			i = space(obj, i+1)
		}
	}
	return found
}

func sameName(quoted []byte, name string) bool {
	body := quoted[1 : len(quoted)-1]
	if string(body) == name {
		return true
	}
	for _, c := range body {
		if c == '\\' {
			var s string
			return json.Unmarshal(quoted, &s) == nil && s == name
		}
	}
	return false
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipValue gives the end of a value that is known to be one.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(b)
}
