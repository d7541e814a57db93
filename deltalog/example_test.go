package deltalog_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

var ctx = context.Background()

func column(name string, t deltalog.DataType) deltalog.StructField {
	return deltalog.StructField{Name: name, Type: t, Nullable: true}
}

// newTable makes a table in memory; objstore/dir and objstore/s3 open others.
func newTable(conf map[string]string) (*mem.Store, *deltalog.Log) {
	store := mem.New()
	schema := &deltalog.StructType{Fields: []deltalog.StructField{column("id", deltalog.Long), column("day", deltalog.Date)}}
	l, err := deltalog.Create(ctx, store, deltalog.CreateOptions{Schema: schema, PartitionColumns: []string{"day"}, Configuration: conf},
		deltalog.Config{CheckpointInterval: -1})
	if err != nil {
		log.Fatal(err)
	}
	return store, l
}

// file is what a writer of data files says about one that it has put into the store.
func file(path, day string) deltalog.Add {
	return deltalog.Add{Path: path, PartitionValues: map[string]*string{"day": &day}, Size: 1000, DataChange: true, Stats: `{"numRecords":10}`}
}

// A commit adds files and records how far an application has written, in one version.
func Example() {
	_, l := newTable(nil)
	defer l.Close()
	v, err := l.Commit(ctx, deltalog.Commit{
		Operation: "STREAMING UPDATE",
		Adds:      []deltalog.Add{file("a.parquet", "2026-01-01"), file("b.parquet", "2026-01-02")},
		Txns:      []deltalog.Txn{{AppID: "orders-0", Version: 41}, {AppID: "orders-1", Version: 17}},
	})
	if err != nil {
		log.Fatal(err)
	}
	snap, err := l.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	rows, _ := snap.NumRows()
	at, _ := snap.Txn("orders-0")
	fmt.Println("version", v, "has", snap.NumFiles(), "files,", rows, "rows, orders-0 at", at)
	for a := range snap.Files() {
		fmt.Println(a.Path, *a.PartitionValues["day"])
	}
	// Output:
	// version 1 has 2 files, 20 rows, orders-0 at 41
	// a.parquet 2026-01-01
	// b.parquet 2026-01-02
}

// Another writer that advanced the same application is a conflict: the caller looks what there is now.
func ExampleLog_Commit_conflict() {
	_, l := newTable(nil)
	defer l.Close()
	mine := deltalog.Commit{Txns: []deltalog.Txn{{AppID: "orders-0", Version: 9}}, Operation: "STREAMING UPDATE"}
	if _, err := l.Commit(ctx, mine); err != nil {
		log.Fatal(err)
	}
	_, err := l.Commit(ctx, mine) // again, on what was read before
	var conflict *deltalog.TxnConflictError
	fmt.Println(errors.As(err, &conflict), conflict.AppIDs)
	// Output: true [orders-0]
}

// Files are rewritten while appends go on: the removed files must still be there, nothing else matters.
func ExampleRemoveOf() {
	_, l := newTable(nil)
	defer l.Close()
	small := []deltalog.Add{file("a.parquet", "2026-01-01"), file("b.parquet", "2026-01-01")}
	v, err := l.Commit(ctx, deltalog.Commit{Operation: "WRITE", Adds: small})
	if err != nil {
		log.Fatal(err)
	}
	large := file("ab.parquet", "2026-01-01")
	large.DataChange = false
	c := deltalog.Commit{ReadVersion: v, Operation: "OPTIMIZE", Adds: []deltalog.Add{large}}
	for i := range small {
		c.Removes = append(c.Removes, deltalog.RemoveOf(&small[i], time.Now().UnixMilli(), false))
	}
	if _, err := l.Commit(ctx, deltalog.Commit{ReadVersion: v, Operation: "WRITE", Adds: []deltalog.Add{file("c.parquet", "2026-01-02")}, BlindAppend: true}); err != nil {
		log.Fatal(err)
	}
	v, err = l.Commit(ctx, c)
	fmt.Println(v, err)
	// Output: 3 <nil>
}

// A change of the schema and the first rows that have it are one version. A feature that the change needs is
// turned on with it.
func ExampleSnapshot_Alter() {
	_, l := newTable(nil)
	defer l.Close()
	snap, err := l.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	schema := *snap.Schema()
	schema.Fields = append(slices.Clone(schema.Fields), column("at", deltalog.TimestampNTZ))
	c, err := snap.Alter(deltalog.Change{Schema: &schema})
	if err != nil {
		log.Fatal(err)
	}
	c.Adds = []deltalog.Add{file("a.parquet", "2026-01-01")}
	if _, err := l.Commit(ctx, c); err != nil {
		log.Fatal(err)
	}
	if snap, err = l.Snapshot(ctx); err != nil {
		log.Fatal(err)
	}
	p := snap.Protocol()
	fmt.Println(snap.Schema(), p.MinReaderVersion, p.MinWriterVersion, p.ReaderFeatures)
	// Output: struct<id:long,day:date,at:timestamp_ntz> 3 7 [timestampNtz]
}

// Older versions are read by number or by time, as long as the log holds them.
func ExampleLog_SnapshotAt() {
	_, l := newTable(nil)
	defer l.Close()
	for v := range deltalog.Version(3) {
		if _, err := l.Commit(ctx, deltalog.Commit{ReadVersion: v, Adds: []deltalog.Add{file(fmt.Sprint(v, ".parquet"), "2026-01-01")}}); err != nil {
			log.Fatal(err)
		}
	}
	old, err := l.SnapshotAt(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(old.Version(), old.NumFiles())
	_, err = l.SnapshotAtTime(ctx, time.Now().Add(time.Hour))
	fmt.Println(errors.Is(err, deltalog.ErrTimestampTooLate))
	// Output:
	// 1 1
	// true
}

// A checkpoint spares readers the commits before it, and lets Cleanup remove those that are old.
func ExampleLog_Cleanup() {
	store, l := newTable(nil)
	defer l.Close()
	snap, err := l.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := l.Checkpoint(ctx, snap); err != nil {
		log.Fatal(err)
	}
	done, err := l.Cleanup(ctx, deltalog.CleanupOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(done.Files), done.Why)
	found, err := deltalog.Check(ctx, store)
	fmt.Println(len(found), err)
	// Output:
	// 0 no commit is older than the retention
	// 0 <nil>
}

// A writer that only appends needs no list of files: its memory does not depend on the table.
func ExampleConfig_noFiles() {
	store, full := newTable(nil)
	defer full.Close()
	if _, err := full.Commit(ctx, deltalog.Commit{Adds: []deltalog.Add{file("a.parquet", "2026-01-01")}, Txns: []deltalog.Txn{{AppID: "orders-0", Version: 4}}}); err != nil {
		log.Fatal(err)
	}
	l, err := deltalog.Open(ctx, store, deltalog.Config{NoFiles: true})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	snap, err := l.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	at, _ := snap.Txn("orders-0")
	whole, err := l.FullSnapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snap.HasFiles(), at, whole.NumFiles())
	// Output: false 4 1
}

// A partition value has three forms: in the log's partitionValues, as a folder, and in the path of the log.
func ExampleFormatPartitionValue() {
	v, err := deltalog.FormatPartitionValue(deltalog.String, "US/East")
	if err != nil {
		log.Fatal(err)
	}
	folder := deltalog.PartitionFolder("region", deltalog.String, v)
	fmt.Println(*v, folder, deltalog.EncodePath(folder))
	// Output: US/East region=US%2FEast region=US%252FEast
}
