package bench

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Config says how large a scenario is. The zero value is a short run.
type Config struct {
	Records int    // records a run; default 200,000
	Rounds  int    // measured runs of each side; default 5
	Seed    uint64 // of the generated data; default 1
	Dir     string // scratch directory, on the disk to measure; default the system's temporary one

	Cases []string // of scenarios broker, ingest, committer and replay; default: the usual ones

	// Of scenario ingest.
	Full          bool   // all cases
	ReferenceBin  string // the daemon to run beside; none without
	ReferenceNote string // its version and how it was built
	OwnBin        string // ledgerlake; default this program
}

func (c Config) withDefaults() Config {
	if c.Records == 0 {
		c.Records = 200_000
	}
	if c.Rounds == 0 {
		c.Rounds = 5
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Records < 1000 {
		errs = append(errs, fmt.Errorf("bench config: Records %d is below 1000", c.Records))
	}
	if c.Rounds < 1 {
		errs = append(errs, fmt.Errorf("bench config: Rounds %d is below 1", c.Rounds))
	}
	return errors.Join(errs...)
}

// scratch makes the folder of one run and says how to remove it.
func (c Config) scratch() (string, func(), error) {
	dir, err := os.MkdirTemp(c.Dir, "ledgerlake-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("make scratch directory: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// start gives the time of the first event: fixed, so that data does not depend on the day.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
