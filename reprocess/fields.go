package reprocess

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"
)

// An object is cut into its fields without decoding them: most are neither looked at nor changed. What is unusual, such as
// names with escapes, is left to encoding/json; either way gives the same bytes.

// field is one of an object: its name, and its value as it is written.
type field struct {
	name string
	text []byte
}

// mostFields bounds the fields of an object that is cut: names are compared with each other.
const mostFields = 64

// mostNames and longestName, in bytes, bound the names that are kept for the next objects.
const (
	mostNames   = 1 << 10
	longestName = 64
)

// object is the fields of the last value; it is for one goroutine.
type object struct {
	fields  []field
	names   map[string]string // that were met: a name costs memory once
	unusual bool              // it was made by decode
}

// cut takes the fields of a value, the last one of each name. They share its memory. It is false for what is no object, or an unusual one.
func (o *object) cut(value []byte) bool {
	o.fields, o.unusual = o.fields[:0], false
	at := space(value, 0)
	if at == len(value) || value[at] != '{' || !json.Valid(value) {
		return false
	}
	for at++; ; at++ { // of what is valid, each step is what is left to be
		if at = space(value, at); value[at] == '}' {
			return true
		}
		end := at + 1
		for ; value[end] != '"'; end++ {
			if !plain(value[end]) {
				return false
			}
		}
		from := space(value, space(value, end+1)+1)
		to := skipValue(value, from)
		if !o.put(value[at+1:end], value[from:to]) {
			return false
		}
		if at = space(value, to); value[at] == '}' {
			return true
		}
	}
}

// decode is cut for any object. What has names that are not plain is written by json.Marshal.
func (o *object) decode(value []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(value, &raw); err != nil {
		return err
	}
	if raw == nil {
		return errors.New("want one object")
	}
	o.fields = o.fields[:0]
	for name, text := range raw {
		o.fields = append(o.fields, field{name, text})
	}
	o.unusual = true
	return nil
}

func (o *object) put(name, text []byte) bool {
	for i := range o.fields {
		if o.fields[i].name == string(name) {
			o.fields[i].text = text
			return true
		}
	}
	if len(o.fields) == mostFields {
		return false
	}
	known, ok := o.names[string(name)]
	if !ok {
		known = string(name)
		if len(o.names) < mostNames && len(name) <= longestName {
			o.names[known] = known
		}
	}
	o.fields = append(o.fields, field{known, text})
	return true
}

func (o *object) set(name string, text []byte) {
	for i := range o.fields {
		if o.fields[i].name == name {
			o.fields[i].text = text
			return
		}
	}
	o.fields = append(o.fields, field{name, text})
}

// appendTo appends the object as json.Marshal writes a map of the fields.
func (o *object) appendTo(dst []byte) ([]byte, error) {
	for i := range o.fields {
		if o.unusual || !asMarshalled(o.fields[i].text) {
			raw := make(map[string]json.RawMessage, len(o.fields))
			for _, f := range o.fields {
				raw[f.name] = f.text
			}
			text, err := json.Marshal(raw)
			return append(dst, text...), err
		}
	}
	slices.SortFunc(o.fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for i, f := range o.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), f.name...), `":`...)
		dst = append(dst, f.text...)
	}
	return append(dst, '}'), nil
}

// asMarshalled says whether json.Marshal leaves a valid text as it is: no spaces between values, and nothing that it escapes.
func asMarshalled(text []byte) bool {
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			inside = !inside
		case c == '<' || c == '>' || c == '&' || c == 0xe2 || c <= ' ' && !inside:
			return false
		}
	}
	return true
}

// plain says whether a byte of a name stands for itself, also in what json.Marshal writes.
func plain(c byte) bool {
	return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

func space(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r') {
		at++
	}
	return at
}

// skipValue gives the end of the value that begins at a place of a valid text.
func skipValue(b []byte, at int) int {
	for depth := 0; ; at++ {
		switch b[at] {
		case '"':
			for at++; b[at] != '"'; at++ {
				if b[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		default:
			if depth > 0 {
				continue
			}
			for at < len(b) && b[at] != ',' && b[at] != '}' && b[at] != ']' && space(b, at) == at {
				at++
			}
			return at
		}
		if depth == 0 {
			return at + 1
		}
	}
}

// valueOf gives a value as expressions see it, whole numbers whole.
func valueOf(text []byte) (any, error) {
	switch c := text[0]; {
	case c == '"' && bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text):
		return string(text[1 : len(text)-1]), nil
	case c == 't' || c == 'f':
		return c == 't', nil
	case c == 'n':
		return nil, nil
	case c == '-' || c >= '0' && c <= '9':
		return numberOf(string(text)), nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return numbers(v), nil
}

// numberOf gives an int where it is one, else a float, else what is written.
func numberOf(text string) any {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	return text
}
