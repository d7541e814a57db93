package bench

import (
	"bytes"
	"fmt"
)

// Prices are those of a cloud, in dollars.
type Prices struct {
	CPUHour     float64 // of one processor
	Put1000     float64 // of 1,000 puts into the object store
	StorageTBMo float64 // of a terabyte for a month
}

// DefaultPrices are a guess, for who gives none: about those of large clouds' list prices for on-demand machines and standard object storage.
func DefaultPrices() Prices { return Prices{CPUHour: 0.045, Put1000: 0.005, StorageTBMo: 23} }

// writeCosts extrapolates what was measured on one machine to a large installation. It is arithmetic on
// medians: the processor time of a byte, the files and versions of a table, the bytes of a file.
func writeCosts(page *bytes.Buffer, reports []*Report, p Prices) {
	for _, r := range reports {
		if r.Scenario != "ingest" {
			continue
		}
		page.WriteString("\n## What it costs, extrapolated\n\n")
		fmt.Fprintf(page, "From the drains above: processor time a byte, at $%.3f a processor hour. Storage is $%.0f a TB and month for what the files take. ",
			p.CPUHour, p.StorageTBMo)
		page.WriteString("Not in it: Kafka, the network, and that processors are never fully used.\n\n")
		page.WriteString("| work | side | CPU s a GB of messages | processors for 1 GB/s | $ a TB ingested | bytes stored a byte sent |\n|---|---|---:|---:|---:|---:|\n")
		for _, name := range r.cases() {
			gb := r.median(name, func(s Sample) float64 { return s.CPUSeconds / (float64(s.Bytes) / 1e9) })
			if gb == 0 || r.median(name, func(s Sample) float64 { return s.P50 }) > 0 {
				continue
			}
			side, work := splitCase(name)
			stored := "-"
			if v := r.median(name, func(s Sample) float64 { return float64(s.FileBytes) / float64(s.Bytes) }); v > 0 {
				stored = short(v)
			}
			fmt.Fprintf(page, "| %s | %s | %s | %s | %s | %s |\n", work, side, short(gb), short(gb), short(gb*1000/3600*p.CPUHour), stored)
		}
		writeScale(page, p)
	}
}

// writeScale says what a large table costs in requests and in its log, and what gives way first. A commit is a put of
// the version and of a file a process; the
// bytes of an add in a checkpoint and the puts beside are assumed, not measured, and the page says so.
func writeScale(page *bytes.Buffer, p Prices) {
	const (
		fileBytes       = 128e6 // after optimize
		checkpointBytes = 120.0 // of one add, assumed
	)
	page.WriteString("\nRequests and size of the log, by arithmetic on assumptions (2.2 puts a version; 120 bytes of checkpoint a file), not measured:\n\n| freshness | versions a day and table | puts a month for 100 tables | $ |\n|---:|---:|---:|---:|\n")
	for _, seconds := range []float64{1, 10, 60} {
		versions := 86400 / seconds
		puts := versions * 30 * 100 * 2.2 // a file and a version each, and a checkpoint or optimize now and then
		fmt.Fprintf(page, "| %.0f s | %s | %s | %s |\n", seconds, short(versions), short(puts), short(puts/1000*p.Put1000))
	}
	files := 10e15 / fileBytes
	fmt.Fprintf(page, "\nA table of 10 PB is %s files of 128 MB after optimize: a checkpoint of %s GB. What gives way first is there: every reader that loads the "+
		"whole list pays for it, and a checkpoint is written anew each time. Split such a topic's table by time, or keep its history below about 1 PB (%s files, %s GB).\n",
		short(files), short(files*checkpointBytes/1e9), short(files/10), short(files/10*checkpointBytes/1e9))
}
