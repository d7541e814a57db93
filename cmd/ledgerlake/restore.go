package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

func newRestore() *cobra.Command {
	var (
		store   storeFlags
		opts    maintenance.RestoreOptions
		version int64
		at      string
		asJSON  bool
		group   groupClient
	)
	cmd := &cobra.Command{
		Use:   "restore TABLE --to-version N",
		Short: "Bring an older version of a table back",
		Long: `restore makes a new version with the content of an older one: rows, schema, settings, and the positions of the
partitions. The versions between stay in the history, so a restore can be undone by another one. No data is
copied: files that left the table come back, and when a vacuum has taken some, they are named and nothing
changes.

Since positions go back with the rows, whatever fills the table (serve, ingest) writes the records after the
restored version again, if the log still has them. With --keep-positions it goes on where it is, and the
table says that the offsets between are lost. ` + "`ledgerlake inspect TABLE --history`" + ` lists the versions.`,
		Example: `  ledgerlake restore ./data/lake/events --to-version 120 --dry-run
  ledgerlake restore ./data/lake/events --to-timestamp 2026-11-28T09:00:00Z`,
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			opts.HasVersion = cmd.Flags().Changed("to-version")
			opts.Version = deltalog.Version(version)
			if opts.HasVersion == (at != "") {
				return errors.New("give --to-version or --to-timestamp, one of the two")
			}
			if at != "" {
				ok := false
				if opts.Time, ok = reader.ParseTime(at); !ok {
					return fmt.Errorf("--to-timestamp %q: want a time like 2026-01-31T12:00:00Z", at)
				}
			}
			client, err := group.open()
			if err != nil {
				return err
			}
			if client != nil {
				defer client.Close()
			}
			return withTable(cmd.Context(), &store, args[0], func(t *table.Table) error {
				opts.Commit = changesOf(client, t)
				report, err := maintenance.Restore(cmd.Context(), t, opts)
				if err != nil {
					return err
				}
				return printReport(cmd.OutOrStdout(), asJSON, report)
			})
		},
	}
	f := cmd.Flags()
	f.Int64Var(&version, "to-version", 0, "version to bring back")
	f.StringVar(&at, "to-timestamp", "", "bring back what was the newest version at this time (like 2026-01-31T12:00:00Z)")
	f.BoolVar(&opts.KeepPositions, "keep-positions", false, "leave the positions of the partitions where they are, and mark the offsets between as lost")
	f.BoolVar(&opts.DryRun, "dry-run", false, "say what would change and change nothing")
	f.BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	group.register(f)
	store.register(f)
	return cmd
}
