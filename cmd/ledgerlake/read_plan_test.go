package main

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

// A plan is a page that a person reads without help.
func TestPlanText(t *testing.T) {
	got := planText(reader.Plan{
		Version: 41, OfFiles: 120, Bytes: 3_000_000, Rows: 9000,
		Partitions: []reader.PartitionPlan{
			{Partition: 0, From: 1000, Seam: 5000, Until: 6200},
			{Partition: 1, From: 0, Seam: 4000, Until: -1, Lost: []table.Range{{Partition: 1, From: 10, To: 20}}},
			{Partition: 12, From: 900, Seam: 700, Until: 950},
		},
		Files: []reader.FilePlan{
			{Path: "part-1.parquet", Bytes: 1_000_000, Rows: 5000, Chosen: &table.Chosen{Groups: 2, OfGroups: 3, Pages: 40, OfPages: 700}, Ranges: []table.Range{{Partition: 0, From: 900, To: 5000}}},
			{Path: "part-22.parquet", Bytes: 900, Rows: -1, Chosen: &table.Chosen{Groups: 1, OfGroups: 1}},
		},
	})
	want := `  PARTITION  FROM  SEAM  UNTIL  OF THE TABLE  OF THE LOG
          0  1000  5000   6200          4000        1200
          1     0  4000      -          4000     goes on
         12   900   700    950             0          50
lost before they were tiered: partition 1, offsets [10, 20)
table version 41: reads 2 of 120 files (3.00 MB, 9000 rows), of them 3 of 4 row groups, 40 of 700 pages
FILE             SIZE       ROWS  ROW GROUPS  PAGES      OFFSETS
part-1.parquet   1.00 MB    5000  2 of 3      40 of 700  0: [900, 5000)
part-22.parquet  900 bytes  -     1 of 1      -          ` + "\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := planText(reader.Plan{Version: -1}); got != "no positions: the whole table is read\n" {
		t.Errorf("got %q", got)
	}
}
