// Package fsm is the state machine of the replicated committer: it decides what each version of each table
// holds, from nothing but the commands of a replicated log, so that every replica decides the same.
//
// What it guarantees: a request is in exactly one version or in none, and a repeated request id gets the same
// answer (I3); of each partition the ranges follow each other without gap or overlap (I3); a writer whose epoch
// is older than that of the last commit of a partition is refused (I5); the content of a version that is decided
// but not published changes only when that version turns out to be taken by a foreign writer, and then it goes to
// another version (I5).
//
// A table has a base, which is the newest version known to be in the store, and a short queue of pending versions
// behind it, which are decided but not yet known to be there. Positions, shape and removed files are looked up in
// the queue first. When a foreign version takes the place of the first pending one, it is added to the base
// and the requests of the queue are decided once more on top of it.
//
// Nothing here does input or output, reads a clock or draws a random number; time and ids come in the commands.
// A State is not safe for concurrent use. Memory is bounded: answers are remembered for the last MaxIDs requests
// of a table, removed files for the last MaxRemoved; a request that needs more is refused, never guessed (I8).
// Commands and snapshots are decoded with every length checked.
package fsm
