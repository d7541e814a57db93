package parquet

// sampleValues is how many values decide on the encoding of a chunk; of fewer than sampleLeast nothing is known.
const (
	sampleValues = 4096
	sampleLeast  = 64
)

// longBytes is from how many bytes a value on, in the mean, the lengths of a page go in front of its values: those can then
// be read without a copy of each.
const longBytes = 64

// choose decides how the pages to come are encoded, by the values of this one. A chunk whose dictionary has
// become too large goes on without: its earlier pages keep their numbers.
func (c *column) choose() {
	full := c.encoding == encDictionary
	c.encoding = encPlain
	if full {
		return
	}
	if c.kind == kindBytes && c.values > 0 && c.size() >= longBytes*c.values {
		c.encoding = encDeltaLength
	}
	if c.values < sampleLeast {
		return
	}
	switch c.kind {
	case kindInt32:
		c.encoding = chooseInts(c, c.i32, 4)
	case kindInt64:
		c.encoding = chooseInts(c, c.i64, 8)
	case kindBytes:
		if c.opaque {
			return
		}
		if c.codeBytes(sampleValues / 8); 2*c.dict.n <= len(c.codes) { // else do not look further
			if c.codeBytes(sampleValues); c.repeats(len(c.codes)) && !c.dict.full() {
				c.encoding = encDictionary
				return
			}
		}
		c.dict.reset()
	}
}

// repeats says whether so few of n values are different that a dictionary pays: at most one in eight.
func (c *column) repeats(n int) bool { return c.dict.n <= max(16, n/8) }

// chooseInts prefers differences: they need no table, and stay small for what grows and for what is small.
func chooseInts[T int32 | int64](c *column, v []T, width int) int {
	v = v[:min(len(v), sampleValues)]
	plain := len(v) * width
	c.page = appendDelta(c.page[:0], v)
	delta := len(c.page)
	if 4*delta <= plain {
		return encDelta
	}
	n := 0
	for _, x := range v {
		c.dict.number(uint64(x)&mask[T](), width)
		if n++; c.dict.n > max(16, sampleValues/8) || n == sampleValues/8 && 2*c.dict.n > n {
			break
		}
	}
	if n == len(v) && c.repeats(n) && len(c.dict.page)+n*c.dict.width()/8 < delta {
		return encDictionary
	}
	c.dict.reset()
	if 10*delta <= 6*plain {
		return encDelta
	}
	return encPlain
}
