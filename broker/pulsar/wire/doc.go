// Package wire speaks Pulsar's binary protocol as far as a reader of topics needs it: connect, log in, look up the
// broker of a topic, subscribe, take entries as they are stored, acknowledge, and ask for partitions, topics, schemas
// and the last message.
//
// It exists because the client libraries hide what a faithful copy needs: they give messages without sequence ids,
// take null values for empty ones, leave out corrupt entries and chunks whose beginning they did not see without a
// word, and go on behind a lost connection wherever the broker stands. Here an entry comes with all its bytes, and a
// lost subscription is an error: who reads opens it again at a message of its own choice and sees what comes first.
//
// # Concurrency
//
// A Client is safe for concurrent use and has one connection a broker. A Consumer is for one goroutine, but Close may
// come from another one.
//
// # Memory
//
// A Consumer asks for so many messages that what waits in it stays near Config.Window bytes; frames are bounded by
// what the broker says its largest message is.
package wire
