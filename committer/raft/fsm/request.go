package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// Limits of what a table remembers and of what a request may hold.
const (
	MaxIDs       = 8192     // request ids with their answers, a table
	MaxRemoved   = 8192     // removed files that conflicts are checked with, a table
	MaxTables    = 10_000   // tables of one group
	MaxIDLen     = 128      // bytes of a request id
	MaxRequest   = 4 << 20  // bytes of one request in the log
	MaxStaged    = 64 << 20 // bytes of the actions of one request that lie in the store
	MaxBatch     = 8 << 20  // bytes of the requests of one version
	MaxBatchSize = 512      // requests of one version
	maxText      = 512      // bytes of the text of an answer
)

// Range is a span of offsets of one partition, [From, To), and the right to commit it.
type Range struct {
	Partition int32
	From, To  int64
	Epoch     int64 // of the writer's lease of the partition; 0: none
}

// Shape is what a table's metadata and protocol are, as fingerprints.
type Shape struct {
	Incarnation string // metaData.id
	Schema      string // SchemaHash of metaData.schemaString
	Meta        string // deltalog.Fingerprint of the metadata
	Proto       string // deltalog.Fingerprint of the protocol
	Stamped     bool   // in-commit timestamps are on
}

// SchemaHash gives the short form of a schema string that requests carry; empty stays empty (not checked).
func SchemaHash(schema string) string {
	if schema == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(schema))
	return hex.EncodeToString(sum[:16])
}

// Request is one change of a table as the log carries it.
type Request struct {
	ID          string // the same for each try
	App         string
	Ranges      []Range
	Incarnation string // that the writer believes in; empty: not checked
	Schema      string // SchemaHash that the files were written for; empty: not checked
	Meta, Proto string // fingerprints that Lines were checked against
	Lines       []byte // the actions, one a line, without commitInfo and txn
	Staged      Staged // where the actions are instead, when they are too many for the log
	Operation   string // empty: an append of a stream
	Parameters  map[string]string
	Metrics     map[string]string
	Early       bool  // its writer may have been told before it is published: then it must get an answer that stands
	Planned     bool  // it stands on what the table held at Read: what changed since can be a conflict
	Read        int64 // version on which it was planned
	Removes     []Sum // of canonical paths
	// Moves are positions that a planned request sets, app id -> next offset, wherever they stand: they must be what they
	// were at Read.
	Moves  map[string]int64
	All    Extent // what it depends on besides
	Change *Shape // the shape after this request, when it changes metadata or protocol
	Reject string // why the leader found it invalid: it is refused unless its id is known
	Unread bool   // the leader saw that it is refused, and did not read its body: never taken, a Recheck at best
	loose  bool   // of an entry older than format 3, which admitted a plan above all that is decided
}

// Sum stands for the path of a file: 45,000 of them fit into an entry of the log. Two paths with one sum can make a
// conflict that is none, and the change is planned again; never the other way round.
type Sum uint64

// SumOf gives the sum of a canonical path.
func SumOf(path string) Sum {
	sum := sha256.Sum256([]byte(path))
	return Sum(binary.BigEndian.Uint64(sum[:]))
}

// Extent says how much of the table at Read a planned request depends on, besides the files that it removes.
type Extent uint8

// The extents.
const (
	Files      Extent = iota // nothing else
	AllFiles                 // every file: what came since may only have added others, blindly
	AllCommits               // everything: nothing may have come since
)

// Staged names an object of the table's store by its key and its hash, so that the content of a version stays a
// function of the log (I5). The zero value names none.
type Staged struct {
	Key  string
	Hash string // HashOf its bytes
	Size int64  // bytes
}

// StagedFolder holds the objects that requests refer to. Those of writers belong to nobody once they are a day old; those whose
// names end in ActionsSuffix are the group's, which deletes them when the version is published.
const (
	StagedFolder  = "_ledgerlake/staged/"
	ActionsSuffix = ".actions"
)

// blind says whether the request only adds files, and read nothing to do so.
func (r *Request) blind() bool { return len(r.Removes) == 0 && r.Change == nil && !r.Planned }

// Plain says whether the request does nothing but add files and move positions, with its actions in the log.
func (r *Request) Plain() bool {
	return r.blind() && r.Operation == "" && r.Staged.Key == ""
}

// Code is the kind of an answer.
type Code uint8

// The kinds. Those from Stale on are refusals.
const (
	Unknown     Code = iota // the request is not known: never decided, or too long ago
	Pending                 // decided, not known to be published
	Published               // in the table for ever
	Recheck                 // checked against an older shape: check it again and send it again; not remembered
	Stale                   // a newer owner of a partition has committed
	Incarnation             // the table was made again
	Schema                  // the files were written for another schema
	Misplaced               // a range leaves a gap or overlaps
	Fenced                  // all of a range is in the table already
	Conflict                // another version removed what this one removes, or its read version is too old to tell
	Invalid                 // the request makes no sense
	Lost                    // decided, but the table was replaced before it was known to be published
	Reshaped                // metadata or protocol changed since the request was planned
	codes
)

// Final says whether the answer stands for ever.
func (c Code) Final() bool { return c == Published || c >= Stale }

var codeNames = [...]string{"unknown", "pending", "published", "recheck", "stale epoch", "incarnation", "schema", "misplaced", "fenced",
	"conflict", "invalid", "lost", "reshaped"}

// String names the kind.
func (c Code) String() string {
	if c >= codes {
		return "?"
	}
	return codeNames[c]
}

// Answer is what became of a request.
type Answer struct {
	Code      Code
	Version   int64 // Pending (may still grow) and Published
	Partition int32 // Stale, Misplaced, Fenced
	At        int64 // Misplaced, Fenced: where the table stands; Stale: the newest epoch
	Text      string
}

func invalid(format string, args ...any) Answer {
	return Answer{Code: Invalid, Text: clip(fmt.Sprintf(format, args...))}
}

func clip(s string) string { return s[:min(len(s), maxText)] }

// wellFormed gives an Invalid answer when the request makes no sense by itself.
func (r *Request) wellFormed() (Answer, bool) {
	switch {
	case r.Reject != "":
		return invalid("%s", r.Reject), false
	case r.ID == "" || len(r.ID) > MaxIDLen:
		return invalid("the request id has %d bytes, want 1 to %d", len(r.ID), MaxIDLen), false
	case len(r.Ranges) == 0 && !r.Planned:
		return invalid("no ranges"), false
	case (len(r.Removes) > 0 || len(r.Moves) > 0 || r.All != Files) && !r.Planned:
		return invalid("it removes files, sets positions or depends on the whole table, and names no version that it was planned on"), false
	case len(r.Moves) > 0 && len(r.Ranges) > 0:
		return invalid("it has ranges and sets positions as well"), false
	case r.Staged.Key != "" && (len(r.Lines) > 0 || !strings.HasPrefix(r.Staged.Key, StagedFolder) || r.Staged.Size <= 0 || r.Staged.Size > MaxStaged):
		return invalid("staged actions %q of %d bytes", r.Staged.Key, r.Staged.Size), false
	case len(r.Ranges) > 0 && r.App == "":
		return invalid("ranges without app"), false
	}
	seen := make(map[int32]bool, len(r.Ranges))
	for _, x := range r.Ranges {
		if x.Partition < 0 || x.From < 0 || x.To <= x.From {
			return invalid("partition %d, range [%d, %d)", x.Partition, x.From, x.To), false
		}
		if seen[x.Partition] {
			return invalid("partition %d is there twice", x.Partition), false
		}
		seen[x.Partition] = true
	}
	for id, at := range r.Moves {
		if id == "" || at < 0 {
			return invalid("it sets the position of %q to %d", clip(id), at), false
		}
	}
	return Answer{}, true
}

// AppID is the name under which a partition's position stands in the table.
func AppID(app string, partition int32) string { return fmt.Sprintf("%s-%d", app, partition) }
