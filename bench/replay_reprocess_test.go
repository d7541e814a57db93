package bench

import "testing"

// Jobs of the case make of each message what they shall: it is compared in there, and is an error.
func TestReprocessOfAReplay(t *testing.T) {
	r, err := RunReplay(t.Context(), Config{Records: 1500, Rounds: 1, Cases: []string{reprocessCase}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 2 || len(r.Goals) != 2 {
		t.Fatalf("%d samples, %d goals", len(r.Samples), len(r.Goals))
	}
	for _, s := range r.Samples {
		if s.Records != 1500*workersPartitions || s.Bytes == 0 {
			t.Errorf("%s: %d messages, %d bytes", s.Case, s.Records, s.Bytes)
		}
	}
}

// Every record that is sent while both sides follow comes to both, once.
func TestFollowOfAReplay(t *testing.T) {
	cfg := Config{Records: 1000, Rounds: 1}.withDefaults()
	c, log := smallReplay(t, cfg)
	r := &Report{}
	if err := c.follow(t.Context(), cfg, r, log); err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 2 || len(r.Goals) != 1 || r.Goals[0].Want != 20 {
		t.Fatalf("%d samples, %+v", len(r.Samples), r.Goals)
	}
	for _, s := range r.Samples {
		if s.Records != followLeast || s.P50 <= 0 || s.P99 < s.P50 {
			t.Errorf("%+v", s)
		}
	}
}
