// Package publish is what the leader of the replicated committer does for one table, as a machine without
// input and output: it merges requests into versions, has them decided by the replicated log, and puts what is
// decided into the store.
//
// What it guarantees: nothing is put before the log has decided it; every put is put-if-absent, and whatever the
// store says but success is followed by reading the version back (I5); a version of another writer goes into
// the log before anything is put behind it; what an earlier leader left decided and unpublished is published
// first; an answer that is final is only given when the version is seen in the store or the refusal is in the
// log (I3). Before a refusal that a foreign version could explain, the store is asked for newer versions.
//
// A Machine takes events and gives effects. The caller carries the effects out, in any order and as slowly as
// it likes, and comes back with the events; the simulation does the same with a seed. A Machine is not safe
// for concurrent use. It lives for one term of a leader: when that ends, it is thrown away.
package publish
