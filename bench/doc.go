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
//	scenarios.go   what there is to measure, as data; config.go, report.go (samples, goals, JSON and text), machine.go
//	page.go        a page of several reports: aims.go (the goals of the issues), plot.go, cost.go (a terabyte), cost_model.go (on paper)
//	ingest.go      scenario ingest: a real Kafka to Delta, beside the daemon kafka-delta-ingest: ingest_cases.go, ingest_sides.go,
//	               ingest_peers.go, ingest_run.go (a drain, and whether its table is right), ingest_rate.go (a load that comes meanwhile,
//	               an outage), ingest_goals.go; shapes.go and shapes_more.go (messages), events.go, kafka.go (the topic and its load), lake.go and
//	               s3.go (where tables lie), child.go and fleet.go (programs that are measured from outside), follow.go (when records are there)
//	deployments.go scenario deployments: how small a box holds a rate; box.go (control groups)
//	log.go         scenario log: append to the embedded log beside plain sequential writes
//	tiering.go     scenario tiering: log to table beside the same pipeline written plainly (plain.go)
//	replay.go      scenario replay: a table into Arrow: replay_engines.go, replay_lookup.go, replay_seam.go, replay_workers.go
//	deltalog.go    scenario deltalog: a Delta log becomes a snapshot, beside encoding/json, delta-rs and DuckDB (foreign.go)
//	committer.go   scenario committer: small commits of many writers: committer_sides.go, committer_cases.go, committer_delay.go
//	broker.go      scenario broker: the Kafka port beside a real Kafka: broker_sides.go, broker_goals.go
//	pulsar.go      scenario pulsar: a real Pulsar to Delta and back
//	installed.go   what `make services` has installed
package bench
