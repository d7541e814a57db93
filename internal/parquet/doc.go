// Package parquet encodes arrow record batches as Parquet files, and decodes row groups: any table's columns go in, and
// each byte of the file is encoded once. It guarantees that a closed file holds exactly the rows that were written, in their order,
// in a form that the format's specification defines and that other engines read.
//
// The library that reads Parquet here can also write it, but copies pages and chunks several times and allocates
// for each value of a dictionary; measured, it took half of the time from the log to the table. This package
// does less: the types of a Delta table, data pages of version 1, and as encodings PLAIN, RLE_DICTIONARY,
// DELTA_BINARY_PACKED and DELTA_LENGTH_BYTE_ARRAY. What a column gets is decided on its first page of each row group: a
// dictionary where values repeat, differences where these are small, lengths in front of values that are long, no
// compression where it gains nothing.
//
// The way of a value: Write appends it to the page that its column is filling. A full page (64 KiB, so that it
// stays in the processor's cache) is encoded, compressed into a scratch buffer and appended to the chunk. The end of a row
// group writes the chunks of all columns. So a Writer holds the compressed bytes of one row group.
//
// A GroupReader goes the other way: page by page into Arrow's buffers; long values are decompressed where they stay. A
// LeafReader gives levels and values instead. Footers and schemas are those of the
// Arrow library, which also reads what this package does not know: ErrUnsupported says so before a row is lost. Where
// pages have checksums they are verified. Files may be anything: what a few bytes can ask for is bounded, and damage is
// ErrDamaged.
//
// A Writer is for one goroutine at a time; a Pool may be used by many. Errors of the sink come back as they are,
// and after any error the Writer is useless. Nothing is published: the sink's owner decides what becomes of a
// file that is not finished. A file without its footer, after a crash, is no Parquet file and is refused by readers.
package parquet
