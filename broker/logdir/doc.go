// Package logdir reads a topic from a copy of a Kafka broker's log directory, without a broker: the segment files
// are Kafka's own, and so are the files that say where a partition begins and how far it is committed.
//
// A Source is the topic as it was when the copy was made. It never changes and never waits. Every batch is checked when
// it is opened, so what is wrong with a copy is said before anything is done with it: damage is an error that names file
// and position, except a batch that is cut at the very end of a partition, as a copy of a running broker or a crash
// leaves it; what stands before it is the topic. Nothing at or above the high watermark that the broker noted is
// given unless Config.PastWatermark says so: the cluster may have taken it back later.
//
// Nothing is written. All methods may be called concurrently.
package logdir
