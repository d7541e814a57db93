// Package pulsar is a broker.Source over an Apache Pulsar: messages come as records of Kafka batches, with dense
// offsets that are counted here, and with their Pulsar ids in the record.Origin that each carries.
//
// # Offsets
//
// A message's offset is its rank among the messages of its partition that consumers may see. An entry takes as many
// offsets as its metadata says it has messages, encrypted or not, and message i of a batch has the offset of its entry + i. Counting
// begins at the broker's running index of the first message where that is sound, else at 0. The index is never used
// for more: batches of transactions make it repeat.
//
// What has an offset already is in a table: an Index finds the last message there below an offset, and counting goes on
// from that one. So the same message has the same offset for every reader of the table, whatever the broker has
// dropped meanwhile (I2, I4).
//
// # Loss
//
// Pulsar goes on at the oldest message left when the one asked for is gone, and says nothing. So a stream always
// begins at a message that is known, included, and that one must come first. The broker drops whole ledgers: between
// messages of one ledger nothing can be missing, and at a change of ledger the last message of the old one is looked
// up again; if it is still there, nothing behind it was dropped. Where that fails, offsets are given up for what is
// lost, as many as the running index says, at least one, and asking for them is a *broker.OutOfRangeError (I4).
//
// # Hold
//
// Hold acknowledges, in a durable subscription, what lies before the last message that is in the table, never that
// message itself: it is the one to begin at (I6).
//
// # Concurrency and memory
//
// All methods may be called concurrently. A stream keeps near Config.Window bytes that the broker sent ahead, and the
// chunks of large messages, bounded by Config.MaxMessageBytes each.
package pulsar
