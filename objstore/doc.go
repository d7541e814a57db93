// Package objstore is the contract of the object stores that hold tables, with what every backend shares.
//
// A Store is a flat space of objects under one root. An object is published whole or not at all, and
// PutIfAbsent has one winner however many writers race: the order of a table's versions rests on it (I5).
// All methods may be called concurrently. Backends: mem (tests), dir (local files), s3; objstoretest is the
// suite that each of them passes, openstore picks one by URL.
package objstore
