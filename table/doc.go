// Package table reads and writes the rows of Delta tables that hold a log: the system columns that say which
// record a row was, the payload columns after them, Parquet files sorted by (partition, offset) with exact
// statistics, and scans that give each row once, in offset order, whatever files it lies in (I4).
//
// Concurrency: a Table may be used by many goroutines; a FileWriter, a SystemColumns and one Scan are each for
// one goroutine at a time. A Scan reads ahead with goroutines of its own and waits for them before it ends.
//
// Errors: rows out of order are refused by the FileWriter (ErrUnsorted) and found by the Scan, which names both
// files when two of them hold the same record (*DuplicateError). Features of the table or of a file that are not
// supported are named (*deltalog.UnsupportedError). Deletion vectors (checksum and cardinality verified), column
// mapping by name and by id, and widened types are read. Broken files give errors, never a panic (I8).
//
// Crashes: a FileWriter publishes its file whole in Close and the file is part of the table only once its Add is
// committed; a file left by a crash between the two is garbage that vacuum finds.
//
// Importing the package replaces the snappy codec of the Parquet library in this process, see snappy.go.
package table
