// Package wire is the Kafka protocol server over a broker.Log: any Kafka client can produce to it, fetch
// from it, keep its group positions in it and manage its topics. A Produce answer with acks 1 or -1 means
// that the Log has made the batch durable (I1); the server itself keeps no record data.
//
// One file an API key, NN_name.go, opens with the versions and the behaviour of that key and declares its
// row of the table in table.go. What is not in the table is not announced and ends the connection, as in
// Kafka. Transactions need a broker.Transactor; with another Log they are refused with an error that clients take
// as final.
//
// # Concurrency
//
// A connection has one goroutine that reads frames and one that answers them in order, so pipelined
// requests are answered in the order they came. Produce requests wait for the disk together: the next one is begun
// when the batches of the one before have their offsets; any other is begun when all before it are answered. A long poll (Fetch, ShareFetch, JoinGroup, SyncGroup) ends when its
// connection dies or the server drains. Memory over all connections is bounded: a frame is read only when
// its size fits into its share of Config.MemoryBudget, answers and what groups keep have theirs, and a peer that
// sends or reads too slowly is cut.
//
// # Who is served
//
// With Config.TLS the port speaks TLS only. With Config.Users a connection must log in by SASL: before that it is
// answered ApiVersions, SaslHandshake and SaslAuthenticate, any other request ends it, frames are small, and the time
// and the number of such connections are bounded, those in a TLS handshake included. With Config.Access rules
// decide for each request what its user may do, in Kafka's semantics (internal/acl); without, everything. A user
// that is removed keeps the connections it has, until their session ends.
//
// # Errors
//
// A frame that cannot be decoded, is too large, or asks for an unknown key closes its connection with a log
// line (I8). Everything else is answered with an error code, and a message where the protocol has room for it.
//
// # Crash behaviour
//
// Committed offsets, what share groups know, and transactions live in internal topics of the same Log and are durable when their request
// is answered. A transaction that was open at a crash stays open, and one whose end was decided is finished when
// the server opens. Group membership is in memory: after a restart members are unknown and join again.
package wire
