// Package bench holds the workloads that say how fast the engine is, each beside a baseline in the same run.
//
// A scenario makes its data from a seed, runs engine and baseline in turns (A B A B), checks that both
// results are right, and reports medians with their spread and the ratio. A result that is wrong does not
// count: the scenario fails. Times are never compared with a limit in a test; goals stand in the report.
//
// Package table puts a faster snappy encoder into the Parquet library for the whole process, so the plain
// pipeline of scenario tiering compresses with it too: the ratio is lower than beside the library as it comes.
//
// # Files
//
//	events.go    the deterministic event generator
//	report.go    samples, goals, and the JSON and text forms of a report
//	page.go      a page of several reports, with plots (plot.go) and an estimate of costs (cost.go)
//	machine.go   what machine this is, CPU time
//	log.go       scenario log: append to the embedded log beside plain sequential writes
//	tiering.go   scenario tiering: log to table beside the same pipeline written plainly
//	deltalog.go  scenario deltalog: a Delta log becomes a snapshot, beside encoding/json, delta-rs and DuckDB
//	committer.go scenario committer: small commits of many writers, through a group, directly, and with delta-rs
//	ingest.go    scenario ingest: a real Kafka to Delta, beside the daemon kafka-delta-ingest: cases; ingest_sides.go, ingest_run.go,
//	             ingest_goals.go; shapes.go (messages), kafka.go (the topic and its load), child.go (a program that is
//	             measured from outside), follow.go (when records are in the table)
//	broker.go    scenario broker: the Kafka port beside a real Kafka: produce, consume, latency, memory, start; broker_sides.go, broker_goals.go
//	foreign.go   other engines, in processes of their own
//	plain.go     the plain pipeline: encoding/json maps, arrow-go builders and defaults
package bench
