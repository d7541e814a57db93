// Package record holds the vocabulary of the log (Offset, TopicPartition, Record) and the codec of Kafka's
// v2 record batches. What it encodes is read by every Kafka client, and what it decodes without an error is
// exactly what was written: lengths, counts, offsets and varints are checked against the batch that they stand
// in, and decompressed size is bounded.
//
// # Concurrency
//
// Functions and the methods of BatchHeader and Batch are pure and may run concurrently on bytes that nobody
// writes. Iterator, Builder and AbortFilter each serve one goroutine at a time; they are cheap to keep, because
// compressors and decompressors come from pools that all of them share.
//
// # Errors
//
// ErrTruncated says that more bytes are needed, which is normal at the end of a fetch. Everything else is a
// *CorruptError that matches ErrCorrupt and names the place. No input panics or allocates without bound (I8).
//
// # Crash behaviour
//
// The package has no state that outlives a process. VerifyCRC is what tells a torn or rotten batch from a whole
// one; neither ReadBatch nor Iterator calls it, so that a batch is summed once, where it enters the system.
package record
