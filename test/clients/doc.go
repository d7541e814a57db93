// Package clients runs software of others, which knows Kafka and not us, against `ledgerlake serve`: clients for Python
// and Node.js, Kafka's own tools, and a Kafka Streams job; some while the server is killed. What they print is compared
// with what a reader of ours sees, or with what was acknowledged.
//
// It starts many JVMs and installs its clients from their registries: `make clients` runs it, `make test` does not.
package clients
