// Package sim is a deterministic simulation of the replicated committer; it has tests only. One seed gives one run,
// event for event: nodes with the real state machine and the real leader's work, a model of the replicated log,
// writers, foreign writers, a store that fails, and a clock. The checker shows I3 and I5.
//
// What the model of the log does: a proposal of the true leader is committed in order; when leadership moves, a
// prefix of what the old leader had under way is taken over and the rest is lost, and it is told neither; an old
// leader goes on for a while with what it had applied. What it leaves out is the raft library itself, which the
// crash tests run for real.
//
// A failing seed is run again with LEDGERLAKE_SEED (internal/seedtest); LEDGERLAKE_SEEDS says how many are run, and
// LEDGERLAKE_SIM_TRACE=1 prints every event.
package sim
