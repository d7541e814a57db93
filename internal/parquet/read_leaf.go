package parquet

import (
	"bytes"
	"slices"
	"sort"
)

// Encodings that are read beside those that are written.
const (
	encPlainDictionary = 2 // the old name of encDictionary
	encDeltaBytes      = 7
	encSplit           = 9
)

// leafReader reads the values of one leaf of a row group, batch by batch. A slot is a pair of levels: a value, or a
// place where there is none.
type leafReader struct {
	leaf
	pages
	slots   int64   // of the pages to come, as the footer says
	density float64 // bytes of a row, as the footer says
	most    int     // elements of a batch's lists
	inFile  *Pages  // of a leaf outside of lists; nil: not known
	due     int64   // slots that the index gives the next page; 0: not known
	dict    dictionary

	// The page that is being read.
	begun    bool // there was one
	left     int  // slots of it still to read
	inPlace  bool // body lies where its values belong in data
	defs     hybrid
	reps     hybrid
	encoding int64
	body     []byte // values still to read
	bit      int    // of the next boolean in body, or place of the next value in each of its streams
	codes    hybrid
	delta    deltaReader // numbers, lengths, or lengths of what is shared with the value before
	suffix   deltaReader
	prev     []byte // the value before
	front    []byte // what stands in front of the values of a page that was read straight
	kept     []byte // what it lay over

	// Levels of a repeated leaf that were decoded and not used.
	waiting struct {
		def, rep []uint8
		at       int
	}

	// The batch. Levels are explicit only where they are not all maxDef; those of a repeated leaf always are.
	want     int // slots still to read; 0 where that is not known
	count    int // slots
	explicit bool
	def, rep []uint8
	vals     growing // values of a fixed width, without places for those that are null; booleans as a byte each
	offs     growing // ends of byte strings, behind a zero
	data     growing // byte strings
	index    []uint32

	convert  func(to, from []byte) bool // of one value, where Arrow has another form; nil where not
	outWidth int                        // of it
	cast     growing
}

// fewSlots bounds what is decoded at once where a page may claim any number of slots.
const fewSlots = 1 << 10

// mostGuess bounds the memory that is taken for byte strings because a footer says that they are long.
const mostGuess = 32 << 20

// mostAtOnce bounds what is reserved for values of a fixed width before they are seen.
const mostAtOnce = 4 << 20

// mostSlots bounds the elements of a batch's lists: a few bytes can claim any number of empty ones. Of a LeafReader's batches, of
// which there may be one for each leaf of a file at a time, they are fewer.
const (
	mostSlots     = 1 << 26
	mostLeafSlots = 1 << 20
)

func (l *leafReader) begin() {
	l.count, l.explicit = 0, l.maxRep > 0
	l.def, l.rep = l.def[:0], l.rep[:0]
	l.vals.b, l.offs.b, l.data.b = l.vals.b[:0], l.offs.b[:0], l.data.b[:0]
}

// read decodes the next n rows.
func (l *leafReader) read(n int) error {
	l.begin()
	if l.kind == kindBytes {
		if err := l.offs.room(4 * (n + 1)); err != nil {
			return err
		}
		zero, err := l.offs.extend(4)
		if err != nil {
			return err
		}
		clear(zero)
		guess := int(min(l.density*float64(n)*1.05, mostGuess))
		l.data.hint = max(l.data.hint, guess+min(guess, pageBytes)+overread)
	} else if err := l.vals.room(min(n*l.width, mostAtOnce)); err != nil {
		return err
	}
	if l.maxRep > 0 {
		return l.readRepeated(n)
	}
	for n > 0 {
		if l.left == 0 {
			l.want = n
			_, err := l.nextPage(0)
			if l.want = 0; err != nil {
				return err
			}
		}
		k := min(n, l.left)
		values, err := l.flatLevels(k)
		if err != nil {
			return err
		}
		if err := l.decode(values); err != nil {
			return err
		}
		l.left -= k
		n -= k
	}
	return nil
}

// skip passes over n rows. What it decodes is dropped by the next read.
func (l *leafReader) skip(n int) error {
	for n > 0 {
		if l.left == 0 && l.maxRep == 0 {
			passed, err := l.jump(n)
			if n -= passed; err != nil {
				return err
			}
			passed, err = l.nextPage(n)
			if n -= passed; err != nil {
				return err
			}
			continue
		}
		k := min(n, fewSlots)
		if l.maxRep == 0 {
			k = min(k, l.left)
		}
		if err := l.read(k); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// jump goes to the page that has the row n rows on, without a look at those before, and says how many rows it passed.
func (l *leafReader) jump(n int) (passed int, err error) {
	x := l.inFile
	if x == nil || l.slots <= 0 {
		return 0, nil
	}
	row := x.First[x.Len()] - l.slots
	k := sort.Search(x.Len(), func(i int) bool { return x.First[i+1] > row+int64(n) })
	if k == x.Len() || x.First[k] <= row {
		return 0, nil // the end, or the page that comes next
	}
	for l.place() < x.at[0] { // the dictionary comes first
		h, err := l.header()
		if err != nil {
			return 0, err
		}
		if h.typ != dictionaryPage {
			return 0, damaged("column %q has a page of type %d in front of the first one of its page index", l.name, h.typ)
		}
		if err := l.loadDictionary(&h); err != nil {
			return 0, err
		}
	}
	if l.place() > x.at[k] {
		return 0, damaged("column %q has rows at %d that its page index has further on", l.name, x.at[k])
	}
	l.pages.jump(x.at[k])
	l.slots = x.First[x.Len()] - x.First[k]
	l.due = x.First[k+1] - x.First[k]
	return int(x.First[k] - row), nil
}

// flatLevels reads the levels of n slots of the page and says how many have a value.
func (l *leafReader) flatLevels(n int) (values int, err error) {
	if l.maxDef == 0 {
		l.count += n
		return n, nil
	}
	for n > 0 {
		v, k, err := l.defs.constant(n)
		switch {
		case err != nil:
			return 0, err
		case k > 0 && v > uint32(l.maxDef):
			return 0, l.badLevel()
		case k > 0 && v == uint32(l.maxDef):
			values += k
			if l.explicit {
				l.def = appendTimes(l.def, l.maxDef, k)
			}
		default:
			l.materialize()
			if k > 0 {
				l.def = appendTimes(l.def, uint8(v), k)
				break
			}
			k = min(n, l.defs.left)
			at := len(l.def)
			l.def = slices.Grow(l.def, k)[:at+k]
			if err := l.fillLevels(&l.defs, l.def[at:], l.maxDef); err != nil {
				return 0, err
			}
			values += bytes.Count(l.def[at:], []byte{l.maxDef})
		}
		l.count += k
		n -= k
	}
	return values, nil
}

func (l *leafReader) badLevel() error {
	return damaged("column %q has a level above its greatest", l.name)
}

// materialize makes the levels of the batch explicit.
func (l *leafReader) materialize() {
	if !l.explicit {
		l.explicit = true
		l.def = appendTimes(l.def[:0], l.maxDef, l.count)
	}
}

func appendTimes(b []uint8, v uint8, n int) []uint8 {
	at := len(b)
	b = slices.Grow(b, n)[:at+n]
	for i := range b[at:] {
		b[at+i] = v
	}
	return b
}

func (l *leafReader) fillLevels(h *hybrid, dst []uint8, most uint8) error {
	if err := fill(h, dst); err != nil {
		return err
	}
	if most&(most+1) == 0 { // no value of its width is greater
		return nil
	}
	if slices.Max(dst) > most {
		return l.badLevel()
	}
	return nil
}

// readRepeated decodes rows of lists. A row ends where the next one begins, which may be pages later.
func (l *leafReader) readRepeated(rows int) error {
	a := &l.waiting
	for begun := 0; ; {
		if a.at == len(a.def) {
			if l.left == 0 {
				if l.slots == 0 {
					if begun < rows {
						return damaged("column %q ends %d rows early", l.name, rows-begun)
					}
					return nil
				}
				if _, err := l.nextPage(0); err != nil {
					return err
				}
			}
			if err := l.lookAhead(); err != nil {
				return err
			}
		}
		end := a.at
		for ; end < len(a.rep); end++ {
			if a.rep[end] == 0 {
				if begun == rows {
					break
				}
				begun++
			}
		}
		if begun == 0 && end > a.at {
			return damaged("column %q begins within a row", l.name)
		}
		def := a.def[a.at:end]
		if l.count += len(def); l.count > l.most {
			return damaged("column %q has more than %d elements in %d rows", l.name, l.most, rows)
		}
		l.def, l.rep = append(l.def, def...), append(l.rep, a.rep[a.at:end]...)
		if err := l.decode(bytes.Count(def, []byte{l.maxDef})); err != nil {
			return err
		}
		if a.at = end; end < len(a.rep) {
			return nil
		}
	}
}

// lookAhead decodes levels of the page.
func (l *leafReader) lookAhead() error {
	n := min(l.left, fewSlots)
	a := &l.waiting
	a.def, a.rep, a.at = slices.Grow(a.def[:0], n)[:n], slices.Grow(a.rep[:0], n)[:n], 0
	l.left -= n
	if err := l.fillLevels(&l.reps, a.rep, l.maxRep); err != nil {
		return err
	}
	return l.fillLevels(&l.defs, a.def, l.maxDef)
}

// nextPage opens the next page that has slots. Pages of a flat leaf that lie within the skip next rows are passed
// over, and their rows counted.
func (l *leafReader) nextPage(skip int) (passed int, err error) {
	for {
		if l.slots == 0 || l.done() {
			return passed, damaged("column %q ends early: %d values are missing", l.name, l.slots)
		}
		h, err := l.header()
		if err != nil {
			return passed, err
		}
		switch {
		case h.typ == dictionaryPage:
			if err := l.loadDictionary(&h); err != nil {
				return passed, err
			}
		case h.typ != dataPage && h.typ != dataPageV2:
			if l.due > 0 {
				return passed, damaged("column %q has no page of rows where its page index says", l.name)
			}
			l.pages.skip(&h)
		case l.due > 0 && h.slots != l.due:
			return passed, damaged("column %q has a page of %d rows where its page index has one of %d", l.name, h.slots, l.due)
		case h.slots > l.slots:
			return passed, damaged("column %q has a page of %d values where %d are left", l.name, h.slots, l.slots)
		case h.slots == 0:
			l.pages.skip(&h)
		case int64(skip-passed) >= h.slots:
			l.pages.skip(&h)
			l.slots, l.due = l.slots-h.slots, 0
			if passed += int(h.slots); passed == skip {
				return passed, nil
			}
		default:
			l.slots, l.due = l.slots-h.slots, 0
			return passed, l.openPage(&h)
		}
	}
}

func (l *leafReader) openPage(h *pageHeader) error {
	l.begun = true
	packed, err := l.pages.take(h)
	if err != nil {
		return err
	}
	if done, err := l.straight(h, packed); done || err != nil {
		return err
	}
	var defs, reps, body []byte
	if h.typ == dataPageV2 {
		if h.defs < 0 || h.reps < 0 || h.defs > h.packed || h.reps > h.packed-h.defs {
			return damaged("column %q: a page of %d bytes with levels of %d and %d", l.name, h.packed, h.reps, h.defs)
		}
		if body, err = l.pages.unfold(h, packed, h.defs+h.reps); err != nil {
			return err
		}
		reps, defs, body = body[:h.reps], body[h.reps:h.reps+h.defs], body[h.reps+h.defs:]
	} else {
		if body, err = l.pages.unfold(h, packed, 0); err != nil {
			return err
		}
		if l.maxRep > 0 && h.reps != encRLE || l.maxDef > 0 && h.defs != encRLE {
			return unsupported("levels of encodings %d and %d", h.reps, h.defs)
		}
		if l.maxRep > 0 {
			if reps, body, err = levelBytes(body); err != nil {
				return err
			}
		}
		if l.maxDef > 0 {
			if defs, body, err = levelBytes(body); err != nil {
				return err
			}
		}
	}
	l.left = int(h.slots)
	l.defs, l.reps = newHybrid(defs, widthOf(uint64(l.maxDef))), newHybrid(reps, widthOf(uint64(l.maxRep)))
	return l.openValues(h.encoding, body)
}

func (l *leafReader) close() {
	l.pages.close()
	l.dict.free()
	l.vals.free()
	l.offs.free()
	l.data.free()
	l.cast.free()
}
