package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/bench"
)

// benchScenario is a thing to measure.
type benchScenario struct {
	name, about string
	run         func(context.Context, bench.Config) (*bench.Report, error)
	flags       []string // those beyond the ones of every scenario
}

var benchScenarios = []benchScenario{
	{"log", "append to the embedded log, beside plain sequential writes of the same bytes", bench.RunLog, nil},
	{"tiering", "log to Delta table, beside the same pipeline with encoding/json maps and arrow-go defaults", bench.RunTiering, nil},
	{"deltalog", "a Delta log of 300,000 files becomes a snapshot, beside an encoding/json loop, delta-rs and DuckDB", bench.RunDeltalog, nil},
	{"committer", "32 writers of one table, through a group of committers, beside direct commits and delta-rs", bench.RunCommitter, []string{"case"}},
	{"replay", "a table into Arrow, beside delta-rs, polars, DuckDB (and Spark with LEDGERLAKE_SPARK=1); an offset among 100,000 files; the seam. --case workers: 5 partitions of --records messages each, from the table, by 1, 2 and 5 workers", bench.RunReplay, []string{"case"}},
	{"broker", "produce and consume through the Kafka port at 1, 12 and 1,000 partitions, beside a real Kafka", bench.RunBroker, nil},
	{"pulsar", "a real Pulsar's topic to Delta table and back, beside Pulsar's own reader and the way from Kafka", bench.RunPulsar, nil},
	{"ingest", "a real Kafka's topic to Delta table, beside kafka-delta-ingest (--reference-bin) and the plain pipeline", bench.RunIngest, []string{"case", "full", "reference-bin", "reference-note", "own-bin"}},
}

func newBench() *cobra.Command {
	var (
		cfg  bench.Config
		file string
	)
	var names []string
	about := strings.Builder{}
	for _, s := range benchScenarios {
		names = append(names, s.name)
		fmt.Fprintf(&about, "\n  %-9s %s", s.name, s.about)
	}
	cmd := &cobra.Command{
		Use:       "bench NAME",
		Short:     "Measure this build beside a baseline, in one run",
		Long:      "bench runs a scenario and its baseline in turns and prints medians, spread, ratios and goals:" + about.String(),
		Example:   "  ledgerlake bench tiering --json tiering.json",
		Args:      cobra.ExactArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.IndexFunc(benchScenarios, func(s benchScenario) bool { return s.name == args[0] })
			if i < 0 {
				return fmt.Errorf("no scenario %q; there are %s", args[0], strings.Join(names, ", "))
			}
			for _, flag := range []string{"case", "full", "reference-bin", "reference-note", "own-bin"} {
				if uses := benchScenarios[i].flags; cmd.Flags().Changed(flag) && !slices.Contains(uses, flag) {
					return fmt.Errorf("scenario %s does not use --%s", args[0], flag)
				}
			}
			report, err := benchScenarios[i].run(cmd.Context(), cfg)
			if report == nil {
				return err
			}
			// What was measured before a case failed is shown all the same.
			report.Commit = version
			if file != "" {
				f, fault := os.Create(file)
				if fault != nil {
					return errors.Join(err, fmt.Errorf("write report: %w", fault))
				}
				if fault := errors.Join(report.WriteJSON(f), f.Close()); fault != nil {
					return errors.Join(err, fmt.Errorf("write report: %w", fault))
				}
			}
			return errors.Join(report.WriteText(cmd.OutOrStdout()), err)
		},
	}
	cmd.AddCommand(newBenchReport())
	f := cmd.Flags()
	f.StringVar(&file, "json", "", "write the report, with all samples, to this file")
	f.IntVar(&cfg.Rounds, "rounds", 5, "measured runs of each side")
	f.IntVar(&cfg.Records, "records", 200_000, "records a run")
	f.Uint64Var(&cfg.Seed, "seed", 1, "seed of the generated data")
	f.StringSliceVar(&cfg.Cases, "case", nil, "ingest, committer, replay: run these cases only, as the report names them")
	f.BoolVar(&cfg.Full, "full", false, "ingest: run all cases, not only the short ones")
	f.StringVar(&cfg.ReferenceBin, "reference-bin", "", "ingest: binary of the kafka-delta-ingest to run beside")
	f.StringVar(&cfg.ReferenceNote, "reference-note", "", "ingest: its version and how it was built, for the report")
	f.StringVar(&cfg.OwnBin, "own-bin", "", "ingest: measure this ledgerlake binary instead of the running one")
	f.StringVar(&cfg.Dir, "dir", "", "scratch directory, on the disk to measure (default: the system's temporary one)")
	return cmd
}
