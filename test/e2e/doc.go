// Package e2e tests the real binary from outside, against real foreign software: DuckDB, delta-rs,
// polars and Spark read and write the same tables; librdkafka's and Java's Kafka clients talk to
// `ledgerlake serve`; a real Kafka feeds `ledgerlake ingest`; a real S3 server holds tables.
//
// What each engine reads is compared value by value with the messages that were sent, not only with what
// another engine reads. A service that is not installed skips its tests with the reason, and fails them
// when CI=true; `make services` installs all but Spark.
package e2e
