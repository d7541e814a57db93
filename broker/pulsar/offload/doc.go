// Package offload reads the ledgers that a Pulsar has offloaded to an object store, without the Pulsar: a
// pulsar.Feed over the objects that its jclouds offloaders write (drivers aws-s3, S3, google-cloud-storage, azureblob,
// aliyun-oss).
//
// # Format
//
// All numbers are big-endian. Each ledger has a data object UUID-ledger-ID and an index object UUID-ledger-ID-index; the
// index is written last, so data without one is an upload that was cut off.
//
//	data   blocks, one behind the other
//	block  [0xFBDBABCB u32][header length i64 = 128][block length i64][first entry i64][zeros to 128]
//	       then entries [size i32][entry i64][bytes], none of which crosses the end of its block,
//	       then FE DC DE AD again and again up to the block's length
//	index  [0xDE47DE47 u32][index length i32][data length i64][header length i64][blocks i32][metadata length i32]
//	       then BookKeeper's LedgerMetadataFormat (protobuf), then for each block
//	       [first entry i64][part i32][offset in the data object i64]
//
// The bytes of an entry are those that the broker stored: package entry decodes them. The ledger's custom metadata
// names the topic. Learned from the public source of Pulsar's offloaders.
//
// testdata was written by a broker's plugin that ran the write path of Pulsar's public offloader source, copied by hand
// outside this repository; in a run over 38 ledgers its objects were byte-identical to those of
// test/services/PulsarOffloader.java, which is ours and is what CI runs.
//
// # What is given
//
// What a consumer would have got: a transaction's messages when its commit stands in one of the ledgers, none of an
// aborted one, and nothing from the first message on whose transaction has no end there (a broker does the same).
//
// # Gaps
//
// The object names do not tell which ledgers a topic had. A list of them (the admin API's internal-info or internalStats)
// does. Without one, the broker's running index tells, where there is one, whether a ledger is missing between two. What
// stands behind a gap is not given: the topic ends there, and Reports says so (I4).
//
// An index that is damaged, or of another format, may be anybody's where it does not say a topic: Strays names it. Without
// a list, and without a running index that shows that nothing is missing, the topic ends before it, as at a gap.
//
// # Concurrency and memory
//
// A Feed may be used by many goroutines. Of each ledger of the topic it keeps some 200 bytes, of others the names of up to
// 100 topics; while indexes are looked at, at most 16 MiB of them are held. Each reader has two windows of up to 4 MiB, one
// entry, and the blocks of one ledger: an index above 8 MiB is refused. Fates of transactions are looked up by another
// such reader, and kept from there to their end.
//
// # Faults of the store
//
// They are retried, but for a store that says that the object may not be read: that is an error with the remedy. So are
// credentials that ran out and are not renewed soon.
package offload
