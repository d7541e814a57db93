// Package share decides which member of a share group (KIP-932) has which record of one partition: every record is given
// until a member accepts or rejects it, or it was given as often as it may be, and to one member at a time.
//
// It is pure: no clock, no I/O, no lock. A Partition is changed by one caller at a time, who makes it durable (its JSON)
// before anybody is told of the change; Clone is there to try a change and drop it.
package share
