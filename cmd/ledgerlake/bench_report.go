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
		Args:    named,
		RunE: func(_ *cobra.Command, files []string) error {
			reports, err := readReports(files)
			if err != nil {
				return err
			}
			return bench.WritePage(out, reports, info)
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "docs/benchmarks", "folder of the page; files of the same names are replaced")
	f.StringArrayVar(&info.Notes, "note", nil, "a line that the page says at its top, such as what was left out; may be repeated")
	priceFlags(f, &info.Prices)
	return cmd
}
