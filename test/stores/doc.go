// Package stores tests many writers of one table at once, on each log store: ours in processes of their own,
// with answers of the store lost on purpose, and delta-rs or Spark beside them.
//
// What every writer was told is compared with what the log and other engines show: each acknowledged row is
// there once (I1, I5), none twice, and one whose outcome was never told at most once.
package stores
