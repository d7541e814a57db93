package table

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrUnsorted is returned for rows that do not come in ascending order of (partition, offset).
	ErrUnsorted = errors.New("rows are not sorted by partition and offset")
	// ErrNoPosition is returned for rows of an ordered table that have no partition or no offset.
	ErrNoPosition = errors.New("row without partition or offset")
	// ErrNoRows is returned by Close of a FileWriter that got none: an empty file has no use.
	ErrNoRows = errors.New("the file has no rows")
	// ErrRowCount is returned for a data file whose row counts disagree with each other or with the log.
	ErrRowCount = errors.New("damaged data file")
	// ErrNoFiles is returned for a snapshot that does not know the table's files, where they are needed.
	ErrNoFiles = errors.New("the snapshot has no list of the table's files (Log.NoFiles): take that of Log.FullSnapshot")
	// ErrClosed is returned by a FileWriter after Close or Abort.
	ErrClosed = errors.New("the file writer is closed")
)

// SpoiltError says that system columns of a table of ours have other types by now: older builds let fields of the same
// name change them under --evolve and --widen.
type SpoiltError struct{ Columns []string }

func (e *SpoiltError) Error() string {
	return fmt.Sprintf("somebody, or an older build under --evolve or --widen, has changed columns of the table that say which record a row is (%s): "+
		"take it back to a version from before that with `ledgerlake restore TABLE --to-version N` (`ledgerlake inspect TABLE` lists the versions; what came since is read again from the log, "+
		"as far as that still has it), or fill a new table", strings.Join(e.Columns, "; "))
}

// DuplicateError says that two files hold the same record, or that one of two files which come in turn goes
// back. One of them is not part of the log that the table holds (I4).
type DuplicateError struct {
	Partition int32
	Offset    int64
	Files     [2]string
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("partition %d offset %d is in the table twice: in %s and in %s", e.Partition, e.Offset, e.Files[0], e.Files[1])
}

// recoverTo turns a panic of the Parquet library into an error (I8).
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Parquet library panicked: %v", p)
	}
}
