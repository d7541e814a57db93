// Package tiering moves the records of a topic from a log into a Delta table, exactly once.
//
// Run fetches all partitions, decodes them on several cores into columns, writes Parquet files and commits
// them together with the positions that they reach (I3). It begins where the table stands, so a restart, a
// crash or a lost answer of the store neither loses nor repeats a row. Records that cannot be decoded go to a
// dead letter table, which is committed first (I7). The log is asked to hold back retention at the position
// that is committed (I6).
//
// The work is done in sessions. A session ends when something fails that leaves its buffers in doubt: a file
// that could not be written, another process that committed the same offsets, a changed schema. Everything not
// committed is then forgotten and a new session begins from the table. Faults of store and log that may pass
// are retried for ever, with a log line each; what cannot pass ends Run with an error.
//
// A Tierer is safe for concurrent use; Run is called once. Memory is bounded by Config.MemoryBudget: half of it
// is for batches on their way to the decoders, a quarter for columns being filled, a quarter for columns being
// committed. Beyond that come one decompressed batch a decoder and what the Parquet writers buffer.
package tiering
