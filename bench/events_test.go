package bench

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// The goals speak of JSON of 690 bytes: the generator must keep to it, and to its seed.
func TestEvents(t *testing.T) {
	a, b := NewEvents(7, start(), time.Millisecond), NewEvents(7, start(), time.Millisecond)
	total := 0
	const n = 2000
	for range n {
		ka, va := a.Next(nil, nil)
		kb, vb := b.Next(nil, nil)
		if !bytes.Equal(ka, kb) || !bytes.Equal(va, vb) {
			t.Fatalf("the same seed gave %s and %s", va, vb)
		}
		var doc map[string]any
		if err := json.Unmarshal(va, &doc); err != nil || len(doc) < 18 {
			t.Fatalf("%s: %v, %d fields", va, err, len(doc))
		}
		total += len(va)
	}
	if mean := total / n; mean < 660 || mean > 720 {
		t.Errorf("mean size is %d bytes, want about 690", mean)
	}
}
