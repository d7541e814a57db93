package share

import (
	"encoding/json"
	"fmt"

	"github.com/ledgerlake/ledgerlake/record"
)

// stored and storedRun are the JSON of a Partition: what the server keeps of it. Never change, add.
type stored struct {
	Start record.Offset `json:"start"`
	Runs  []storedRun   `json:"runs,omitempty"`
}

type storedRun struct {
	Count    int64  `json:"n"`
	State    state  `json:"s,omitempty"`
	Attempts int16  `json:"a,omitempty"`
	Owner    string `json:"o,omitempty"`
	Until    int64  `json:"u,omitempty"` // ms
}

// MarshalJSON gives the form that is kept.
func (p *Partition) MarshalJSON() ([]byte, error) {
	s := stored{Start: p.start, Runs: make([]storedRun, len(p.runs))}
	for i, r := range p.runs {
		s.Runs[i] = storedRun{r.count(), r.state, r.attempts, r.owner, r.until}
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads what was kept. Anything that no Partition can be is an error.
func (p *Partition) UnmarshalJSON(b []byte) error {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*p = Partition{start: s.Start, end: s.Start}
	for _, r := range s.Runs {
		last := p.end + record.Offset(r.Count) - 1
		p.runs = append(p.runs, run{p.end, last, r.State, r.Attempts, r.Owner, r.Until})
		p.end = last + 1
	}
	if err := p.check(); err != nil {
		return fmt.Errorf("state of a share partition: %w", err)
	}
	return nil
}
