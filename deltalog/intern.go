package deltalog

import (
	"sort"
	"strconv"
	"strings"
)

// interner shares equal partition value maps, since a table has far fewer partitions than files, and equal long texts.
type interner struct {
	maps  map[string]map[string]*string
	texts map[string]map[string]*string // by their JSON text
	// lastText is the text that came last of those that were new, and lastMap its map.
	lastText string
	lastMap  map[string]*string
	long     map[string]string // texts
	buf      []byte
	keys     []string
}

func newInterner() *interner {
	return &interner{maps: map[string]map[string]*string{}, texts: map[string]map[string]*string{}, long: map[string]string{}}
}

// shortText is the length up to which a text takes no more than the action that it is of.
const shortText = 64

// text gives a copy of a text that is good for ever. Equal long ones share it: a dictionary has one for any number of rows.
func (in *interner) text(s string) string {
	if len(s) <= shortText {
		return strings.Clone(s)
	}
	own, ok := in.long[s]
	if !ok {
		own = strings.Clone(s)
		in.long[own] = own
	}
	return own
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
