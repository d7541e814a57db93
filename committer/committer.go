// Package committer puts new versions of a table in order.
//
// A Request adds data files and moves the positions of some partitions, in one Delta commit (I3). A Committer
// makes it only when every range continues exactly where the table stands: a gap or an overlap is refused, so
// that of two writers of one partition the slower one is told and nothing is in the table twice (I5). All
// methods may be called concurrently. After an error that wraps objstore.ErrUnknownOutcome the same request may
// be sent again: if the first one got in, the second is refused with a *FencedError that says so.
package committer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// Range is a span of offsets of one partition, [From, To), whose fate a commit decides.
type Range struct {
	Partition int32
	From, To  record.Offset
}

// Request is one change of a table.
type Request struct {
	App         string  // positions are kept under <App>-<partition>
	Ranges      []Range // one for each partition
	Adds        []deltalog.Add
	Incarnation string             // metaData.id that the files were written for; empty: not checked
	Schema      string             // metaData.schemaString that the files were written for; empty: not checked
	RowRules    []deltalog.RowRule // of the table, that every row was seen to keep; a table that has others refuses the request
	Epoch       int64              // of the writer; the direct committer has no use for it
	Parameters  map[string]string  // for the history of the table
	Properties  map[string]string  // table properties to set in the same version; those that stand so already cost nothing
	// Early asks a group of committers for the answer as soon as a majority of it has decided, before the version is in the
	// store. It will get there, whatever node fails; but a foreign writer that takes its place can still make it one that
	// is refused, the version given is the lowest that it can be, and a reader does not see it yet. A request that goes by way of
	// the store (above 1 MiB) cannot ask for it: ErrInvalidRequest. The direct committer has no such moment.
	Early bool
}

// Committer makes commits.
type Committer interface {
	Commit(ctx context.Context, req Request) (deltalog.Version, error)
}

var (
	// ErrIncarnation means that the table was dropped and made again.
	ErrIncarnation = errors.New("the table is not the one that the files were written for: it was made again")
	// ErrSchemaChanged means that the files were written for an older schema; write them again.
	ErrSchemaChanged = errors.New("the table's schema changed since the files were written")
	// ErrInvalidRequest means that the request makes no sense.
	ErrInvalidRequest = errors.New("invalid commit request")
)

// FilledByProperty is the table property that names the only application which may fill the table: a job that was
// swapped in, whose rows others do not make. Its splits are <name>/<number>.
const FilledByProperty = "ledgerlake.filled-by"

// FilledByError says that a table is filled by another application.
type FilledByError struct{ App, FilledBy string }

func (e *FilledByError) Error() string {
	return fmt.Sprintf("the table is filled by %s, not by %s: stop this one; or restore the version before the swap, and both positions with it", e.FilledBy, e.App)
}

// PositionsOf gives the name under which the positions of a table stand that readers know by app: that of the only
// application which may fill it, if it names one and that has come anywhere.
func PositionsOf(snap *deltalog.Snapshot, app string) string {
	filler := snap.Metadata().Configuration[FilledByProperty]
	if filler == "" || filler == app {
		return app
	}
	for id := range snap.Txns() {
		if number, ok := strings.CutPrefix(id, filler+"-"); ok && strings.Trim(number, "0123456789") == "" {
			return filler
		}
	}
	return app
}

// CheckFiller refuses everybody but the application that fills the table, if it names one.
func CheckFiller(meta *deltalog.Metadata, app string) error {
	filler := meta.Configuration[FilledByProperty]
	if filler == "" || app == filler || strings.HasPrefix(app, filler+"/") {
		return nil
	}
	return &FilledByError{App: app, FilledBy: filler}
}

// RangeError says that a range does not begin where the table stands.
type RangeError struct {
	Partition int32
	Want      record.Offset // where the table stands
	Got       record.Offset // where the range begins
}

func (e *RangeError) Error() string {
	what := "gap"
	if e.Got < e.Want {
		what = "overlap"
	}
	return fmt.Sprintf("partition %d: the table stands at offset %d, the commit begins at %d (%s)", e.Partition, e.Want, e.Got, what)
}

// EpochError says that a newer owner of a partition has committed: this writer is not its owner any more. Take a
// new lease, and begin again where the table stands, if the partition is yours.
type EpochError struct {
	Partition int32
	Epoch     int64 // of the request
	Newest    int64 // of the partition
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("partition %d: a newer owner has committed (epoch %d, ours is %d)", e.Partition, e.Newest, e.Epoch)
}

// FencedError says that a range is in the table already as a whole: another writer was faster, or an earlier
// try of the same request got in.
type FencedError struct {
	Range     Range
	Committed record.Offset // where the table stands
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("partition %d: offsets [%d, %d) are in the table already, which stands at %d",
		e.Range.Partition, e.Range.From, e.Range.To, e.Committed)
}

func (r Request) validate() error {
	if r.App == "" {
		return fmt.Errorf("%w: no app", ErrInvalidRequest)
	}
	if len(r.Ranges) == 0 {
		return fmt.Errorf("%w: no ranges", ErrInvalidRequest)
	}
	seen := make(map[int32]bool, len(r.Ranges))
	for _, x := range r.Ranges {
		if x.From < 0 || x.To <= x.From || x.Partition < 0 {
			return fmt.Errorf("%w: partition %d, range [%d, %d)", ErrInvalidRequest, x.Partition, x.From, x.To)
		}
		if seen[x.Partition] {
			return fmt.Errorf("%w: partition %d is there twice", ErrInvalidRequest, x.Partition)
		}
		seen[x.Partition] = true
	}
	return nil
}
