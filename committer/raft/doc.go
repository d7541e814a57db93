// Package raft is a node of the replicated committer: a small group of processes that decides what each Delta
// version holds before it is put into the store, so that writers never race for a version (I5), a version can hold
// the requests of many of them, and a writer whose partition went to another owner is refused (I3).
//
// What it guarantees: an answer is given after a majority has made the decision durable and (unless the writer asked
// for less) after the version is seen in the store; both hold across the loss of every node but a majority. The table
// is the truth: a group that lost everything begins again from the tables alone.
//
// # Parts
//
//	fsm        what is decided, from the log alone
//	publish    what the leader does for one table, without I/O
//	sim        both under every fault, from a seed
//	node.go    hashicorp/raft and its files: log (raft-wal), snapshots, one port for nodes and writers
//	term.go    the time in which this node leads
//	runner.go  carries out what publish asks for, one goroutine a table: a slow store of one holds up no other
//	staged.go  requests that are too large for the log, by way of the table's store
//	backend.go answers writers and operators
//	metrics.go what Prometheus sees
//
// Concurrency: all methods of Node may be called concurrently. Close waits for everything that it started.
//
// Crashes: the log is synced before an entry counts; a node whose log cannot be written stops (Broken). What was decided and not published is published by the next
// leader; a put that an old leader left behind can only land where the same content belongs, or fails.
package raft
