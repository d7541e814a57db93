package deltalog

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotTable is returned when there is no Delta log under the root.
	ErrNotTable = errors.New("not a Delta table: no commit and no checkpoint under _delta_log")
	// ErrTableExists is returned by Create when the root holds a table.
	ErrTableExists = errors.New("there is a Delta table already")
	// ErrVersionNotFound is returned by SnapshotAt for a version that the log cannot give (any more).
	ErrVersionNotFound = errors.New("version cannot be reconstructed from the log")
	// ErrTimestampTooEarly is returned by SnapshotAtTime for a time before the oldest version that the log can give.
	ErrTimestampTooEarly = errors.New("the table has no version that old")
	// ErrTimestampTooLate is returned by SnapshotAtTime for a time after the newest commit.
	ErrTimestampTooLate = errors.New("the time is after the newest version")
	// ErrMetadataChanged means that another writer changed the table's schema or settings: begin again from a new snapshot.
	ErrMetadataChanged = errors.New("the table's metadata was changed by another writer")
	// ErrProtocolChanged means that another writer changed the table's protocol: begin again from a new snapshot.
	ErrProtocolChanged = errors.New("the table's protocol was changed by another writer")
	// ErrConcurrentAppend means that another writer added files to what this commit has read.
	ErrConcurrentAppend = errors.New("another writer added files to what this commit read")
	// ErrConcurrentDeleteRead means that another writer removed a file that this commit has read.
	ErrConcurrentDeleteRead = errors.New("another writer removed a file that this commit read")
	// ErrConcurrentDelete means that another writer removed a file that this commit removes.
	ErrConcurrentDelete = errors.New("another writer removed a file that this commit removes")
	// ErrDomainConflict means that another writer set a metadata domain that this commit sets.
	ErrDomainConflict = errors.New("another writer set the same metadata domain")
	// ErrTooManyAttempts means that other writers won every time.
	ErrTooManyAttempts = errors.New("commit gave up: other writers won every attempt")
	// ErrInvalidCommit means that the commit breaks a rule of the protocol or of the table.
	ErrInvalidCommit = errors.New("invalid commit")
	// ErrClosed is returned by a closed Log.
	ErrClosed = errors.New("the Delta log is closed")
)

// ReplacedError says that another writer put other content in the place of a version that was read or committed here
// (I5): what the version held is lost. The next look at the table gives it, and the next commit unless that look was its own:
// a commit whose success it would have hidden leaves it to the one after. Then the table is read as it is now.
type ReplacedError struct {
	Version Version
	By      string // engineInfo of what is there now
}

func (e *ReplacedError) Error() string {
	by := e.By
	if by == "" {
		by = "a writer that does not say its name"
	}
	return fmt.Sprintf("version %d of the table was replaced by %s, and what it held is lost: a writer overwrites versions, or the store does not judge; give all writers of the table the same log store", e.Version, by)
}

// TxnConflictError says that another writer advanced applications that this commit advances too.
type TxnConflictError struct{ AppIDs []string }

func (e *TxnConflictError) Error() string {
	return "another writer advanced the same application: " + strings.Join(e.AppIDs, ", ")
}

// UnsupportedError says which features of a table this program does not have.
type UnsupportedError struct {
	Write    bool // reading may still be possible
	Features []string
}

func (e *UnsupportedError) Error() string {
	verb := "read"
	if e.Write {
		verb = "write"
	}
	return fmt.Sprintf("cannot %s the table: unsupported %s; upgrade this program or use another engine", verb, strings.Join(e.Features, ", "))
}

// CorruptError says where a log file is broken.
type CorruptError struct {
	File string
	Line int // 0 when the file has no lines
	Err  error
}

func (e *CorruptError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("broken log file %s, line %d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("broken log file %s: %v", e.File, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }
