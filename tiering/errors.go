package tiering

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// GapError says that the log has dropped records that the table lacks.
type GapError struct {
	TP       record.TopicPartition
	LakeEnd  record.Offset // the first offset that the table lacks
	LogStart record.Offset // the first that the log still has
}

func (e *GapError) Error() string {
	return fmt.Sprintf("%s: the table ends at offset %d and the log begins at %d: %d offsets were dropped by retention before they were tiered; "+
		"restore them in the log, or go on without them with --on-gap earliest or latest", e.TP, e.LakeEnd, e.LogStart, e.LogStart-e.LakeEnd)
}

// AheadError says that the table stands beyond the end of the log.
type AheadError struct {
	TP      record.TopicPartition
	LakeEnd record.Offset
	LogEnd  record.Offset
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("%s: the table stands at offset %d and the log ends at %d: the topic was made again or lost data; "+
		"move the old table away or give the table of the new topic another path", e.TP, e.LakeEnd, e.LogEnd)
}

// ErrRunning is returned by a second Run.
var ErrRunning = errors.New("tiering: Run was called before")

// ErrStopTimeout means that the commit at the end of Run took longer than Config.StopTimeout. Nothing is lost:
// the next start tiers what is missing.
var ErrStopTimeout = errors.New("the last commit was not made within")

// errRestart ends a session whose buffers hold partitions that were taken away.
var errRestart = errors.New("partitions were lost")

// permanent says whether another session could not do better.
func permanent(err error) bool {
	var gap *GapError
	var ahead *AheadError
	var unsupported *deltalog.UnsupportedError
	var changed *table.TopicChangedError
	var filled *committer.FilledByError
	var other *table.OtherTopicError
	var fatal *transform.FatalError
	return errors.As(err, &fatal) || errors.Is(err, transform.ErrSpec) || errors.As(err, &filled) || errors.As(err, &other) ||
		errors.As(err, &gap) || errors.As(err, &ahead) || errors.As(err, &changed) || errors.As(err, &unsupported) ||
		errors.Is(err, broker.ErrGiveUp) || errors.Is(err, broker.ErrUnknownTopic) || errors.Is(err, broker.ErrClosed) ||
		errors.Is(err, committer.ErrIncarnation) || errors.Is(err, committer.ErrInvalidRequest) ||
		errors.Is(err, deltalog.ErrClosed) || errors.Is(err, deltalog.ErrNotTable) || errors.Is(err, deltalog.ErrInvalidCommit)
}

// refusedTries is after how many failures in a row, about half a minute, a bounded run takes it for final that a store refuses
// it: credentials that renew themselves are there by then.
const refusedTries = 9

// refusals counts failures in a row that are refusals of a store.
type refusals int

// refusedError marks a refusal that was met so often that it is final: whoever called need not try as often again.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// final says whether another try after a failure is of no use, and gives the failure, marked when it is a refusal too many. A
// bounded run does not wait for a person; one without an end does, as others work beside it meanwhile.
func (c Config) final(err error, in *refusals) (error, bool) {
	if !objstore.Refused(err) {
		*in = 0
		return err, permanent(err)
	}
	*in++
	var before *refusedError
	switch {
	case permanent(err) || errors.As(err, &before):
		return err, true
	case c.UntilEnd && *in >= refusedTries:
		return &refusedError{err}, true
	}
	return err, false
}

// stale says whether the files of a commit are of no use any more: the table moved on without us.
func stale(err error) bool {
	var r *committer.RangeError
	var f *committer.FencedError
	var e *committer.EpochError
	return errors.As(err, &r) || errors.As(err, &f) || errors.As(err, &e) || errors.Is(err, committer.ErrSchemaChanged)
}

// pause gives the time to wait before try n, from 1, with jitter.
func (c Config) pause(n int) time.Duration {
	d := c.RetryMax
	if shift := min(n-1, 20); c.RetryBase<<shift < d {
		d = c.RetryBase << shift
	}
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2)
}
