package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

// printPlan shows what a read would do, for people.
func printPlan(ctx context.Context, out io.Writer, c *reader.Cursor) error {
	p, err := c.Plan(ctx)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, planText(p))
	return err
}

// planText is the way of each partition through table and log, then the files of the table.
func planText(p reader.Plan) string {
	var s strings.Builder
	if len(p.Partitions) == 0 {
		s.WriteString("no positions: the whole table is read\n")
	} else {
		planPartitions(&s, p.Partitions)
	}
	for _, q := range p.Partitions {
		for _, l := range q.Lost {
			fmt.Fprintf(&s, "lost before they were tiered: partition %d, offsets [%d, %d)\n", q.Partition, l.From, l.To)
		}
	}
	if p.Version >= 0 {
		planFiles(&s, p)
	}
	return s.String()
}

func planPartitions(s *strings.Builder, parts []reader.PartitionPlan) {
	w := tabwriter.NewWriter(s, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "PARTITION\tFROM\tSEAM\tUNTIL\tOF THE TABLE\tOF THE LOG\t")
	for _, q := range parts {
		until, ofLog := "-", "goes on"
		if q.Until >= 0 {
			until, ofLog = fmt.Sprint(q.Until), fmt.Sprint(max(0, q.Until-max(q.From, q.Seam)))
		}
		ofTable := q.Seam - q.From
		if q.Until >= 0 {
			ofTable = min(q.Seam, q.Until) - q.From
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%d\t%s\t\n", q.Partition, q.From, q.Seam, until, max(0, ofTable), ofLog)
	}
	_ = w.Flush() // to memory
}

func planFiles(s *strings.Builder, p reader.Plan) {
	var sum table.Chosen
	for _, f := range p.Files {
		if c := f.Chosen; c != nil {
			sum = table.Chosen{Groups: sum.Groups + c.Groups, OfGroups: sum.OfGroups + c.OfGroups, Pages: sum.Pages + c.Pages, OfPages: sum.OfPages + c.OfPages}
		}
	}
	fmt.Fprintf(s, "table version %d: reads %d of %d files (%s, %d rows)", p.Version, len(p.Files), p.OfFiles, byteCount(p.Bytes), p.Rows)
	if len(p.Files) > reader.MaxPlanFooters {
		s.WriteString("; too many to look at their row groups\n")
	} else {
		fmt.Fprintf(s, ", of them %d of %d row groups", sum.Groups, sum.OfGroups)
		if sum.OfPages > 0 {
			fmt.Fprintf(s, ", %d of %d pages", sum.Pages, sum.OfPages)
		}
		s.WriteString("\n")
	}
	if len(p.Files) == 0 {
		return
	}
	w := tabwriter.NewWriter(s, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tSIZE\tROWS\tROW GROUPS\tPAGES\tOFFSETS")
	for _, f := range p.Files {
		groups, pages, rows := "-", "-", "-"
		if f.Chosen != nil {
			groups = fmt.Sprintf("%d of %d", f.Chosen.Groups, f.Chosen.OfGroups)
			if f.Chosen.OfPages > 0 {
				pages = fmt.Sprintf("%d of %d", f.Chosen.Pages, f.Chosen.OfPages)
			}
		}
		if f.Rows >= 0 {
			rows = fmt.Sprint(f.Rows)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Path, byteCount(f.Bytes), rows, groups, pages, planRanges(f.Ranges))
	}
	_ = w.Flush() // to memory
}

// planRanges are the offsets of a file, partition by partition.
func planRanges(ranges []table.Range) string {
	const most = 6
	var out []string
	for _, r := range ranges[:min(most, len(ranges))] {
		out = append(out, fmt.Sprintf("%d: [%d, %d)", r.Partition, r.From, r.To))
	}
	if n := len(ranges) - most; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, "  ")
}
