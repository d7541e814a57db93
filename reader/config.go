package reader

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Config says what to read. At least one of Table and Source is needed.
type Config struct {
	Table  *table.Table  // the lake; nil reads the log alone
	Source broker.Source // the live log; nil reads the table alone
	Topic  string        // the topic in Source
	// Names are the system columns of the rows when there is no Table; zero: the usual ones.
	Names table.Names
	App   string // whose txn actions hold the positions; default Topic

	From  Bound // default Earliest
	Until Bound // default Now, or none when Follow is set
	// Follow goes on waiting for new records after the end of the log. Without it, Until defaults to the
	// ends of the log when the cursor is opened.
	Follow bool

	Partitions []int32  // none: all
	Columns    []string // nil: all columns of the table
	// Where keeps only rows for which it is true, in the language of package where: "amount > 10 AND country = 'DE'".
	// Files and row groups whose statistics rule it out are not read. Offsets of the table without a row are then
	// told only where they are known to be lost: the others cannot be told from rows that are left out.
	Where  string
	Format string // how log values become columns: "json" (default with payload columns) or "raw"
	// NewDecoder makes the decoder of log values into the table's payload columns, the one that tiering fills
	// the table with; nil: by Format, and
	// where that is empty too by the format that the table records for App.
	NewDecoder func(payload *arrow.Schema) (decode.Decoder, error)

	// Resumable refuses with ErrNotReplayable, before anything is read, a table that a Token names no place in. A From of
	// offsets or of a token does so too.
	Resumable bool

	SkipMissing bool // go on behind offsets that are lost, after telling OnGap
	// OnGap hears of offsets without a row; may be nil. The gaps of a partition come in order; one inside a
	// batch is told before Next gives the batch.
	OnGap func(Gap)

	Rate      Rate          // at most so much a second; zero: as fast as it goes
	MaxRows   int64         // end after so many rows, with a token that goes on behind them; 0: no limit
	BatchRows int           // rows a batch at most; default 8192 from the log, 16384 from the table
	ReadAhead int           // data files read at the same time, ahead of the caller; default: one a core, at most 8
	MaxWait   time.Duration // longest wait of one fetch; default 500 ms

	// LeaseTime is how long the lease lasts that a read of the table holds and renews, so that no vacuum removes
	// what it still needs. Default 10 minutes; negative: none. LeaseAfter is how long a read is in the table before
	// it takes one, so that short reads write nothing. Default 1 s.
	LeaseTime, LeaseAfter time.Duration
	Logger                *slog.Logger // default: discarded

	countEnds   bool                    // an end of now has to be known before it is read
	byPartition bool                    // the partitions have to be known before they are read
	rowEnds     map[int32]record.Offset // of the rows of the snapshot, where a cursor before has found them
}

// Gap is a run of offsets [From, To) of one partition that have no row.
type Gap struct {
	Partition int32         `json:"partition"`
	From      record.Offset `json:"from"`
	To        record.Offset `json:"to"`
	Reason    string        `json:"reason"` // GapLake, GapLog, GapUndecodable, GapFiltered or GapLost
}

// Reasons of a Gap.
const (
	GapLake        = "no row in the table: a marker, aborted, compacted, left out by a filter, or a dead letter"
	GapLog         = "no record in the log"                       // marker, aborted or compacted
	GapUndecodable = "the value does not fit the schema"          // the lake side holds it as a dead letter
	GapFiltered    = "left out by the filter"                     // of the transform that fills the table
	GapLost        = "lost: neither the table nor the log has it" // retention was faster than tiering: at the seam, or earlier under a gap policy
)

// MissingError says that offsets asked for are in neither the table nor the log.
type MissingError struct {
	Topic     string
	Partition int32
	From, To  record.Offset
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("offsets [%d, %d) of %s-%d are in neither the table nor the log: retention removed them before they were tiered; "+
		"start at %d, or pass --skip-missing to go on with a report", e.From, e.To, e.Topic, e.Partition, e.To)
}

// WidenedError says that a column of the table has another type, as a rule a wider one, than it had when the read began.
// Records from the read's position on may have values that only the new type has room for: they are rows of the table,
// and the read would call them gaps (I4). A new read that begins at the token of this one has the new type.
type WidenedError struct {
	Column   string // with the structs that it is in, as in a.b
	From, To arrow.DataType
}

func (e *WidenedError) Error() string {
	return fmt.Sprintf("column %s of the table is %s by now, and was %s when this read began: go on with a new read from the token of this one",
		e.Column, e.To, e.From)
}

type boundKind int8

const (
	boundDefault boundKind = iota
	boundEarliest
	boundLatest
	boundNow
	boundOffsets
	boundTime
	boundVersion
)

// Bound is a place in the stream, for each partition.
type Bound struct {
	kind    boundKind
	offsets map[int32]record.Offset
	time    time.Time
	// watermark is that of the token of a read in the order of time, else the oldest time that there is.
	watermark int64
	version   deltalog.Version
}

// Earliest is the first record that the table or the log holds.
func Earliest() Bound { return Bound{kind: boundEarliest} }

// Latest is the end of the log at the moment of opening.
func Latest() Bound { return Bound{kind: boundLatest} }

// Now is the same place as Latest, named as an end.
func Now() Bound { return Bound{kind: boundNow} }

// AtTime is, in each partition, the first record whose timestamp is at or after t.
func AtTime(t time.Time) Bound { return Bound{kind: boundTime, time: t} }

// AtVersion is, in each partition, where a version of the table ends: as a start what came after it, as an end what it has.
func AtVersion(v deltalog.Version) Bound { return Bound{kind: boundVersion, version: v} }

// AtOffsets is the given offset of each named partition. As a start, the others begin at the earliest
// record; as an end, the others are not bounded by it but by Now.
func AtOffsets(o map[int32]record.Offset) Bound {
	return Bound{kind: boundOffsets, offsets: maps.Clone(o), watermark: math.MinInt64}
}

func (c Config) withDefaults() Config {
	if c.App == "" {
		c.App = c.Topic
	}
	if c.From.kind == boundDefault {
		c.From = Earliest()
	}
	if c.Until.kind == boundDefault && !c.Follow {
		c.Until = Now()
	}
	if c.MaxWait == 0 {
		c.MaxWait = 500 * time.Millisecond
	}
	if c.Rate.set() {
		c.BatchRows = c.Rate.batchRows(c.BatchRows)
	}
	if c.LeaseTime == 0 {
		c.LeaseTime = 10 * time.Minute
	}
	if c.LeaseAfter == 0 {
		c.LeaseAfter = time.Second
	}
	if c.Logger == nil {
		c.Logger = discard()
	}
	c.Partitions = slices.Clone(c.Partitions)
	slices.Sort(c.Partitions)
	return c
}

// decoders gives what makes decoders of log values, and what closes what these have open.
func (c Config) decoders(properties map[string]string) (newDecoder func(*arrow.Schema) (decode.Decoder, error), done func() error, err error) {
	done = func() error { return nil }
	newDecoder = c.NewDecoder
	if newDecoder == nil && c.Format == "" {
		f, err := format.Of(properties, c.App, format.Access{})
		if err != nil {
			return nil, nil, err
		}
		if f != nil {
			newDecoder, done = f.NewDecoder, f.Close
		}
	}
	if newDecoder == nil {
		newDecoder = func(payload *arrow.Schema) (decode.Decoder, error) { return decode.ForTable(payload) }
	}
	return newDecoder, done, nil
}

func (c Config) validate() error {
	var errs []error
	if c.Table == nil && c.Source == nil {
		errs = append(errs, errors.New("reader config: neither Table nor Source is set"))
	}
	if c.Source != nil && c.Topic == "" {
		errs = append(errs, errors.New("reader config: Source needs a Topic"))
	}
	if c.Format != "" && c.Format != "json" && c.Format != "raw" {
		errs = append(errs, fmt.Errorf("reader config: Format %q is not json or raw", c.Format))
	}
	if c.BatchRows < 0 || c.BatchRows > 1<<20 {
		errs = append(errs, fmt.Errorf("reader config: BatchRows %d is not in 0..%d", c.BatchRows, 1<<20))
	}
	if c.ReadAhead < 0 {
		errs = append(errs, fmt.Errorf("reader config: ReadAhead %d is negative", c.ReadAhead))
	}
	errs = append(errs, c.Rate.validate())
	if c.LeaseTime > table.MaxLease || c.LeaseAfter < 0 {
		errs = append(errs, fmt.Errorf("reader config: LeaseTime %s is above %s, or LeaseAfter %s is negative", c.LeaseTime, table.MaxLease, c.LeaseAfter))
	}
	if c.MaxRows < 0 {
		errs = append(errs, fmt.Errorf("reader config: MaxRows %d is negative", c.MaxRows))
	}
	if c.Follow && c.Source == nil {
		errs = append(errs, errors.New("reader config: a table alone has no tail to follow: name the log too (Source; DIR/TOPIC of a served directory, or kafka://host:port/topic with --table)"))
	}
	return errors.Join(errs...)
}
