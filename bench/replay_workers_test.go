package bench

import "testing"

// Each worker's share together is the whole stream, whatever the number of workers.
func TestWorkersShareAReplay(t *testing.T) {
	r, err := RunReplay(t.Context(), Config{Records: 1500, Rounds: 1, Cases: []string{workersCase}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 4 || len(r.Goals) != 2 {
		t.Fatalf("%d samples, %d goals", len(r.Samples), len(r.Goals))
	}
	for _, s := range r.Samples {
		if s.Records != 1500*workersPartitions || s.Bytes == 0 {
			t.Errorf("%s: %d messages, %d bytes", s.Case, s.Records, s.Bytes)
		}
	}
	if _, err := RunReplay(t.Context(), Config{Cases: []string{"nope"}}); err == nil {
		t.Error("an unknown case is accepted")
	}
}
