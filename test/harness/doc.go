// Package harness runs the real ledgerlake binary and real services for the tests under test/. It
// guarantees that what it starts is ended when the test ends, or its process is killed, that nothing listens beyond loopback, and
// that a missing service skips a test with its reason, or fails it when CI=true.
//
// # What it starts
//
//	Binary  builds cmd/ledgerlake once a test binary
//	Start   a long-running command (serve, ingest) that can be stopped or killed
//	Run     a command that ends by itself
//	Python  a script in the environment of foreign readers and clients
//	Kafka   a real Apache Kafka; KafkaTool its Java command line tools
//	S3      a real S3 server with conditional writes
//
// A test package calls Main from its TestMain, which removes the built binary at the end.
//
// # Data
//
// Event is a message with every column type that a table of JSON messages has. NewEvent makes the n-th
// event of a seed, the same each time, so that a test knows each row without keeping it.
//
// Everything here may be used by parallel tests.
package harness
