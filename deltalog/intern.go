package deltalog

import (
	"sort"
	"strconv"
	"strings"
)

// interner shares equal partition value maps: a table has far fewer partitions than files.
type interner struct {
	maps  map[string]map[string]*string
	texts map[string]map[string]*string // by their JSON text
	// lastText is the text that came last of those that were new, and lastMap its map.
	lastText string
	lastMap  map[string]*string
	buf      []byte
	keys     []string
}

func newInterner() *interner {
	return &interner{maps: map[string]map[string]*string{}, texts: map[string]map[string]*string{}}
}

// noValues is the empty, not nil, map.
func noValues() map[string]*string { return map[string]*string{} }

// values gives the shared map that equals m.
func (in *interner) values(m map[string]*string) map[string]*string {
	if m == nil {
		return nil
	}
	in.keys = in.keys[:0]
	for k := range m {
		in.keys = append(in.keys, k)
	}
	sort.Strings(in.keys)
	in.buf = in.buf[:0]
	for _, k := range in.keys {
		in.pair(k, m[k])
	}
	if got, ok := in.maps[string(in.buf)]; ok {
		return got
	}
	own := make(map[string]*string, len(m))
	for k, v := range m {
		if v != nil {
			c := strings.Clone(*v)
			v = &c
		}
		own[strings.Clone(k)] = v
	}
	in.maps[string(in.buf)] = own
	return own
}

// pair adds one entry to the key under construction; lengths keep different maps apart.
func (in *interner) pair(k string, v *string) {
	in.buf = strconv.AppendInt(in.buf, int64(len(k)), 10)
	in.buf = append(in.buf, ':')
	in.buf = append(in.buf, k...)
	if v == nil {
		in.buf = append(in.buf, '-')
		return
	}
	in.buf = strconv.AppendInt(in.buf, int64(len(*v)), 10)
	in.buf = append(in.buf, ':')
	in.buf = append(in.buf, *v...)
}
