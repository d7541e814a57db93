// Package reprocess runs a stream again, from any offset, through a transform and into a new table beside the live
// one, and then puts the new table in the place of the old one.
//
// A job reads history from a table and the tail from its log (the same stream as package reader), changes each
// record by a Transform, and tiers the result with package tiering. So what holds there holds here: rows and
// position are one commit (I3), bad records become dead letters (I7), a crash at any point neither loses nor
// repeats a row. A record becomes one row at most, at its own offset, which is what makes that provable.
//
// Work is cut into splits, spans of offsets of one partition, when the job begins; the plan is kept in the new table,
// so that any number of processes, on any machines, now or later, work on the same splits. A split's position is the
// txn <job>/<split>-<partition> of the new table. When all are done the job's own position, <job>-<partition>, is
// set to their end, and from there the job can follow the log.
//
// # Other sinks
//
// An Outlet takes the results in the place of a table: a topic (TopicOutlet, exactly once by transactions that hold the
// position too; its doc says what the logs hold at each step) or a program (CommandOutlet, at least once, by place). The
// job's own table then has no rows, but the plan and the positions; a partition is one split, so its records stay in order.
//
// # Life of a job
//
//	DryRun   says what a job would read and make
//	Run      fills the new table; again after a crash, or on more machines; a Control pauses it, and changes its rate
//	Verify   compares it with the old one, row by row
//	Swap     makes its files those of the old table, in one commit, for every reader of any make
//	         (undone by `ledgerlake restore` until the old files are vacuumed)
//	Retire   drops the shadow's own log
//
// Swap needs the new table inside of the old one's folder, below _shadow/, as the files of a Delta table are named
// relative to it. ShadowPath gives the place.
//
// A Job is for one goroutine; several Jobs of one name, also in other processes, may run at the same time.
package reprocess
