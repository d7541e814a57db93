// Package maintenance keeps a table fast and small: Optimize makes large files of small ones, Vacuum deletes files
// that no version of the retention time needs, CleanLog drops old parts of the transaction log, and Restore goes
// back to an older version. None of them changes what readers see of the newest version, but for Restore, which
// is asked to; the rows, their offsets and the recorded positions stay (I3).
//
// Concurrency: all functions may run beside writers and readers, in this process and in others. Optimize and
// Restore are commits that are refused when another writer removed the same files. Vacuum never deletes what is
// in the newest version, in a version younger than the retention time, or in a version that a Lease names (I6).
//
// Errors: files that are missing are named; a table whose protocol asks for something that is not known here is
// refused by the feature's name. Each function gives a report of what it did up to the error.
//
// Crashes: stopped at any point they leave a sound table: new files that no commit names are garbage for Vacuum,
// files that were not deleted yet are found by the next run, and the log is cleaned oldest first.
package maintenance
