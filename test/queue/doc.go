// Package queue judges a log by what its clients saw, as Jepsen's queue workload judges Kafka and its kin: a
// History of sends and polls goes through Check, which knows nothing of the log, and names each Fault it finds.
//
// Values are unique, so every record can be followed. What was acknowledged must be where it was said to be; a record is
// at one offset, and an offset holds one record; transactions are seen whole or not at all; a consumer sees the
// offsets of a partition in order, each once, and passes over none that holds a record for it. After the faults a last
// consumer reads everything: what is then still missing is lost.
//
// Each kind of fault is shown to be found by a planted one (check_test.go). The histories come from real clients against
// the real binary that is killed and stopped (run_test.go, with real processes), and against a server in this process
// whose disk fails and loses what was not synced (disk_test.go).
package queue
