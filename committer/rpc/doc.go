// Package rpc is how writers speak to a group of committers: gRPC with JSON messages, and a client that finds the
// leader, keeps trying, and sends the same request id each time, so that a request is committed once however often
// it is sent (I3).
//
// A Client and its Tables may be used by many goroutines. A call ends with an answer or with its context; when it
// ends without an answer the error wraps objstore.ErrUnknownOutcome, and the same request sent again through the same
// Table keeps its id. The server side is an interface here; committer/raft implements it.
package rpc
