package bench

import "testing"

// The floor is of the pages of all records.
func TestReplayFloorReadsAllPages(t *testing.T) {
	c, _ := smallReplay(t, Config{Records: 2000}.withDefaults())
	r := &Report{}
	if err := c.floor(r, 0); err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 1 || r.Samples[0].Records != 2000 || r.Samples[0].Case != replayFloor {
		t.Fatalf("got %+v", r.Samples)
	}
	c.records++
	if err := c.floor(r, 1); err == nil {
		t.Fatal("a row that is missing was not noticed")
	}
}
