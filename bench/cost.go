package bench

import (
	"bytes"
	"fmt"
)

// Prices are those of a cloud, in dollars.
type Prices struct {
	CPUHour     float64 // of one processor
	Put1000     float64 // of 1,000 puts into the object store, or lists
	Get1000     float64 // of 1,000 gets
	StorageTBMo float64 // of a terabyte for a month
}

// DefaultPrices are a guess, for who gives none: about those of large clouds' list prices for on-demand machines and standard object storage.
func DefaultPrices() Prices {
	return Prices{CPUHour: 0.045, Put1000: 0.005, Get1000: 0.0004, StorageTBMo: 23}
}

// writeCosts says what a terabyte costs each side, and what the model makes of a large installation.
func writeCosts(page *bytes.Buffer, reports []*Report, p Prices) error {
	written := false
	for _, r := range reports {
		if r.Scenario != "ingest" {
			continue
		}
		if !written {
			fmt.Fprintf(page, "\n## What a terabyte costs\n\nDrains: processor time at $%.3f an hour of one, as if it was always in use. On S3: requests at $%.4f for 1,000 puts and lists and $%.4f for 1,000 gets. "+
				"Not in it: Kafka, the network, storage ($%.0f a TB and month).\n\n", p.CPUHour, p.Put1000, p.Get1000, p.StorageTBMo)
			page.WriteString("| work | side | processor hours a TB | $ | requests a TB, $ | bytes stored a byte sent |\n|---|---|---:|---:|---:|---:|\n")
			written = true
		}
		for _, name := range r.cases() {
			r.writeCost(page, name, p)
		}
	}
	if !written {
		return nil
	}
	m, err := NewCostModel(reports, DefaultScale(), p)
	if err != nil {
		return err
	}
	page.WriteString("\n<details><summary>On paper: a large installation, and what breaks first (bench cost)</summary>\n\n```\n")
	if err := m.WriteText(page); err != nil {
		return err
	}
	page.WriteString("```\n\n</details>\n")
	return nil
}

// writeCost is the line of a case. Requests depend on time, not on bytes: those of a drain say little, so theirs are shown
// where a rate ran on a store.
func (r *Report) writeCost(page *bytes.Buffer, name string, p Prices) {
	tb := func(f func(Sample) float64) float64 {
		return r.median(name, func(s Sample) float64 { return f(s) / max(1, float64(s.Bytes)) * 1e12 })
	}
	hours := tb(func(s Sample) float64 { return s.CPUSeconds / 3600 })
	if hours == 0 {
		return
	}
	side, work := splitCase(name)
	asked, stored := "-", "-"
	if v := tb(func(s Sample) float64 { return requestCost(s.Requests, p) }); v > 0 {
		asked = short(v)
	}
	if v := r.median(name, func(s Sample) float64 { return float64(s.FileBytes) / float64(s.Bytes) }); v > 0 {
		stored = short(v)
	}
	fmt.Fprintf(page, "| %s | %s | %s | %s | %s | %s |\n", work, side, short(hours), short(hours*p.CPUHour), asked, stored)
}

// requestCost is what requests to a store cost. Deletes are free.
func requestCost(requests map[string]int64, p Prices) (dollars float64) {
	for kind, n := range requests {
		switch kind {
		case "DeleteObject", "DeleteObjects", "AbortMultipartUpload":
		case "GetObject", "HeadObject":
			dollars += float64(n) / 1000 * p.Get1000
		default:
			dollars += float64(n) / 1000 * p.Put1000
		}
	}
	return dollars
}
