package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/bench"
)

func newBench() *cobra.Command {
	var (
		cfg           bench.Config
		file, profile string
	)
	scenarios := map[string]func(context.Context, bench.Config) (*bench.Report, error){
		"log":       bench.RunLog,
		"tiering":   bench.RunTiering,
		"deltalog":  bench.RunDeltalog,
		"committer": bench.RunCommitter,
		"replay":    bench.RunReplay,
	}
	names := []string{"log", "tiering", "deltalog", "committer", "replay"}
	later := []string{"ingest", "broker", "pulsar"}
	cmd := &cobra.Command{
		Use:   "bench NAME",
		Short: "Measure this build beside a baseline, in one run",
		Long: `bench runs a scenario and its baseline in turns and prints medians, spread, ratios and goals:
  log       append to the embedded log, beside plain sequential writes of the same bytes
  tiering   log to Delta table, beside the same pipeline with encoding/json maps and arrow-go defaults
  deltalog  a Delta log of 300,000 files becomes a snapshot, beside an encoding/json loop, delta-rs and DuckDB
  committer 32 writers of one table, through a group of committers, beside direct commits and delta-rs
  replay    a table into Arrow, beside delta-rs, polars and DuckDB (and Spark with LEDGERLAKE_SPARK=1) on the same table;
            finding an offset among 100,000 files; the pause at the seam`,
		Example:   "  ledgerlake bench tiering --json tiering.json",
		Args:      cobra.ExactArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			run := scenarios[args[0]]
			if run == nil {
				if slices.Contains(later, args[0]) {
					return fmt.Errorf("scenario %s is not built yet; there are %s", args[0], strings.Join(names, ", "))
				}
				return fmt.Errorf("no scenario %q; there are %s", args[0], strings.Join(names, ", "))
			}
			stop, err := startProfile(profile)
			if err != nil {
				return err
			}
			report, err := run(cmd.Context(), cfg)
			if err = errors.Join(err, stop()); err != nil {
				return err
			}
			if file != "" {
				f, err := os.Create(file)
				if err != nil {
					return fmt.Errorf("write report: %w", err)
				}
				if err := errors.Join(report.WriteJSON(f), f.Close()); err != nil {
					return fmt.Errorf("write report: %w", err)
				}
			}
			return report.WriteText(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "json", "", "write the report, with all samples, to this file")
	f.StringVar(&profile, "cpu-profile", "", "write a CPU profile for go tool pprof to this file")
	f.IntVar(&cfg.Rounds, "rounds", 5, "measured runs of each side")
	f.IntVar(&cfg.Records, "records", 200_000, "records a run")
	f.Uint64Var(&cfg.Seed, "seed", 1, "seed of the generated data")
	f.StringVar(&cfg.Dir, "dir", "", "scratch directory, on the disk to measure (default: the system's temporary one)")
	return cmd
}

// startProfile begins a CPU profile when a file is named; the function it gives ends it.
func startProfile(name string) (func() error, error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
