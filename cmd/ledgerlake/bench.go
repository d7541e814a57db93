package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/bench"
)

// newBench has a command for each scenario, and those that make something of their reports.
func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench SCENARIO",
		Short: "Measure this build beside a baseline, in one run",
		Long: "bench runs a scenario and its baseline in turns and prints medians, spread, ratios and goals.\n" +
			"`bench SCENARIO --help` says what it measures and which cases it has, `bench list` shows all.",
		Example: "  ledgerlake bench tiering --json tiering.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("say which scenario: bench list shows them")
			}
			return fmt.Errorf("no scenario %q; there are %s", args[0], strings.Join(scenarioNames(), ", "))
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args has refused
	}
	for _, s := range bench.Scenarios() {
		cmd.AddCommand(newScenario(s))
	}
	cmd.AddCommand(newBenchList(), newBenchReport(), newBenchCost(), newBenchFiles())
	return cmd
}

// newBenchFiles is the part of the scenario deltalog that has a process of its own.
func newBenchFiles() *cobra.Command {
	return &cobra.Command{
		Use: "list-files TABLE", Short: "List the files of a table and say what that took", Args: named, Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := bench.ListFiles(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(out)
		},
	}
}

func scenarioNames() (names []string) {
	for _, s := range bench.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

// newScenario is the command of one scenario, with the flags that it uses and no others.
func newScenario(s bench.Scenario) *cobra.Command {
	var (
		cfg  bench.Config
		file string
	)
	cmd := &cobra.Command{
		Use: s.Name, Short: s.About, Long: scenarioHelp(s), Args: cobra.NoArgs,
		Example: "  ledgerlake bench " + s.Name + " --json " + s.Name + ".json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runScenario(cmd, s.Run, cfg, file)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "json", "", "write the report, with all samples, to this file")
	f.Uint64Var(&cfg.Seed, "seed", 1, "seed of the generated data")
	f.StringVar(&cfg.Dir, "dir", "", "scratch directory, on the disk to measure (default: the system's temporary one)")
	if s.Rounds != "" {
		f.IntVar(&cfg.Rounds, "rounds", 5, s.Rounds)
	}
	if s.Records != "" {
		f.IntVar(&cfg.Records, "records", 200_000, s.Records)
	}
	if len(s.Cases) > 0 {
		f.StringSliceVar(&cfg.Cases, "case", nil, "run these cases only; may be repeated")
	}
	if s.Daemon {
		f.StringVar(&cfg.ReferenceBin, "reference-bin", "", "binary of the kafka-delta-ingest to run beside")
		f.StringVar(&cfg.ReferenceNote, "reference-note", "version not given", "its version and how it was built, for the report")
		f.StringVar(&cfg.OwnBin, "own-bin", "", "measure this ledgerlake binary instead of the running one")
	}
	if s.Name == "ingest" {
		f.BoolVar(&cfg.Full, "full", false, "run all cases, not only the usual ones")
	}
	return cmd
}

// scenarioHelp is the page of a scenario.
func scenarioHelp(s bench.Scenario) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s.\n\n%s\n\nBeside it, where installed: %s.\n", s.Name, s.About, s.Measures, strings.Join(s.Peers, ", "))
	if s.Needs != "" {
		fmt.Fprintf(&b, "It needs %s.\n", s.Needs)
	}
	if len(s.Cases) > 0 {
		b.WriteString("\nCases (* runs when none is asked for):\n")
		for _, c := range s.Cases {
			mark := " "
			if c.Usual {
				mark = "*"
			}
			fmt.Fprintf(&b, " %s %-16s %s\n", mark, c.Name, c.About)
		}
	}
	return b.String()
}

// runScenario runs, writes the report, and prints it. What was measured before a case failed is shown all the same.
func runScenario(cmd *cobra.Command, run func(context.Context, bench.Config) (*bench.Report, error), cfg bench.Config, file string) error {
	report, err := run(cmd.Context(), cfg)
	if report == nil {
		return err
	}
	report.Commit = version
	if released() {
		report.Notes = append(report.Notes, "ledgerlake is the build of `make release`: the compiler knows its hot paths by a profile")
	}
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
}

// released says whether this is a build of `make release`.
func released() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-pgo" })
}

// newBenchList shows scenarios and cases, as data when asked.
func newBenchList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "Show all scenarios and their cases", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(bench.Scenarios())
			}
			w := cmd.OutOrStdout()
			for _, s := range bench.Scenarios() {
				fmt.Fprintf(w, "%s: %s\n", s.Name, s.About)
				for _, c := range s.Cases {
					fmt.Fprintf(w, "  %-22s %s\n", c.Name, c.About)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as a JSON array")
	return cmd
}
