package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/table"
)

func newOptimize() *cobra.Command {
	var (
		store  storeFlags
		opts   maintenance.OptimizeOptions
		target byteSize = 256 << 20
		asJSON bool
		group  groupClient
	)
	cmd := &cobra.Command{
		Use:   "optimize TABLE",
		Short: "Merge the small files of a table into large ones",
		Long: `optimize rewrites small files of a Delta table into files of the target size. Not a row changes: offsets, order
and positions are the same before and after, and it checks that before each commit. Rows that deletion
vectors delete are left out of the new files.

It may run while the table is filled and read. The old files stay, for readers of older versions, until
` + "`ledgerlake vacuum`" + ` takes them: for some days the table needs more space, not less. serve and ingest do
the same in the background, see their --optimize-interval.`,
		Example: `  ledgerlake optimize ./data/lake/events --dry-run
  ledgerlake optimize s3://lake/events --target-size 512MiB
  ledgerlake optimize s3://lake/events --committer 10.0.0.1:7070,10.0.0.2:7070,10.0.0.3:7070`,
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opts.Logger, err = newLogger(cmd); err != nil {
				return err
			}
			opts.TargetSize = int64(target)
			client, err := group.open()
			if err != nil {
				return err
			}
			if client != nil {
				defer client.Close()
			}
			return withTable(cmd.Context(), &store, args[0], func(t *table.Table) error {
				opts.Commit = changesOf(client, t)
				report, err := maintenance.Optimize(cmd.Context(), t, opts)
				if err != nil && report.Commits == 0 {
					return err
				}
				return errors.Join(printReport(cmd.OutOrStdout(), asJSON, report), err)
			})
		},
	}
	f := cmd.Flags()
	f.Var(&target, "target-size", "size of new files; files below half of it are small")
	f.IntVar(&opts.MinFiles, "min-files", 2, "leave fewer small files than this beside each other alone")
	f.BoolVar(&opts.DryRun, "dry-run", false, "say what would be rewritten and change nothing")
	f.BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	group.register(f)
	store.register(f)
	return cmd
}

// withTable opens a table for one job.
func withTable(ctx context.Context, store *storeFlags, target string, job func(t *table.Table) error) error {
	st, err := store.open(ctx, target)
	if err != nil {
		return err
	}
	t, err := table.Open(ctx, st, table.Config{})
	if err != nil {
		return tableError(target, err)
	}
	return errors.Join(job(t), t.Close())
}

func printReport(out io.Writer, asJSON bool, report fmt.Stringer) error {
	if asJSON {
		return json.NewEncoder(out).Encode(report)
	}
	_, err := fmt.Fprintln(out, report)
	return err
}
