// Package local is the embedded log: a broker.Log on one machine's disk whose acknowledged records survive
// power loss (I1) under offsets that are given once (I2).
//
// Layout of the directory: lock; topics.json (topics and their settings); producers.json (the next block of
// producer ids); checkpoint; journal/<sequence, 20 digits>.wal; data/<topic>-<partition>/ with Kafka's own
// segment files.
//
// Durability is a journal that all partitions share. Append gives a batch its offset under the partition's
// lock and queues it; one committer writes what has gathered into the journal and syncs it once. Meanwhile small groups are
// staged in their segments, through the page cache and behind the end that anybody knows of; large ones are written there
// after it, by an applier, beside the next sync. Then the high watermarks move, fetches wake, and appends
// are acknowledged. Segments are synced only by a checkpoint, which also writes down their lengths
// and drops the journal files before it; some of them become later ones, so that blocks of the disk are
// written over. Recovery cuts every segment at its checkpointed length, since what lies behind that proves
// nothing, and replays the journal. With DurabilityNone batches go straight into the segments, as with Kafka's
// defaults, and recovery keeps the undamaged batches that it finds; marks such as log starts and holds go
// through the journal all the same.
//
// Transactions: the log follows each producer's open transaction in each partition, from its first batch to its
// marker (AppendMarker, Producers; the contract is broker.Transactor). Bounds.Stable stays at the first offset of
// the oldest open one as far as it is durable, ReadCommitted fetches end there and name the aborted ones, and
// retention keeps what is not decided. A checkpoint holds the open transactions, and Kafka's .txnindex files hold
// the aborted ones, which are also in memory, 32 bytes each; the journal has what came later. Which partitions
// belong to a transaction is for the coordinator to say; an epoch that has ended cannot begin one again.
//
// Compacted topics keep the newest record of each key at its offset (Compact; see there for the steps and what a
// crash leaves). What is not sealed, not decided, or not in the lake yet where the topic goes there, is not
// compacted (I6).
//
// All methods are safe for concurrent use. Fetch waits without polling. Append ignores its context once the
// batch is queued: the batch belongs to the log until Append returns.
//
// A failed write or sync of the journal, or of a segment for what the journal has, fails the log for good (what a failed staging
// leaves is cut off, and it is written again when it is applied): all pending and later
// changes get broker.ErrStorage, what was acknowledged before can still be read, and nothing is written any
// more. What the disk then holds of the failed group is unknown, so the log does not try to go on; Open
// recovers it. A checkpoint that fails for other reasons, such as a full disk, is tried again later.
//
// So that a disk which fills is not such a failure, appends leave a reserve of it free (Config.DiskReserve): below that they
// get broker.ErrStorage, before they have an offset, until there is a quarter of the reserve more than it. Reads, marks,
// checkpoints and retention go on; the Kafka port's own topics and compaction of others' while half of the reserve is there (the state of
// transactions while three eighths are), and the markers of transactions and compaction of those own topics, which give room back, while a quarter is. A
// compaction without room begins again when there is more, or ever less often. When it begins, a checkpoint drops the journal files before it, the spare ones
// too. The disk is asked for each 16 MiB, after what makes room, and once a second. Who fills the reserve faster than that
// by other means, or has a quota of its own that the file system does not tell (a user's), is not seen; nor is anything on
// systems other than Linux. A write that meets a full disk, or a quota that is used up, all the same is tried once more when the journal files that wait
// to be used again are given back.
//
// DeleteRecords is an order of a client and is followed even beyond a hold; retention never is (I6).
package local
