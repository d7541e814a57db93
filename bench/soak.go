package bench

import (
	"encoding/json"
	"fmt"
	"time"
)

// soakScenario is the name of reports that are made of a run of `make soak`, which no scenario repeats: it takes half an hour.
const soakScenario = "soak"

// SoakVerified is what a soak says of a table that is right; anything else means that it is not.
const SoakVerified = "DuckDB finds each record once, with its values"

// soakLength is how long the goal's run is.
const soakLength = 30 * time.Minute

// soakRun is the form of the report that test/soak writes.
type soakRun struct {
	Length       string       `json:"length"`
	Records      int64        `json:"records"`
	Commit       string       `json:"commit"`  // these three are not in reports before December 2026
	Machine      string       `json:"machine"` //
	Time         time.Time    `json:"time"`    // of its end
	Verification string       `json:"verification"`
	Verdicts     []soakSeries `json:"verdicts"`
	Samples      []struct {
		At     time.Duration      `json:"at"` // since the start
		Values map[string]float64 `json:"values"`
	} `json:"samples"`
}

// soakSeries is what one series did in the last two thirds of a run.
type soakSeries struct {
	Name    string  `json:"name"`
	Median  float64 `json:"median"`
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`
	Growth  float64 `json:"growth"` // by the trend
	Allowed float64 `json:"allowed"`
	Flat    bool    `json:"flat"`
}

// soakReport makes a report of one of `make soak`, which ended at a time unless it says so itself. False: it is none.
func soakReport(raw []byte, ended time.Time) (*Report, bool) {
	var run soakRun
	if json.Unmarshal(raw, &run) != nil || len(run.Verdicts) == 0 || len(run.Samples) == 0 {
		return nil, false
	}
	length, err := time.ParseDuration(run.Length)
	if err != nil {
		return nil, false
	}
	r := &Report{Scenario: soakScenario, Commit: run.Commit, Machine: run.Machine, Time: run.Time}
	if r.Time.IsZero() {
		r.Time = ended.UTC()
	}
	if r.Machine == "" {
		r.Machine = "a machine that its report does not name"
	}
	r.Samples = []Sample{run.sample(length)}
	r.Notes = append(r.Notes, fmt.Sprintf("`make soak`, %s: %d records of 12 partitions; %s.", run.Length, run.Records, run.Verification))
	r.atLeast("minutes at full rate, of 30", 1, length.Seconds()/soakLength.Seconds())
	wrong := 0.0
	if run.Verification != SoakVerified {
		wrong = 1
	}
	r.atMost("tables that are not what was produced", 0, wrong)
	for _, v := range run.Verdicts {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: median %s, from %s to %s; over the last two thirds its trend is %+.0f, allowed is %s.",
			v.Name, short(v.Median), short(v.Least), short(v.Most), v.Growth, short(v.Allowed)))
		share := max(0, v.Growth) / max(v.Allowed, 1e-9)
		r.Goals = append(r.Goals, Goal{Name: v.Name + ": growth over the last two thirds, of what is allowed", Want: 1, Got: share, Met: v.Flat && share <= 1})
	}
	return r, true
}

// sample sums a run up.
func (run soakRun) sample(length time.Duration) Sample {
	last := run.Samples[len(run.Samples)-1].Values
	s := Sample{Case: sideOurs + ", soak of " + length.String(), Records: int64(last["rows"]), Seconds: run.Samples[len(run.Samples)-1].At.Seconds(),
		CPUSeconds: last["cpu_seconds"], Files: int64(last["live_files"]), Versions: int64(last["version"]), FileBytes: int64(last["live_bytes"])}
	for _, at := range run.Samples {
		s.MaxMB = max(s.MaxMB, at.Values["rss"]/1e6)
	}
	return s
}
