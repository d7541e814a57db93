package tiering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// ReplayConfig of ReplayLetters.
type ReplayConfig struct {
	Table   *table.Table // that the records belong to
	Letters *table.Table // its dead letters
	Topic   string
	App     string // of the positions in both; default Topic
	// NewDecoder as in Config; nil: JSON into the table's columns, as they are now.
	NewDecoder func(payload *arrow.Schema) (decode.Decoder, error)
	// Change may give a record another value to fill the columns from, or say that it is to be dropped for good. An
	// error leaves the letter where it is. The system columns keep the record as it was. Nil changes nothing.
	Change   func(ctx context.Context, partition int32, rec *record.Record) (drop bool, err error)
	CommitTo Change // of both tables; nil: by their own logs
	DryRun   bool
	Clock    func() time.Time // default time.Now
	Logger   *slog.Logger     // default: discarded
}

// ReplayReport says what became of dead letters.
type ReplayReport struct {
	DryRun   bool           `json:"dryRun,omitempty"`
	Letters  int64          `json:"letters"`  // of the topic
	Replayed int64          `json:"replayed"` // rows of the table now
	Dropped  int64          `json:"dropped"`  // as Change said, or the filter by which the table is filled
	Already  int64          `json:"already"`  // were rows before: what an earlier replay left undone
	Refused  int64          `json:"refused"`  // stay letters
	Pending  int64          `json:"pending"`  // of offsets that the table has not decided yet
	Reasons  map[string]int `json:"reasons,omitempty"`
}

// String gives the report as a person reads it.
func (r ReplayReport) String() string {
	verb := "are rows now"
	if r.DryRun {
		verb = "would become rows"
	}
	s := fmt.Sprintf("%d dead letters: %d %s, %d were rows already, %d are dropped, %d stay, %d are of offsets not decided yet",
		r.Letters, r.Replayed, verb, r.Already, r.Dropped, r.Refused, r.Pending)
	for reason, n := range r.Reasons {
		s += fmt.Sprintf("\n  %d stay: %s", n, reason)
	}
	return s
}

// replayRows bounds the rows of one commit.
const replayRows = 20_000

// ReplayLetters makes rows of dead letters that fit now: the table has got wider columns, or Change mends them. Rows
// are committed first, then their letters are taken out; a crash in between leaves both, and the next replay finds the
// rows and takes the letters out only, so that each offset is in the table once (I3) and nothing vanishes (I7). Two
// replays at once do not add a row twice: one of two commits is refused, and made again.
//
// Rows are made as tiering makes them: with the transforms and the filter that the table's properties hold for App, a
// file for each combination of partition values, and with its NOT NULL columns kept. A table whose transforms look at
// something of the batch that letters do not keep is refused before anything is written.
//
// A reader that has passed the offsets does not see the rows; whoever reads from before them does, in their place.
func ReplayLetters(ctx context.Context, cfg ReplayConfig) (ReplayReport, error) {
	if cfg.App == "" {
		cfg.App = cfg.Topic
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.NewDecoder == nil {
		cfg.NewDecoder = func(payload *arrow.Schema) (decode.Decoder, error) { return decode.ForTable(payload) }
	}
	r := &replay{cfg: cfg, report: ReplayReport{DryRun: cfg.DryRun, Reasons: map[string]int{}}}
	if err := r.run(ctx); err != nil {
		return r.report, fmt.Errorf("replay dead letters of %s: %w", cfg.Topic, err)
	}
	return r.report, nil
}

type replay struct {
	cfg    ReplayConfig
	report ReplayReport
}

// letter is a dead letter as its table has it.
type letter struct {
	place
	rec     record.Record
	corrupt bool // its value is a damaged batch, filed at an offset that may have a row too
}

// errCorruptLetter is why a damaged batch stays a letter.
var errCorruptLetter = errors.New("a damaged batch is no record: its bytes stay here until they are dropped")

func (r *replay) run(ctx context.Context) error {
	snap, err := r.cfg.Letters.Refresh(ctx)
	if err != nil {
		return err
	}
	files, err := r.cfg.Letters.FilesFor(snap, nil)
	if err != nil {
		return err
	}
	var chunk []letter
	for _, f := range files { // one by one: letters of several topics may have the same coordinates
		for rb, err := range r.cfg.Letters.Scan(ctx, snap, table.ScanOptions{Files: []*deltalog.Add{f.Add}}) {
			if err != nil {
				return err
			}
			chunk, err = r.collect(chunk, rb)
			rb.Release()
			if err == nil && len(chunk) >= replayRows {
				err = r.settle(ctx, chunk)
				chunk = nil
			}
			if err != nil {
				return err
			}
		}
	}
	return r.settle(ctx, chunk)
}

// collect takes the letters of the topic out of a batch, with bytes of their own.
func (r *replay) collect(to []letter, rb arrow.RecordBatch) ([]letter, error) {
	n := r.cfg.Letters.Names
	column := func(name string) arrow.Array {
		if i := rb.Schema().FieldIndices(name); len(i) == 1 {
			return rb.Column(i[0])
		}
		return nil
	}
	topics, ok1 := column("_topic").(*array.String)
	times, ok2 := column(n.Timestamp).(*array.Timestamp)
	keys, ok3 := column(n.Key).(*array.Binary)
	values, ok4 := column(n.Value).(*array.Binary)
	headers, ok5 := column(n.Headers).(*array.List)
	reasons, told := column("_reason").(*array.String)
	at, err := places(rb, n)
	if err != nil || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return nil, errors.Join(errors.New("the dead letter table lacks the columns of whole records: its letters cannot be replayed"), err)
	}
	bytesAt := func(a *array.Binary, i int) []byte {
		if a.IsNull(i) {
			return nil
		}
		return append([]byte{}, a.Value(i)...)
	}
	for i, p := range at {
		if column(n.Offset).IsNull(i) || topics.Value(i) != r.cfg.Topic {
			continue
		}
		l := letter{place: p, rec: record.Record{Offset: p.offset, Timestamp: -1, Key: bytesAt(keys, i), Value: bytesAt(values, i)}}
		l.corrupt = told && reasons.IsValid(i) && strings.HasPrefix(reasons.Value(i), corruptBatch+",")
		if times.IsValid(i) {
			unit := times.DataType().(*arrow.TimestampType).Unit
			l.rec.Timestamp = times.Value(i).ToTime(unit).UnixMilli()
		}
		if kv, ok := headers.ListValues().(*array.Struct); ok && headers.IsValid(i) {
			from, to := headers.ValueOffsets(i)
			for k := int(from); k < int(to); k++ {
				l.rec.Headers = append(l.rec.Headers, record.Header{
					Key: []byte(kv.Field(0).(*array.String).Value(k)), Value: bytesAt(kv.Field(1).(*array.Binary), k)})
			}
		}
		to = append(to, l)
	}
	return to, nil
}

// settle decides some letters: at most a few tries, since another writer may be faster.
func (r *replay) settle(ctx context.Context, chunk []letter) error {
	if len(chunk) == 0 {
		return nil
	}
	slices.SortFunc(chunk, func(a, b letter) int { return comparePlaces(a.place, b.place) })
	before := r.report
	for try := 1; ; try++ {
		r.report = before
		r.report.Reasons = map[string]int{}
		for k, v := range before.Reasons {
			r.report.Reasons[k] = v
		}
		err := r.trySettle(ctx, chunk)
		if err != nil {
			r.report = before // nothing of what was counted is done
		}
		if err == nil || ctx.Err() != nil || try == 10 || !conflicts(err) {
			return err
		}
		r.cfg.Logger.Info("another writer was faster, will be tried again", "topic", r.cfg.Topic, "try", try, "error", err)
	}
}

// conflicts says whether a commit lost against another writer's.
func conflicts(err error) bool {
	return moved(err) || errors.Is(err, deltalog.ErrConcurrentAppend) || errors.Is(err, deltalog.ErrConcurrentDeleteRead) || errors.Is(err, deltalog.ErrMetadataChanged)
}

func (r *replay) trySettle(ctx context.Context, chunk []letter) error {
	snap, err := r.cfg.Table.Refresh(ctx)
	if err != nil {
		return err
	}
	at := make([]place, len(chunk))
	for i, l := range chunk {
		at[i] = l.place
	}
	rows, err := rowsAt(ctx, r.cfg.Table, snap, at)
	if err != nil {
		return err
	}
	adds, gone, err := r.rows(ctx, snap, chunk, rows)
	if err != nil || r.cfg.DryRun {
		return err
	}
	if len(adds) > 0 {
		const app = "ledgerlake.replayed:"
		last, _ := snap.Txn(app + r.cfg.App)
		// ReadAll: a swap, or another replay, that came in between may have brought the same offsets (I3).
		// COMMIT POINT of the rows.
		if _, err := r.cfg.CommitTo.of(ctx, r.cfg.Table, deltalog.Commit{
			ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "WRITE", ReadAll: true,
			Parameters: map[string]string{"mode": "Append", "replay": "dead letters"}, Adds: adds, RowRules: snap.RowRules(),
			Txns: []deltalog.Txn{{AppID: app + r.cfg.App, Version: last + 1}},
		}); err != nil {
			return fmt.Errorf("commit rows: %w", err)
		}
	}
	t := &Tierer{cfg: Config{App: r.cfg.App, Topic: r.cfg.Topic, Change: r.cfg.CommitTo, Clock: r.cfg.Clock, Logger: r.cfg.Logger}}
	return t.takeOut(ctx, r.cfg.Letters, gone)
}

// rows writes the letters that fit now into data files, none when no letter does, and gives the places whose letters
// are to go.
func (r *replay) rows(ctx context.Context, snap *deltalog.Snapshot, chunk []letter, there []place) ([]deltalog.Add, []place, error) {
	s, err := r.plan(ctx, snap)
	if err != nil {
		return nil, nil, err
	}
	to, err := s.newRows(0)
	if err != nil {
		return nil, nil, err
	}
	var gone []place
	for i := range chunk {
		l := &chunk[i]
		r.report.Letters++
		if end, ok := table.LakeEnd(snap, r.cfg.App, l.partition); !ok || l.offset >= end {
			r.report.Pending++
			continue
		}
		if _, is := slices.BinarySearchFunc(there, l.place, comparePlaces); is && !l.corrupt {
			r.report.Already++
			gone = append(gone, l.place)
			continue
		}
		rec, drop := l.rec, false
		if r.cfg.Change != nil {
			drop, err = r.cfg.Change(ctx, l.partition, &rec)
		}
		switch {
		case err != nil || drop:
		case l.corrupt:
			err = errCorruptLetter
		default:
			err = s.replayed(to, l, &rec)
		}
		var fatal *transform.FatalError
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case errors.As(err, &fatal):
			return nil, nil, err
		case errors.Is(err, decode.ErrFiltered):
			err, drop = nil, true
		case err != nil:
			r.refuse(err)
			err = nil
			continue
		}
		if drop {
			r.report.Dropped++
		} else {
			r.report.Replayed++
		}
		gone = append(gone, l.place)
	}
	if to.sys.Rows() == 0 || r.cfg.DryRun {
		return nil, gone, nil
	}
	adds, err := s.replayFiles(ctx, to)
	return adds, gone, err
}

// plan is a session that makes rows as tiering makes them: the same columns, transforms, partition columns and rules. It
// fetches and commits nothing.
func (r *replay) plan(ctx context.Context, snap *deltalog.Snapshot) (*session, error) {
	if err := r.cfg.Table.Spoilt(); err != nil {
		return nil, err
	}
	if r.cfg.Table.Names.Topic != "" && r.cfg.Table.Topic() != r.cfg.Topic {
		return nil, table.ErrSeveralTopics
	}
	if !r.cfg.Table.Ordered() {
		return nil, errors.New("the table has no partition and offset columns, so its rows do not say which letters are in it: its letters cannot be replayed")
	}
	spec, err := transform.Of(snap.Metadata().Configuration, r.cfg.App)
	if err != nil {
		return nil, err
	}
	if name := spec.OfBatch(); name != "" {
		return nil, fmt.Errorf("the table is filled by transforms or a filter that look at %s, which dead letters do not keep: its letters cannot be replayed", name)
	}
	s := &session{ctx: ctx, snap: snap, t: &Tierer{cfg: Config{Table: r.cfg.Table, Topic: r.cfg.Topic, App: r.cfg.App, Format: FormatJSON,
		NewDecoder: r.cfg.NewDecoder, Transform: spec, Clock: r.cfg.Clock, Logger: r.cfg.Logger}}}
	return s, s.planColumns()
}

// replayed adds a letter as a row, filled from rec, or says why it cannot be one.
func (s *session) replayed(to *rows, l *letter, rec *record.Record) error {
	if to.whole != nil {
		to.whole.Begin(l.partition, record.BatchHeader{LeaderEpoch: -1})
	}
	if err := to.decode(rec); err != nil {
		return err
	}
	at := to.sys.Rows()
	to.sys.Append(l.partition, &l.rec) // as it is in the log: a consumer of the history gets the same record (I4)
	if s.rules.Empty() {
		return nil
	}
	bad := s.broken(to, at, at+1)
	if why, broken := bad[at]; broken {
		to.sys.Truncate(at)
		to.dec.(decode.Truncater).Truncate(at)
		return errors.New(why)
	}
	return nil
}

// replayFiles writes rows into data files, one for each combination of partition values.
func (s *session) replayFiles(ctx context.Context, from *rows) ([]deltalog.Add, error) {
	groups, err := s.split(from)
	if err != nil {
		return nil, err
	}
	rb := s.batch(from)
	defer rb.Release()
	var adds []deltalog.Add
	for i := range groups {
		f, err := s.newFile(ctx, groups[i].values)
		if err != nil {
			return nil, err
		}
		if err := groups[i].write(ctx, f, rb); err != nil {
			return nil, errors.Join(err, f.Abort())
		}
		add, err := f.Close(ctx)
		if err != nil {
			return nil, err
		}
		adds = append(adds, add)
	}
	return adds, nil
}

func (r *replay) refuse(err error) {
	r.report.Refused++
	reason := err.Error()
	var bad *decode.Error
	if errors.As(err, &bad) && bad.Path != "" {
		reason = bad.Path + ": " + bad.Reason
	} else if bad != nil {
		reason = bad.Reason
	}
	if _, ok := r.report.Reasons[reason]; ok || len(r.report.Reasons) < 20 {
		r.report.Reasons[reason]++
	}
}
