// Package deltalog is the Delta transaction protocol: it reads a table's log into immutable snapshots and adds
// commits to it so that every version has one content for ever (I5) and a commit that was answered with success
// is in the log exactly once, whatever the store said on the way.
//
// It reads commits, compactions and checkpoints of all kinds, gives older versions by number and time, writes
// classic and V2 checkpoints, raises features only on request (Snapshot.Alter), cleans the log up (Log.Cleanup)
// and finds what is damaged about one (Check). It does not read data files: that is package table.
//
// Memory: the files of a table are held in columns, about 60 bytes and their path and statistics each, and logs are
// replayed in pieces, so a commit of any size needs little more. With Config.NoFiles nothing depends on the number of files.
//
// Concurrency: a Log and its Snapshots may be used by many goroutines. Commits of one Log take turns, so that
// they do not fight each other; commits of other processes are met by put-if-absent and the conflict rules in
// conflict.go. Snapshots never change; a refresh reads what is new and shares memory with the snapshots before it.
//
// Errors: a table that needs features which are not supported is refused by the features' names
// (*UnsupportedError); broken logs give a *CorruptError that names the file and the line. Conflicts are the
// sentinels ErrMetadataChanged, ErrProtocolChanged, ErrConcurrentAppend, ErrConcurrentDeleteRead,
// ErrConcurrentDelete and *TxnConflictError. Bad input never panics (I8).
//
// Crashes: only the put-if-absent of N.json matters. Checkpoints are published whole, sidecars before the file
// that names them, read back, and only then named by _last_checkpoint; losing any of these steps costs time,
// never data. A cleanup goes from old to new and leaves a sound log wherever it stops.
package deltalog
