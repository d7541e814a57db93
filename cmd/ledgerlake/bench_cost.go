package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/bench"
)

func newBenchCost() *cobra.Command {
	at, prices := bench.DefaultScale(), bench.DefaultPrices()
	asJSON := false
	cmd := &cobra.Command{
		Use: "cost FILE...", Short: "Extrapolate reports of bench to a large installation: what it costs, what breaks first",
		Long: "cost is arithmetic on medians of reports that bench has written with --json: ingest (cases \"event x12\" and \"S3 fresh\"),\n" +
			"deltalog and committer. Each figure is printed with the report and the case that it comes from; what stands on a\n" +
			"report that is not given is left out. Prices are yours to give.",
		Example: "  ledgerlake bench cost ingest.json deltalog.json committer.json --partitions 200 --gb-per-second 1 --petabytes 1",
		Args:    named,
		RunE: func(cmd *cobra.Command, files []string) error {
			reports, err := readReports(files)
			if err != nil {
				return err
			}
			m, err := bench.NewCostModel(reports, at, prices)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(m)
			}
			return m.WriteText(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.IntVar(&at.Partitions, "partitions", at.Partitions, "partitions of all topics")
	f.Float64Var(&at.GBps, "gb-per-second", at.GBps, "gigabytes of record values a second")
	f.Float64Var(&at.PB, "petabytes", at.PB, "petabytes of record values that the tables hold")
	f.IntVar(&at.Tables, "tables", at.Tables, "tables, over which all is spread evenly")
	f.Float64Var(&at.FlushAge, "flush-seconds", at.FlushAge, "seconds between two commits of a process")
	f.Float64Var(&at.FileMB, "file-mb", at.FileMB, "megabytes of a data file after optimize")
	f.Float64Var(&at.CPUs, "machine-cpus", at.CPUs, "processors of a machine")
	f.Float64Var(&at.MemoryGB, "machine-gb", at.MemoryGB, "gigabytes of memory of a machine")
	f.BoolVar(&asJSON, "json", false, "print the model as JSON")
	priceFlags(f, &prices)
	return cmd
}

// priceFlags are those of every command that reckons costs.
func priceFlags(f *pflag.FlagSet, p *bench.Prices) {
	f.Float64Var(&p.CPUHour, "price-cpu-hour", p.CPUHour, "dollars for an hour of one processor")
	f.Float64Var(&p.Put1000, "price-put-1000", p.Put1000, "dollars for 1,000 puts or lists of the object store")
	f.Float64Var(&p.Get1000, "price-get-1000", p.Get1000, "dollars for 1,000 gets of the object store")
	f.Float64Var(&p.StorageTBMo, "price-tb-month", p.StorageTBMo, "dollars for storing a terabyte for a month")
}

func readReports(files []string) (reports []*bench.Report, err error) {
	for _, file := range files {
		r, err := bench.ReadReport(file)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}
