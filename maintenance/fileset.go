package maintenance

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// fileSet is a set of files that the log names. A file can have more than one spelling: ./x, a//x, or an absolute
// path through a link that leads into the table. Where it is not sure which object a path means, the set holds
// every object of that base name: keeping too much costs space only.
type fileSet struct {
	keys  map[string]struct{}
	bases map[string]struct{}
}

func newFileSet(n int) fileSet {
	return fileSet{make(map[string]struct{}, n), map[string]struct{}{}}
}

// add takes a path as actions hold it, URI-encoded.
func (s fileSet) add(t *table.Table, encoded string) error {
	key, err := t.ObjectKey(encoded)
	var elsewhere *deltalog.UnsupportedError
	if errors.As(err, &elsewhere) { // or here, by a name that the store does not know
		s.bases[path.Base((&deltalog.Add{Path: encoded}).DecodedPath())] = struct{}{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("the log names a file that cannot be found, so nothing is deleted: %w", err)
	}
	if clean := cleanKey(key); clean != key {
		s.bases[path.Base(clean)] = struct{}{}
	}
	s.keys[key] = struct{}{}
	return nil
}

func (s fileSet) has(key string) bool {
	if _, ok := s.keys[key]; ok {
		return true
	}
	if len(s.bases) == 0 {
		return false
	}
	_, ok := s.bases[path.Base(key)]
	return ok
}

// cleanKey gives the one spelling that a listing has for a key.
func cleanKey(key string) string { return strings.TrimPrefix(path.Clean("/"+key), "/") }
