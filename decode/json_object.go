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
	next *key      // the key that came after this one last time
	node *node     // nil: not in the schema
	word [2]uint64 // the first 16 bytes of raw
	mask [2]uint64 // the bits of them that raw has
	raw  string    // the key as messages most often have it: "name": ; empty when it needs escapes
	name string
	mark *span // notes where the value stands; nil for most
	news bool  // a field that no column takes and that was not told of yet
	mute bool  // a field that is to be nowhere
}

// at tells whether the key and its colon are at i, and where they end.
func (k *key) at(b []byte, i int) (int, bool) {
	e := i + len(k.raw)
	if i+16 > len(b) {
		return e, e <= len(b) && k.raw != "" && string(b[i:e]) == k.raw
	}
	w := b[i : i+16 : len(b)]
	if (binary.LittleEndian.Uint64(w)^k.word[0])&k.mask[0]|(binary.LittleEndian.Uint64(w[8:])^k.word[1])&k.mask[1] != 0 {
		return e, false
	}
	return e, len(k.raw) <= 16 || e <= len(b) && string(b[i+16:e]) == k.raw[16:]
}

// object is what the decoder knows of the objects in one place of the schema.
type object struct {
	fields  []*node
	start   *key   // stands before the first key
	other   *key   // stands for a key that is not learned
	quick   []*key // hash table by the first bytes as they stand in a message; at most half full
	slots   []*key // hash table by name; as long
	learned int
	keys    int
	gen     uint64 // counts objects, to know which fields the present one had
	misses  int    // keys of the present object that were not the guess
	guess   bool   // keys come in an order, guessing pays
	watch   bool   // fields that no column takes are told or kept
	path    string // for that
}

func newObject(cols []column.Column) (object, error) {
	o := object{guess: true, start: new(key), other: new(key)}
	o.start.never()
	o.other.never()
	size := 16
	for size < 4*len(cols) {
		size *= 2
	}
	o.quick, o.slots = make([]*key, size), make([]*key, size)
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
		prev.next = k
		prev = k
	}
	prev.next = o.start
	return o, nil
}

// never makes a key that is at no place in JSON: a quote and a zero byte. Where a message has them all the
// same, what follows is not accepted as a value either, as at steps over nothing.
func (k *key) never() {
	k.word, k.mask, k.next = [2]uint64{'"', 0}, [2]uint64{0xffff, 0}, k
}

// add puts a key in the tables.
func (o *object) add(name string, n *node) *key {
	k := &key{name: name, node: n}
	k.never()
	if plainKey(name) {
		k.raw = `"` + name + `":`
		var first, ones [16]byte
		for i := range copy(first[:], k.raw) {
			ones[i] = 0xff
		}
		for i := range k.word {
			k.word[i], k.mask[i] = binary.LittleEndian.Uint64(first[8*i:]), binary.LittleEndian.Uint64(ones[8*i:])
		}
	}
	k.next = o.start
	if o.keys++; 2*o.keys > len(o.slots) {
		old := o.slots
		o.quick, o.slots = make([]*key, 2*len(old)), make([]*key, 2*len(old))
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
	if k.raw != "" {
		i = hashFirst(k.word[0], k.word[1]) & (len(o.quick) - 1)
		for o.quick[i] != nil {
			i = (i + 1) & (len(o.quick) - 1)
		}
		o.quick[i] = k
	}
}

// hashFirst mixes the bytes of a key between its quotes, at most 15, given 16 bytes that begin with the
// first quote. No branch depends on the length, which differs from key to key.
func hashFirst(a, b uint64) int {
	x := a>>8 ^ '"'*ones
	endA := (x - ones) &^ x & highs
	y := b ^ '"'*ones
	endB := (y - ones) &^ y & highs
	a = a >> 8 & (endA&-endA - 1)                     // all when there is no quote
	b = b & (endB&-endB - 1) & ((endA|-endA)>>63 - 1) // none when the first word has the quote
	return int((a*0x9e3779b97f4a7c15 ^ bits.RotateLeft64(b*0xc2b2ae3d27d4eb4f, 31)) * 0x9e3779b97f4a7c15 >> 33)
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
		var ok bool
		if o.guess {
			var e int
			if e, ok = k.at(b, i); ok {
				i = e
			}
		}
		if !ok {
			if k, i = d.key(o, prev, b, i); i < 0 {
				return i
			}
		}
		prev = k
		i = skipSpace(b, i)
		n, start := k.node, i
		if n == nil {
			if i = d.skip(b, i); i >= 0 && o.watch {
				d.stranger(o, k, b[start:i])
			}
		} else {
			if n.gen != o.gen {
				n.gen = o.gen
				seen++
			} else {
				n.col.Truncate(row) // a duplicate key: the last wins
				if n.marked {
					n.unmark()
				}
			}
			i = d.value(n, b, i)
		}
		if i < 0 {
			return d.at(k.name)
		}
		if k.mark != nil {
			*k.mark = span{start, i}
		}
		if i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
			continue
		}
		if i = skipSpace(b, i); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
			continue
		}
		if i < len(b) && b[i] == '}' {
			o.guess = 4*o.misses <= seen
			o.misses = 0
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
		if n.late {
			continue // see Defer
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

// key reads a key and its colon where there was no guess or a wrong one, and learns what followed prev.
func (d *JSON) key(o *object, prev *key, b []byte, i int) (*key, int) {
	if i+16 <= len(b) {
		h := hashFirst(binary.LittleEndian.Uint64(b[i:]), binary.LittleEndian.Uint64(b[i+8:]))
		for {
			k := o.quick[h&(len(o.quick)-1)]
			if k == nil {
				break
			}
			if e, ok := k.at(b, i); ok {
				if prev.next != k {
					prev.next = k
					o.misses++
				}
				return k, e
			}
			h++
		}
	}
	return d.slowKey(o, prev, b, i)
}

// slowKey reads a key that is new, near the end of the message, or written with escapes or space.
func (d *JSON) slowKey(o *object, prev *key, b []byte, i int) (*key, int) {
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
	k := o.find(name)
	if k == nil {
		if o.learned >= maxLearned || len(name) > maxLearnedLen {
			if o.watch {
				o.other.name = string(name)
			}
			return o.other, next
		}
		o.learned++
		k = o.add(string(name), nil)
		k.news = o.watch
	}
	if prev.next != k && prev != o.other {
		prev.next = k
		o.misses++
	}
	return k, next
}
