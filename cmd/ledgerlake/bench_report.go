package main

import (
	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/bench"
)

func newBenchReport() *cobra.Command {
	info := bench.PageInfo{Prices: bench.DefaultPrices()}
	var out string
	cmd := &cobra.Command{
		Use:     "report FILE...",
		Short:   "Make a page with plots of reports that bench has written with --json",
		Example: "  ledgerlake bench report ingest.json tiering.json --out docs/benchmarks/2026-11-29",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			var reports []*bench.Report
			for _, file := range files {
				r, err := bench.ReadReport(file)
				if err != nil {
					return err
				}
				reports = append(reports, r)
			}
			return bench.WritePage(out, reports, info)
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "docs/benchmarks", "folder of the page; files of the same names are replaced")
	f.Float64Var(&info.Prices.CPUHour, "price-cpu-hour", info.Prices.CPUHour, "dollars for an hour of one processor")
	f.Float64Var(&info.Prices.Put1000, "price-put-1000", info.Prices.Put1000, "dollars for 1,000 puts into the object store")
	f.Float64Var(&info.Prices.StorageTBMo, "price-tb-month", info.Prices.StorageTBMo, "dollars for storing a terabyte for a month")
	return cmd
}
