package maintenance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/table"
)

// I6: a file of the table stays under whatever name the log has for it, and a real orphan beside it goes.
func TestVacuumSpellings(t *testing.T) {
	for name, path := range map[string]string{
		"absolute":                "file://LINK/part-1%25.parquet",
		"absolute through a link": "file://REAL/part-1%25.parquet",
		"absolute without file:":  "REAL/part-1%25.parquet",
		"dot":                     "./part-1%25.parquet",
		"dot dot":                 "x/../part-1%25.parquet",
		"double slash":            "file://LINK//part-1%25.parquet",
	} {
		t.Run(name, func(t *testing.T) {
			target, link := filepath.Join(t.TempDir(), "target"), filepath.Join(t.TempDir(), "link")
			if err := os.Mkdir(target, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			store, err := dir.Open(dir.Config{Root: link, FS: vfs.OS()})
			if err != nil {
				t.Fatal(err)
			}
			tb, err := table.Create(t.Context(), store, payload, table.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer tb.Close()
			for _, key := range []string{"part-1%.parquet", "orphan.parquet"} {
				if err := store.Put(t.Context(), key, []byte("rows")); err != nil {
					t.Fatal(err)
				}
			}
			path = strings.NewReplacer("LINK", link, "REAL", target).Replace(path)
			if _, err := tb.Log.Commit(t.Context(), deltalog.Commit{Operation: "WRITE", BlindAppend: true,
				Adds: []deltalog.Add{{Path: path, PartitionValues: map[string]*string{}, Size: 4, ModificationTime: 1, DataChange: true}}}); err != nil {
				t.Fatal(err)
			}
			later := time.Now().Add(30 * day)
			report, err := Vacuum(t.Context(), tb, VacuumOptions{Clock: func() time.Time { return later }})
			if err != nil || report.Deleted.Files != 1 {
				t.Fatal(report, err)
			}
			if _, err := store.Head(t.Context(), "part-1%.parquet"); err != nil {
				t.Fatalf("a file of the table is gone: %v", err)
			}
		})
	}
}
