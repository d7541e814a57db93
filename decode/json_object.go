package decode

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/ledgerlake/ledgerlake/internal/column"
)

// Unknown keys are learned too, so that producers with more fields than the table are as fast. Both bounds
// keep what messages can teach small (I8).
const (
	maxLearned    = 256
	maxLearnedLen = 128
)

// key is one key of an object, of the schema or learned.
type key struct {
	raw  string // the key as messages most often have it: "name": ; empty when it needs escapes
	name string
	node *node // nil: not in the schema
	next *key  // the key that came after this one last time; nil, or one with raw
	alt  *key  // and the one before that
}

// at tells whether the key and its colon are at i, and where they end.
func (k *key) at(b []byte, i int) (int, bool) {
	if k == nil {
		return 0, false
	}
	e := i + len(k.raw)
	return e, e <= len(b) && string(b[i:e]) == k.raw
}

// object is what the decoder knows of the objects in one place of the schema.
type object struct {
	fields  []*node
	start   *key   // stands before the first key
	other   *key   // stands for a key that is not learned
	slots   []*key // hash table, open addressing, at most half full
	learned int
	keys    int
	gen     uint64 // counts objects, to know which fields the present one had
}

func newObject(cols []column.Column) (object, error) {
	o := object{start: new(key), other: new(key)}
	size := 16
	for size < 4*len(cols) {
		size *= 2
	}
	o.slots = make([]*key, size)
	prev := o.start
	for _, c := range cols {
		n, err := newNode(c)
		if err != nil {
			return object{}, err
		}
		o.fields = append(o.fields, n)
		if o.find([]byte(n.name)) != nil {
			return object{}, fmt.Errorf("%w: two columns have the name %q", ErrOptions, n.name)
		}
		k := o.add(n.name, n)
		if k.raw != "" {
			prev.next = k
			prev = k
		}
	}
	return o, nil
}

// add puts a key in the table.
func (o *object) add(name string, n *node) *key {
	k := &key{name: name, node: n}
	if plainKey(name) {
		k.raw = `"` + name + `":`
	}
	if o.keys++; 2*o.keys > len(o.slots) {
		old := o.slots
		o.slots = make([]*key, 2*len(old))
		for _, k := range old {
			if k != nil {
				o.put(k)
			}
		}
	}
	o.put(k)
	return k
}

func plainKey(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.ValidString(name)
}

func (o *object) put(k *key) {
	i := hashKey([]byte(k.name)) & (len(o.slots) - 1)
	for o.slots[i] != nil {
		i = (i + 1) & (len(o.slots) - 1)
	}
	o.slots[i] = k
}

// find looks a name up.
func (o *object) find(name []byte) *key {
	i := hashKey(name) & (len(o.slots) - 1)
	for {
		k := o.slots[i]
		if k == nil || k.name == string(name) {
			return k
		}
		i = (i + 1) & (len(o.slots) - 1)
	}
}

// hashKey mixes the length with the first and last 8 bytes. Names that agree in all of these share a slot;
// the keys of a table are few, so that costs little.
func hashKey(s []byte) int {
	const mul = 0x9e3779b97f4a7c15
	var a, b uint64
	switch n := len(s); {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(s)), uint64(binary.LittleEndian.Uint32(s[n-4:]))
	case n > 0:
		a, b = uint64(s[0]), uint64(s[n-1])|uint64(s[n/2])<<8
	}
	h := (a ^ bits.RotateLeft64(b, 29) ^ uint64(len(s))<<56) * mul
	return int(h >> 33)
}

// object decodes an object from after its brace into row of the columns below, and fills up what it lacks.
func (d *JSON) object(o *object, b []byte, i, row int) int {
	o.gen++
	seen := 0
	prev := o.start
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return d.missing(o, i+1, seen)
	}
	for {
		k := prev.next
		if e, ok := k.at(b, i); ok {
			i = e
		} else if k, i = d.key(o, prev, b, i); i < 0 {
			return i
		}
		prev = k
		i = skipSpace(b, i)
		n := k.node
		if n == nil {
			i = d.skip(b, i)
		} else {
			if n.gen != o.gen {
				n.gen = o.gen
				seen++
			} else {
				n.col.Truncate(row) // a duplicate key: the last wins
			}
			i = d.value(n, b, i)
		}
		if i < 0 {
			return d.at(k.name)
		}
		i = skipSpace(b, i)
		if i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
			continue
		}
		if i < len(b) && b[i] == '}' {
			return d.missing(o, i+1, seen)
		}
		return d.unexpected(b, i, "',' or '}'")
	}
}

// missing appends null to the columns whose key the object did not have.
func (d *JSON) missing(o *object, i, seen int) int {
	if seen == len(o.fields) {
		return i
	}
	for _, n := range o.fields {
		if n.gen == o.gen {
			continue
		}
		if !n.nullable {
			d.fail(i-1, "missing, but the column may not be null")
			return d.at(n.name)
		}
		if d.depth > 1 && d.overfull(n) {
			d.fail(i-1, "the value leaves out too many nested fields")
			return d.at(n.name)
		}
		n.col.AppendNull()
	}
	return i
}

func (d *JSON) overfull(n *node) bool {
	d.fill += n.leaves
	return d.fill > maxFill
}

// key reads a key and its colon where the guess was wrong, and learns what followed prev.
func (d *JSON) key(o *object, prev *key, b []byte, i int) (*key, int) {
	k := prev.alt
	if e, ok := k.at(b, i); ok {
		prev.next, prev.alt = k, prev.next
		return k, e
	}
	if i >= len(b) || b[i] != '"' {
		return nil, d.unexpected(b, i, "a key")
	}
	name, next := d.str(b, i)
	if next < 0 {
		return nil, next
	}
	if next = skipSpace(b, next); next >= len(b) || b[next] != ':' {
		return nil, d.unexpected(b, next, "':'")
	}
	next++
	k = o.find(name)
	if k == nil {
		if o.learned >= maxLearned || len(name) > maxLearnedLen {
			return o.other, next
		}
		o.learned++
		k = o.add(string(name), nil)
	}
	if k.raw != "" {
		prev.next, prev.alt = k, prev.next
	}
	return k, next
}
