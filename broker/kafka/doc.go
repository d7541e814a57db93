// Package kafka is a broker.Source over an external Kafka: batches come from the partition leaders byte for byte
// as they are stored, and an offset that the log does not hold is an error, never a quiet jump to another one.
//
// # Concurrency
//
// All methods may be called concurrently. Long polls have clients of their own, taken from a small pool, because
// a broker answers the requests of one connection in order: metadata and offset lookups, and the fetches of
// other callers, do not wait behind a poll. A Group calls its callbacks one at a time.
//
// # Errors
//
// Faults that pass (leader elections, restarts, connections cut) are retried with fresh metadata and growing
// pauses for Config.RetryTimeout. What stays is reported for the partition that it concerns. A topic that was
// deleted and made again is a *RecreatedError, since its offsets mean other records (I2).
//
// # Crash behaviour
//
// The package stores nothing. Offsets that Group.Commit writes are for lag monitors; the position that counts
// is in the table (I3).
package kafka
