package objstore

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrInvalidKey is wrapped by the error of every method that is given a key which no backend could hold, or not
// this one.
var ErrInvalidKey = errors.New("invalid object key")

// maxKey is the limit of S3, in bytes; the others take it over so that a table can move between stores.
const maxKey = 1024

// CheckKey refuses keys that are empty or too long, that are not UTF-8, and whose parts are empty, "." or "..":
// those could name something outside the root, or the same object twice (I8).
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrInvalidKey)
	}
	if len(key) > maxKey {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrInvalidKey, len(key), maxKey)
	}
	if !utf8.ValidString(key) || strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("%w %q: not UTF-8 text", ErrInvalidKey, key)
	}
	for part := range strings.SplitSeq(key, "/") {
		switch part {
		case "", ".", "..":
			return fmt.Errorf("%w %q: part %q", ErrInvalidKey, key, part)
		}
	}
	return nil
}

// Match says whether a listing with these options has key in it.
func (o ListOptions) Match(key string) bool {
	rest, ok := strings.CutPrefix(key, o.Prefix)
	return ok && key > o.StartAfter && !(o.Flat && strings.Contains(rest, "/"))
}
