package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/segment"
	"github.com/ledgerlake/ledgerlake/table"
)

func newCheck() *cobra.Command {
	var store storeFlags
	cmd := &cobra.Command{
		Use:   "check TARGET",
		Short: "Verify a table, a stopped served directory or a segment file; changes nothing",
		Long: `check reads all of TARGET, changes nothing, and prints one line for each fault: where, what was expected,
what was found. The exit status is 1 when there is any.
  a table               log without gaps or broken files, checkpoints and checksum files that come to what the
                        commits come to; data files there with the right size and row count; offsets in order
                        and once (I3)
  a served directory    journal frames, segments, indexes and checkpoint agree, and each table
  a segment file        batches, checksums, offsets, indexes`,
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, out := args[0], cmd.OutOrStdout()
			var faults int
			var err error
			switch {
			case strings.HasSuffix(target, ".log"):
				faults, err = checkSegment(out, target)
			case !strings.Contains(target, "://") && servedDir(target):
				faults, err = checkServed(cmd.Context(), out, &store, target)
			default:
				faults, err = checkTable(cmd.Context(), out, &store, target)
			}
			if err != nil {
				return err
			}
			if faults > 0 {
				fmt.Fprintf(out, "%d faults\n", faults)
				return errReported
			}
			fmt.Fprintln(out, "no faults")
			return nil
		},
	}
	store.register(cmd.Flags())
	return cmd
}

func printFindings[F fmt.Stringer](out io.Writer, findings []F) int {
	for _, f := range findings {
		fmt.Fprintln(out, f)
	}
	return len(findings)
}

func checkSegment(out io.Writer, name string) (int, error) {
	findings, err := segment.Verify(vfs.OS(), name)
	if err != nil {
		return 0, err
	}
	return printFindings(out, findings), nil
}

func checkServed(ctx context.Context, out io.Writer, store *storeFlags, dir string) (int, error) {
	findings, err := local.CheckDir(ctx, vfs.OS(), filepath.Join(dir, "log"))
	if err != nil {
		return 0, err
	}
	faults := printFindings(out, findings)
	names, err := topicNames(dir)
	if err != nil {
		return faults, err
	}
	for _, name := range names {
		n, err := checkTable(ctx, out, store, filepath.Join(dir, "lake", name))
		if errors.Is(err, deltalog.ErrNotTable) {
			continue // nothing tiered yet
		}
		if err != nil {
			return faults, err
		}
		faults += n
	}
	return faults, nil
}

func checkTable(ctx context.Context, out io.Writer, store *storeFlags, target string) (int, error) {
	st, err := store.open(ctx, target)
	if err != nil {
		return 0, err
	}
	log, err := deltalog.Check(ctx, st)
	if err != nil {
		return 0, tableError(target, err)
	}
	faults := printFindings(out, log)
	t, err := table.Open(ctx, st, table.Config{Outside: store.open})
	var unsupported *deltalog.UnsupportedError
	if err != nil && faults > 0 && ctx.Err() == nil && !errors.As(err, &unsupported) {
		return faults, nil // its data cannot be looked at, for a reason that was printed
	}
	if err != nil {
		return 0, fmt.Errorf("open table %s: %w", target, err)
	}
	findings, err := t.Check(ctx)
	if err = errors.Join(err, t.Log.Close()); err != nil {
		return 0, err
	}
	return faults + printFindings(out, findings), nil
}
