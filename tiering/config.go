package tiering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// GapPolicy says what to do when the log has dropped records that the table lacks.
type GapPolicy string

// The policies.
const (
	GapFail     GapPolicy = "fail"     // end with a *GapError
	GapEarliest GapPolicy = "earliest" // go on at the log's first offset; what is lost is counted and recorded
	GapLatest   GapPolicy = "latest"   // go on at the log's end; what is passed over is counted as lost too
)

// ParseGapPolicy reads a policy; an empty one is GapFail.
func ParseGapPolicy(s string) (GapPolicy, error) {
	switch p := GapPolicy(s); p {
	case "":
		return GapFail, nil
	case GapFail, GapEarliest, GapLatest:
		return p, nil
	}
	return "", fmt.Errorf("gap policy %q is not fail, earliest or latest", s)
}

// Config of a Tierer.
type Config struct {
	Source    broker.Source
	Topic     string
	App       string // positions are kept under <App>-<partition>; default: the topic
	Table     *table.Table
	Committer committer.Committer // default: committer.NewDirect of the table's log
	Change    Change              // of Table and of the dead letters; nil: by their own logs
	Format    string              // FormatJSON or FormatRaw; not looked at when NewDecoder is set

	// NewDecoder makes the decoders of values into the table's payload columns, one a partition, from several
	// goroutines; nil: by Format. See decode.Format.
	NewDecoder func(payload *arrow.Schema) (decode.Decoder, error)
	// Properties say in the table how it is filled, for those who read its log: they are set before the first record
	// is fetched. An empty one takes the place of what is there.
	Properties map[string]string
	// AsItIs fills a table that has no partition and offset columns: somebody else's, whose columns stay as they are.
	// Each record is in it once all the same (I3), since rows and positions are one commit. But its rows do not say
	// which record they were, so no stream is read from it, and a record without a value has nothing to leave there.
	AsItIs bool

	// DeadLetters takes what cannot be decoded; nil: its table is in DeadLetterStore, made when there is a first one.
	DeadLetters     *table.Table
	DeadLetterStore func(ctx context.Context) (objstore.Store, error) // called at most once unless it fails
	// SharedLetters says that other topics have their dead letters in that table too: a new one keeps them apart. It is
	// so anyway where Table has rows of several topics.
	SharedLetters bool

	// LetterTransform fills more columns of the dead letter table: from the record, and by expressions over the letter, a JSON
	// object with the columns of kafka-delta-ingest's (its timestamp in microseconds) and topic, field, reason.
	LetterTransform transform.Spec

	// Transform fills columns from the record and from expressions over the value; see package transform. The table
	// records it, so that readers of the log make the same rows. JMESPath goes with JSON values alone.
	Transform transform.Spec

	// Evolve adds columns to the table for fields that it lacks, of objects in it too, as records bring them, before
	// the first such record is a row; also those that Transform fills. Fields are those of plain JSON values, or those of the
	// schemas that values come with (decode.Declarer). Open refuses it for other decoders, whose new fields would go unnoticed.
	Evolve bool

	// Widen gives a column of the table a wider type, as Delta's type widening knows it, when a plain JSON value comes that
	// it has no room for, or a value whose schema declares a wider type: the table gets that feature with the first one, and readers
	// must know it. It is refused where Evolve is.
	Widen bool

	// Codec, RowGroupBytes and RowGroupRows are those of data files: see table.WriterOptions.
	Codec         table.Codec
	RowGroupBytes int64
	RowGroupRows  int64

	// Refuse says why a record is to be a dead letter, before it is decoded; nil refuses none. It may change the
	// record's headers, and is called by several goroutines at once.
	Refuse func(rec *record.Record) error

	Partitions []int32   // nil: all of the topic, also those added later
	Manual     bool      // only what Assign gives
	UntilEnd   bool      // read to the ends of the log as they are when Run begins, commit, return
	OnGap      GapPolicy // default GapFail
	// AcceptTopic goes on with a topic that is not the one which the table was filled from: its records are
	// taken to continue the old one's at the same offsets. Otherwise Run ends with a *table.TopicChangedError.
	AcceptTopic bool

	// A commit is made when one of these is reached. They are looked at after each batch, and batches that are
	// on their way still come in, so a commit may be somewhat larger.
	MaxRows  int           // default 1,000,000
	MaxBytes int64         // of data files, compressed; default 64 MiB
	MaxAge   time.Duration // since the first record that is not committed; default 10 s

	// MaxHeldBack is how many offsets of a partition may come without a row, as a filter leaves them out, until a commit notes the place
	// of the last one in the table. A log that learns offsets by reading (broker.Counter) keeps so many records at least. Default 1,048,576.
	MaxHeldBack record.Offset

	// MemoryBudget, default 64 MiB, is what the parts aim at, no bound of the process: a quarter for batches of the log, of which
	// one fetch asks for a thirty-second, an eighth for rows and one for columns that wait for their next use, a quarter for encoded
	// rows, twice that with partition columns, half of it where they have no order. What uploads, encoders and the largest record or fetch take comes on top.
	MemoryBudget int64
	Workers      int           // decoders; default one a core
	StopTimeout  time.Duration // for the last commit when Run's context ends; default 30 s
	RetryBase    time.Duration // first pause after a failure, doubling with jitter; default 100 ms
	RetryMax     time.Duration // default 15 s

	Trace      func(CommitTrace)     // hears of each commit when it is over, from one goroutine at a time; nil: nobody does
	Clock      func() time.Time      // of dead letters; default time.Now
	Logger     *slog.Logger          // default: discarded
	Registerer prometheus.Registerer // nil: no metrics
}

// Change makes a version of a table that does more than append rows: columns, properties, dead letters. It is what puts
// them in one order with the appends where these go through a group of committers.
type Change func(ctx context.Context, t *table.Table, c deltalog.Commit) (deltalog.Version, error)

// of makes a change, by the table's own log when nobody else is named.
func (f Change) of(ctx context.Context, t *table.Table, c deltalog.Commit) (deltalog.Version, error) {
	if f == nil {
		return t.Log.Commit(ctx, c)
	}
	return f(ctx, t, c)
}

// minBudget keeps a fetch of ordinary batches possible.
const minBudget = 1 << 20

// properties are those that say how the table is filled.
func (c Config) properties() map[string]string {
	out := map[string]string{transform.Property(c.App): c.Transform.String()}
	maps.Copy(out, c.Properties)
	return out
}

func (c Config) withDefaults() Config {
	if c.App == "" {
		c.App = c.Topic
	}
	if c.Committer == nil && c.Table != nil {
		c.Committer = committer.NewDirect(c.Table.Log)
	}
	if c.OnGap == "" {
		c.OnGap = GapFail
	}
	if c.MaxRows == 0 {
		c.MaxRows = 1_000_000
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 20
	}
	if c.MaxAge == 0 {
		c.MaxAge = 10 * time.Second
	}
	if c.MaxHeldBack == 0 {
		c.MaxHeldBack = 1 << 20
	}
	if c.MemoryBudget == 0 {
		c.MemoryBudget = 64 << 20
	}
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 30 * time.Second
	}
	if c.RetryBase == 0 {
		c.RetryBase = 100 * time.Millisecond
	}
	if c.RetryMax == 0 {
		c.RetryMax = max(15*time.Second, c.RetryBase)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Source == nil:
		return errors.New("a source is needed")
	case c.Topic == "":
		return errors.New("a topic is needed")
	case c.Table == nil:
		return errors.New("a table is needed")
	case c.NewDecoder == nil && c.Format != FormatJSON && c.Format != FormatRaw:
		return fmt.Errorf("format %q is not %s or %s", c.Format, FormatJSON, FormatRaw)
	case c.DeadLetters == nil && c.DeadLetterStore == nil:
		return errors.New("a dead letter table is needed, or a store for it")
	case c.Table.Spoilt() != nil:
		return c.Table.Spoilt()
	case !c.Table.Names.Ordered() && !c.AsItIs:
		return errors.New("the table has no partition and offset columns, so its rows could not be read as a stream; fill it as it is (--as-is), or name the columns that hold them")
	case c.Table.Names.Topic != "" && c.Table.Topic() != c.Topic:
		return fmt.Errorf("the table has rows of several topics and was opened for %q, not for %s", c.Table.Topic(), c.Topic)
	case c.Manual && c.UntilEnd:
		return errors.New("a bounded run reads all partitions: it does not go with assigned ones")
	case c.Manual && c.Partitions != nil:
		return errors.New("partitions are either given or assigned")
	case c.MaxRows < 1 || c.MaxBytes < 1 || c.MaxAge < 0 || c.Workers < 1:
		return fmt.Errorf("limits must be positive: rows %d, bytes %d, age %s, workers %d", c.MaxRows, c.MaxBytes, c.MaxAge, c.Workers)
	case c.MaxHeldBack < 1:
		return fmt.Errorf("at least one offset is held back, not %d", c.MaxHeldBack)
	case c.MemoryBudget < minBudget:
		return fmt.Errorf("memory budget %d is below %d", c.MemoryBudget, minBudget)
	case c.RowGroupBytes < 0 || c.RowGroupRows < 0:
		return fmt.Errorf("row groups of %d bytes and %d rows: they must be positive", c.RowGroupBytes, c.RowGroupRows)
	case c.RetryBase < 0 || c.RetryMax < c.RetryBase:
		return fmt.Errorf("retry pauses: want 0 <= %s <= %s", c.RetryBase, c.RetryMax)
	}
	if _, err := ParseGapPolicy(string(c.OnGap)); err != nil {
		return err
	}
	return errors.Join(c.Transform.Validate(), c.LetterTransform.Validate(), c.Codec.Validate(), c.validateEvolve())
}

// validateEvolve refuses Evolve and Widen where decoders do not tell of new fields, or values are not the JSON that is sampled.
func (c Config) validateEvolve() error {
	if !c.Evolve && !c.Widen || c.NewDecoder == nil {
		return nil
	}
	payload, err := c.Table.PayloadSchema()
	if err != nil {
		return err
	}
	d, err := c.NewDecoder(payload)
	if err != nil {
		return fmt.Errorf("make decoder: %w", err)
	}
	if _, plain := d.(*decode.JSON); plain {
		return nil
	}
	if _, declares := decode.AsDeclarer(d); declares {
		return nil
	}
	return errors.New("new fields and larger values are looked for in plain JSON, Avro and Protobuf alone: leave --evolve and --widen out, or widen the table by a reprocess job")
}
