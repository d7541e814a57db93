package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/table"
)

func newVacuum() *cobra.Command {
	var (
		store     storeFlags
		opts      maintenance.VacuumOptions
		retention time.Duration
		logOnly   bool
		asJSON    bool
	)
	cmd := &cobra.Command{
		Use:   "vacuum TABLE",
		Short: "Delete files that no version of the last days needs",
		Long: `vacuum deletes data files, deletion vectors and change data that are not in the table any more, and files that
a crashed writer left. Files that left the table less than the retention time ago stay, and so do those
that a reader holds a lease on. It never touches the transaction log, or files and folders that begin
with '_' or '.'.

The retention time is the table's delta.deletedFileRetentionDuration, 7 days when it has none. After a vacuum
versions older than that cannot be read or restored. Look first with --dry-run.

With --log it cleans the transaction log instead: commits and checkpoints before the newest complete checkpoint
that is older than the table's delta.logRetentionDuration, 30 days when it has none.`,
		Example: `  ledgerlake vacuum ./data/lake/events --dry-run
  ledgerlake vacuum ./data/lake/events
  ledgerlake vacuum s3://lake/events --lite          # reads the log alone, lists nothing
  ledgerlake vacuum ./data/lake/events --log --dry-run`,
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opts.Logger, err = newLogger(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("retention") {
				opts.Retention, opts.Zero = retention, retention == 0
			}
			return withTable(cmd.Context(), &store, args[0], func(t *table.Table) error {
				if logOnly {
					return cleanLog(cmd, t, opts, asJSON)
				}
				report, err := maintenance.Vacuum(cmd.Context(), t, opts)
				if err != nil && report.Deleted.Files == 0 {
					return err
				}
				return errors.Join(printReport(cmd.OutOrStdout(), asJSON, report), err)
			})
		},
	}
	f := cmd.Flags()
	f.DurationVar(&retention, "retention", 7*24*time.Hour, "keep files that left the table less than this ago (default: the table's setting, else 7 days)")
	f.DurationVar(&opts.OrphanAge, "orphan-age", 0, "keep files that are in no commit and younger than this: a writer may be about to commit them (default: the retention, at least 1h)")
	f.BoolVar(&opts.Force, "force", false, "allow a shorter --retention than the table's. Only when nothing reads older versions")
	f.BoolVar(&opts.Lite, "lite", false, "find files by the log alone: fast, but leaves what crashed writers left")
	f.BoolVar(&opts.DryRun, "dry-run", false, "list what would be deleted and delete nothing")
	f.BoolVar(&logOnly, "log", false, "clean the transaction log, no data files; --retention is then that of the log")
	f.BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	store.register(f)
	return cmd
}

func cleanLog(cmd *cobra.Command, t *table.Table, vacuum maintenance.VacuumOptions, asJSON bool) error {
	if vacuum.Lite || cmd.Flags().Changed("orphan-age") {
		return errors.New("--log does not go with --lite and --orphan-age, which are for data files")
	}
	opts := maintenance.CleanLogOptions{DryRun: vacuum.DryRun, Force: vacuum.Force}
	if cmd.Flags().Changed("retention") {
		opts.Retention = &vacuum.Retention
	}
	report, err := maintenance.CleanLog(cmd.Context(), t, opts)
	if err != nil && report.Removed.Files == 0 {
		return err
	}
	return errors.Join(printReport(cmd.OutOrStdout(), asJSON, report), err)
}
