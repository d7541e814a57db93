package bench

import "testing"

// TestRunDeltalog runs the scenario small: what counts is that all sides agree on the result.
func TestRunDeltalog(t *testing.T) {
	r, err := RunDeltalog(t.Context(), Config{Records: 1000, Rounds: 1, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]int{}
	for _, s := range r.Samples {
		cases[s.Case]++
	}
	for _, want := range []string{"ledgerlake, partitioned", "encoding/json, statistics", "ledgerlake, statistics and checkpoint", "refresh of 1000 files", "checkpoint of 5000 files"} {
		if cases[want] == 0 {
			t.Errorf("no sample of %q among %v", want, cases)
		}
	}
	if len(r.Goals) < 5 {
		t.Errorf("goals %v", r.Goals)
	}
}
