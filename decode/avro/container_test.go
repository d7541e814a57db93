package avro

import (
	"bytes"
	"testing"
)

// I8: what is kept of schemas that come with messages is bounded by their bytes as well as by their number.
func TestKeptSchemasAreBounded(t *testing.T) {
	var c byText[int]
	for i, size := range []int{1, maxText / 2, maxText/2 - 1, 1, maxText, 2 * maxText, 10} {
		text := bytes.Repeat([]byte{byte('a' + i)}, size)
		c.put(text, i)
		if got, ok := c.of[string(text)]; !ok || got != i {
			t.Fatalf("the schema that was put last is not kept (%d bytes)", size)
		}
		sum := 0
		for text := range c.of {
			sum += len(text)
		}
		if sum != c.size || sum > maxText && len(c.of) > 1 {
			t.Errorf("after %d bytes: %d schemas of %d bytes are kept, counted as %d", size, len(c.of), sum, c.size)
		}
	}
	for i := range 3 * maxPrograms {
		c.put([]byte{byte(i), byte(i >> 8)}, i)
		if len(c.of) > maxPrograms {
			t.Fatalf("%d schemas are kept", len(c.of))
		}
	}
}
