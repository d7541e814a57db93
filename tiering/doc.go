// Package tiering moves the records of a topic from a log into a Delta table, exactly once.
//
// Run fetches all partitions, decodes them on several cores into columns, writes Parquet files and commits
// them together with the positions that they reach (I3). It begins where the table stands, so a restart, a
// crash or a lost answer of the store neither loses nor repeats a row. Records that cannot be decoded go to a
// dead letter table, which is committed first (I7). The log is asked to hold back retention at the position
// that is committed (I6).
//
// Each offset below the position is a row, or a dead letter, or a hole with a reason, and never two of these. The
// two tables have a commit each, so after a crash in between the dead letter table holds letters of offsets that are
// not decided, and the records may be judged otherwise now. Every commit therefore first makes the dead letter table
// say of its ranges what it says itself: it reads which offsets really have a letter there, adds those that are
// missing and takes out those whose records are rows now. Two processes that judge one partition differently at the
// same moment (another format, another schema) can still cross between that look and the commit of the rows; what
// keeps them apart is the consumer group, and the range check makes one of them begin again.
//
// What is lost under Config.OnGap, and the id of the topic, are table properties, set by the commit that moves the
// positions: see table.Lost and table.CheckTopic. A topic that was deleted and made again ends Run.
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
