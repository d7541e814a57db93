package bench

import (
	"slices"
	"testing"
)

// A case that is listed can be asked for, and what measures a goal is a scenario that there is.
func TestScenariosAndTheirCasesAreThere(t *testing.T) {
	var names []string
	for _, s := range Scenarios() {
		if s.Run == nil || s.About == "" || s.Measures == "" || !scenarioName.MatchString(s.Name) {
			t.Errorf("scenario %+v", s)
		}
		names = append(names, s.Name)
		seen := map[string]bool{}
		for _, c := range s.Cases {
			if c.Name == "" || seen[c.Name] {
				t.Errorf("%s: case %q twice, or without a name", s.Name, c.Name)
			}
			seen[c.Name] = true
		}
	}
	for _, c := range ingestCases() {
		if got, err := chosenCases(Config{Cases: []string{c.name}}); err != nil || len(got) != 1 {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		if _, err := shapeOf(c.shape); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, d := range deployments() {
		if _, err := shapeOf(d.work.shape); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
	}
	for _, a := range aims() {
		if !slices.Contains(append(names, soakScenario), a.scenario) {
			t.Errorf("nobody measures %q", a.what)
		}
	}
}

// A side that stalled is compared with what it had taken so far, partition by partition.
func TestContentUpToPositions(t *testing.T) {
	s, err := shapeOf("event")
	if err != nil {
		t.Fatal(err)
	}
	l := &topicLoad{partitions: 3, id: s.id, again: func() func([]byte) []byte { return s.make(5) }}
	var want content
	next := s.make(5)
	for i := range 10 {
		v := next(nil)
		l.want.add(s.id(v))
		if i%3 == 0 && i/3 <= 1 || i%3 == 2 { // partition 0 up to offset 1, partition 2 whole, 1 not begun
			want.add(s.id(v))
		}
	}
	if got := l.upTo(map[int32]int64{0: 1, 2: 2}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := l.upTo(map[int32]int64{0: 3, 1: 2, 2: 2}); got != l.want {
		t.Errorf("all: %v, want %v", got, l.want)
	}
}
