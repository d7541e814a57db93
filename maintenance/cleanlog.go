package maintenance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// CleanLogOptions are the settings of CleanLog. The zero value is ready for use.
type CleanLogOptions struct {
	// Retention of the log; nil: the table's delta.logRetentionDuration, else 30 days.
	Retention *time.Duration
	// Force cleans also when the table's settings say that nobody should.
	Force bool
	// DryRun says what would go and removes nothing.
	DryRun bool
	// Clock gives the time that leases are measured by. Default time.Now.
	Clock func() time.Time
}

// CleanLogReport says what CleanLog removed, or would remove.
type CleanLogReport struct {
	DryRun   bool             `json:"dryRun"`
	Earliest deltalog.Version `json:"earliest"`      // oldest version that can be read now
	Why      string           `json:"why,omitempty"` // why nothing went
	Removed  Files            `json:"removed"`
	Paths    []string         `json:"paths,omitempty"` // the first ones
}

// String gives the report as a person reads it.
func (r CleanLogReport) String() string {
	if r.Why != "" {
		return fmt.Sprintf("nothing to clean: %s; the log begins with version %d", r.Why, r.Earliest)
	}
	var s strings.Builder
	verb := "removed"
	if r.DryRun {
		verb = "would remove"
		for _, p := range r.Paths {
			fmt.Fprintln(&s, p)
		}
		if n := r.Removed.Files - len(r.Paths); n > 0 {
			fmt.Fprintf(&s, "... and %d more\n", n)
		}
	}
	fmt.Fprintf(&s, "%s %d files of %s from the log, which then begins with version %d", verb, r.Removed.Files, size(r.Removed.Bytes), r.Earliest)
	return s.String()
}

// CleanLog removes the part of the transaction log that is older than its retention time, from old to new, up to a
// complete checkpoint. Versions before it can no longer be read; one that a lease names stays (I6).
func CleanLog(ctx context.Context, t *table.Table, opts CleanLogOptions) (CleanLogReport, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	report := CleanLogReport{DryRun: opts.DryRun}
	step := func(ctx context.Context) error { return cleanLog(ctx, t, opts, &report) }
	err := error(table.ErrDeletingOver)
	for before := -1; errors.Is(err, table.ErrDeletingOver) && before < report.Removed.Files; { // as long as it gets on
		before = report.Removed.Files
		if opts.DryRun {
			err = step(ctx)
		} else {
			err = t.Deleting(ctx, "clean log", step) // new leases wait
		}
	}
	if err != nil {
		return report, fmt.Errorf("clean the log of %s: %w", t.Store.URL(), err)
	}
	return report, nil
}

// cleanLog adds to the report what one step removed.
func cleanLog(ctx context.Context, t *table.Table, opts CleanLogOptions, report *CleanLogReport) error {
	leases, err := t.Leases(ctx, opts.Clock())
	if err != nil {
		return err
	}
	snap, err := t.Log.Snapshot(ctx)
	if err != nil {
		return err
	}
	if strings.EqualFold(snap.Metadata().Configuration["delta.enableExpiredLogCleanup"], "false") && !opts.Force {
		report.Why = "the table's settings forbid it (delta.enableExpiredLogCleanup=false)"
		return nil
	}
	from := deltalog.Version(-1)
	for _, l := range leases {
		if l.Version == 0 {
			report.Why = "there is a " + l.String()
			return nil
		}
		if from < 0 || l.Version < from {
			from = l.Version
		}
	}
	c, err := t.Log.Cleanup(ctx, deltalog.CleanupOptions{DryRun: opts.DryRun, Retention: opts.Retention, Force: opts.Force, KeepFrom: from})
	report.Earliest, report.Why = c.Earliest, c.Why
	report.Removed.add(len(c.Files), c.Bytes)
	report.Paths = append(report.Paths, c.Files[:min(len(c.Files), maxPaths-len(report.Paths))]...)
	return err
}
