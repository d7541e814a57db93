// Package reader gives one ordered stream over a Delta table and the log whose records went into it.
//
// A Cursor starts at any offset or time. It reads history from the table, then goes on in the log at the
// exact offset where the table ends (the seam), and follows the log for as long as asked.
//
// # Guarantees
//
// I4: of each partition every committed record comes once and in offset order, on both sides of the seam.
// The snapshot of the table and the positions of its partitions are taken together, so the lake part ends
// where the txn action of that snapshot says, not where some file ends. Offsets that have no row (control
// markers, aborted or compacted records, dead letters) are reported as gaps through Config.OnGap. Offsets
// above the table's position that the log does not hold stop the cursor with a *MissingError, unless Config.SkipMissing is set;
// then they are reported as a gap with reason "lost".
//
// When retention removes log segments under a running cursor, they are in the table by then (I6): the
// cursor takes a newer snapshot and reads the lake again from its own position.
//
// When a column of the table gets a wider type under a running cursor, and a value of the log does not fit the type that the
// cursor has, or the table is to be read again, the cursor ends with a *WidenedError: a new one goes on from its Token.
//
// A read that is in the table for longer than a second holds a lease on its version, so no vacuum removes its files
// (I6). Should one be gone all the same, the cursor plans again from a newer snapshot, without a skip or a repeat.
//
// # Concurrency
//
// A Cursor is used by one goroutine. Batches belong to the receiver until it releases them.
//
// # Files
//
//	config.go    Config, where to start and where to end
//	cursor.go    Cursor: the loop over lake and log
//	lake.go      the lake side: ranges below the seam
//	hold.go      the lease of a read that takes long
//	log.go       the log side: fetch, filter, decode
//	retyped.go   columns that got a wider type since
//	resolve.go   times and words to offsets
//	rowends.go   the ends of a table whose writer keeps no positions
//	token.go     resume tokens
//	pace.go      rates
//	plan.go      what a cursor is going to read
//	records.go   batches and records as sequences
//	latest.go    the newest record of each key, then the changes; newest.go finds them, with files where memory ends
//	topics.go    several streams as one; widen.go puts their columns together
//	bytime.go    all partitions in the order of time
//	gaps.go      offsets without a row, for who tells them to others
//	ndjson.go    rows as JSON lines; csv.go as CSV and as raw values
//	history.go   re-batched lake rows for the Kafka protocol server
//	stream.go    one consumer's scan of a partition, kept open between its fetches
//	streamset.go the streams that wait, within a budget
package reader
