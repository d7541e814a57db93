// Package soak runs `ledgerlake ingest` for a long time at full rate and says what of it grows.
//
// A real Kafka holds a topic of twelve partitions whose retention drops what is old, a producer keeps a fixed number of
// records ahead of the table, so that ingest never waits for it, and compaction, vacuum, checkpoints and log cleanup run
// at a pace that has many rounds within the run. Every few seconds a Sample is taken from /metrics, the table's log and the
// folders. A Limit judges each series of them by its trend over the last two thirds (I8); at the end another engine looks whether the
// table holds each record that was produced, once, with its values (I3).
package soak
