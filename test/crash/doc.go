// Package crash kills the real binary with SIGKILL, again and again, at random moments and under load, and
// then compares three accounts of what happened: what the producer was told, what a reader gets over
// table and log, and what the table holds.
//
// It shows I1 (acknowledged records are there), I2 (at the offsets that were acknowledged), I3 (each
// offset is in the table once) and I4 (a reader sees each once, in order, across the seam) on a real
// file system. SIGKILL leaves the page cache alone: that power loss is survived is shown by the tests of
// broker/local and segment on a file system that forgets what was not synced.
//
// The seed is printed; LEDGERLAKE_SEED repeats it, LEDGERLAKE_KILLS=100 makes a long run. The moment of a
// kill is not exact, so a seed gives the same load and delays, not the same instruction.
package crash
