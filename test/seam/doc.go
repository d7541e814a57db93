// Package seam reads a stream from thousands of random places while everything else goes on, and compares each read with
// what the log's own clients know.
//
// One run has a log that producers fill (the embedded log of `serve`, a real Kafka, or a real Pulsar), the real binary
// that moves it into a table on a real S3 server, background upkeep without any retention time (optimize and
// vacuum), retention that drops the log's records as soon as they are in the table, and kills of
// whatever runs, brokers included. Between all of them and the S3 server stands a proxy that refuses requests, loses
// answers and cuts them short, for one request or for a while (weather.go).
//
// Meanwhile readers begin at random offsets, half of them near the place where table and log meet, with random
// columns, batch sizes, ends, leases and restarts from tokens. What a read gave is kept as a history (history.go) and
// judged at the end, when the truth is known: each record once, in order, with its value; each offset without a
// record told as a gap, and no gap where a record is (I3, I4, I6).
//
// Nothing here waits for a time: kills come after so many reads, and a run ends when it has seen what it is there for.
// LEDGERLAKE_READS and LEDGERLAKE_KILLS make it longer (make seam); LEDGERLAKE_SEED repeats choices, not moments.
package seam
