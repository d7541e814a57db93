package deltalog

import (
	"fmt"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// EncodePath gives the URI-encoded form of a file path that add and remove actions hold.
// It is applied on top of EscapePartition, never instead of it.
func EncodePath(path string) string {
	n := 0
	for i := range len(path) {
		if uriSpecial(path[i]) {
			n++
		}
	}
	if n == 0 {
		return path
	}
	out := make([]byte, 0, len(path)+2*n)
	for i := range len(path) {
		c := path[i]
		if uriSpecial(c) {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

func uriSpecial(c byte) bool {
	return c <= ' ' || c == 0x7F || strings.IndexByte("\"#%<>?[\\]^`{|}", c) >= 0
}

// DecodePath undoes EncodePath: percent sequences are decoded once and '+' stays a plus sign.
func DecodePath(path string) (string, error) {
	if strings.IndexByte(path, '%') < 0 {
		return path, nil
	}
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			out = append(out, path[i])
			continue
		}
		if i+2 >= len(path) {
			return "", fmt.Errorf("path %q: '%%' without two hex digits at byte %d", path, i)
		}
		hi, lo := hexValue(path[i+1]), hexValue(path[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("path %q: '%%' without two hex digits at byte %d", path, i)
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return string(out), nil
}

func hexValue(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// EscapePartition escapes one column name or value for a Hive style folder name, column=value.
func EscapePartition(s string) string {
	var out []byte
	for i := range len(s) {
		c := s[i]
		if c < 0x20 || c == 0x7F || strings.IndexByte("\"#%'*/:=?\\{[]^", c) >= 0 {
			if out == nil {
				out = append(make([]byte, 0, len(s)+8), s[:i]...)
			}
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
		} else if out != nil {
			out = append(out, c)
		}
	}
	if out == nil {
		return s
	}
	return string(out)
}

// DecodedPath is the add's path with its URI encoding taken off: a key below the table's root, or an absolute
// path or URI. A path with broken encoding is given as it stands.
func (a *Add) DecodedPath() string { return decodedOrRaw(a.Path) }

func decodedOrRaw(p string) string {
	d, err := DecodePath(p)
	if err != nil {
		return p
	}
	return d
}

// canonicalPath is the form under which paths are compared: decoded, and local absolute paths in one spelling
// (file:/x, file:///x and /x are the same file).
func canonicalPath(p string) string {
	if strings.IndexByte(p, '%') < 0 && strings.IndexByte(p, ':') < 0 {
		return p
	}
	d := decodedOrRaw(p)
	if rest, ok := strings.CutPrefix(d, "file:"); ok {
		rest = strings.TrimPrefix(rest, "//localhost/")
		return "/" + strings.TrimLeft(rest, "/")
	}
	return d
}

// fileKey identifies a logical file: path and deletion vector.
func fileKey(path string, dv *DeletionVector) string {
	p := canonicalPath(path)
	if dv == nil {
		return p
	}
	return p + "\x00" + dv.UniqueID()
}
