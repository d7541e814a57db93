package reprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// Config of a Job.
type Config struct {
	Spec  Spec
	Topic string         // in the log, and the name under which the source's table keeps its positions
	Table *table.Table   // with the history; nil: the log has everything
	Log   broker.Source  // with the tail; nil: the table alone
	Sink  objstore.Store // of the new table; with an Outlet, of the table that holds the job's plan and positions alone
	// Outlet takes the results in the place of a table; nil: they are rows of the new table.
	Outlet Outlet
	// DeadLetterStore of the job; called when there is a first dead letter. Not needed with an Outlet.
	DeadLetterStore func(ctx context.Context) (objstore.Store, error)
	// Schema is the payload columns of the new table. Nil: those of the source's table when values stay as they are,
	// else inferred from the first records.
	Schema *arrow.Schema
	// Transform makes the transforms, in the place of the Spec's; nil: the Spec's.
	Transform func() (Transform, error)
	Change    tiering.Change // of the replaced table: the swap; nil: by its own log
	Workers   int            // splits, and transforms, at one time; default one a core
	Tiering   tiering.Config // limits of commits and memory; the rest is set here
	// ControlEvery is how often Run looks at the job's Control; default 2 s.
	ControlEvery time.Duration
	Logger       *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Spec.From == "" {
		c.Spec.From = "earliest"
	}
	if c.Spec.Until == "" {
		c.Spec.Until = "now"
	}
	if kind, _ := c.Spec.Target(); c.Spec.SplitBytes == 0 && kind == KindTable {
		c.Spec.SplitBytes = 256 << 20
	}
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.ControlEvery == 0 {
		c.ControlEvery = controlEvery
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if err := c.Spec.validate(); err != nil {
		return err
	}
	if err := c.validateSource(); err != nil {
		return err
	}
	switch {
	case c.Sink == nil || c.DeadLetterStore == nil && c.Outlet == nil:
		return errors.New("reprocess: Sink is needed, and DeadLetterStore or Outlet")
	case c.Table != nil && c.Table.Store.URL() == c.Sink.URL():
		return errors.New("reprocess: the sink is the source's table: give the new one a place of its own")
	}
	return nil
}

func (c Config) validateSource() error {
	switch {
	case c.Table == nil && c.Log == nil:
		return errors.New("reprocess: a table or a log is needed to read from")
	case c.Topic == "":
		return errors.New("reprocess: Topic is needed")
	case c.Workers < 1:
		return fmt.Errorf("reprocess: %d workers", c.Workers)
	}
	return nil
}

// Job is an opened job.
type Job struct {
	cfg    Config
	stream *stream
	pool   chan Transform // nil: values stay
	fill   filling
	filter transform.Spec // of the source, before a job that changes values
	sink   *table.Table
	plan   *Plan
	seen   counters
}

// Open opens a job: its new table and its plan are made now if they are not there yet. Close it in any case.
func Open(ctx context.Context, cfg Config) (*Job, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	j := &Job{cfg: cfg}
	if err := j.open(ctx); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// openSource opens what the job reads, and its transforms.
func (j *Job) openSource(ctx context.Context) (err error) {
	if j.stream, err = openStream(ctx, j.cfg.Topic, j.cfg.Table, j.cfg.Log); err != nil {
		return err
	}
	rate, err := j.cfg.Spec.rate()
	if err != nil {
		return err
	}
	j.stream.pace = newGovernor(rate)
	if err := j.startTransforms(); err != nil {
		return err
	}
	return nil
}

func (j *Job) open(ctx context.Context) (err error) {
	if err := j.openSource(ctx); err != nil {
		return err
	}
	j.sink, err = table.Open(ctx, j.cfg.Sink, table.Config{Topic: j.cfg.Topic, Logger: j.cfg.Logger})
	isNew := errors.Is(err, deltalog.ErrNotTable)
	if err != nil && !isNew {
		return fmt.Errorf("open the new table: %w", err)
	}
	if !isNew {
		if err := j.readPlan(ctx); err != nil {
			return err
		}
	}
	sinkID, err := j.prepareOutlet(ctx)
	if err != nil {
		return err
	}
	if isNew {
		if err := j.learn(j.filledNow()); err != nil {
			return err
		}
		if err := j.create(ctx, sinkID); err != nil {
			return fmt.Errorf("make the new table: %w", err)
		}
		if err := j.readPlan(ctx); err != nil { // of several processes that begin together one has decided
			return err
		}
	}
	return j.checkPlan(ctx, sinkID)
}

// readPlan takes the plan from the job's table, and how the job's rows are made.
func (j *Job) readPlan(ctx context.Context) error {
	snap, err := j.sink.Refresh(ctx)
	if err != nil {
		return err
	}
	if j.plan, err = planOf(snap, j.cfg.Spec.Name); err != nil {
		return err
	}
	have := j.plan.Filled
	if have == nil && j.plan.Begun == "" {
		have = j.filledNow()
	}
	return j.learn(have)
}

// checkPlan refuses a plan that is not of what the job reads, does and fills now.
func (j *Job) checkPlan(ctx context.Context, sinkID string) error {
	if err := j.checkSink(sinkID); err != nil {
		return err
	}
	begun, before, err := j.cfg.Spec.asBegun(j.cfg.Transform != nil)
	if err != nil {
		return err
	}
	switch {
	case j.plan.Topic != j.cfg.Topic:
		return fmt.Errorf("%w: it was planned for topic %s", ErrOtherJob, j.plan.Topic)
	case j.plan.Begun != "" && j.plan.Begun != begun && j.plan.Begun != before:
		return fmt.Errorf("%w (it began with %s, and is now %s)", ErrChanged, j.plan.Begun, begun)
	}
	if err := j.checkColumns(); err != nil || j.plan.TopicID == "" {
		return err
	}
	now, err := j.stream.topicID(ctx)
	if err == nil && now != j.plan.TopicID {
		err = fmt.Errorf("%w: topic %s was deleted and made again since it was planned (id %s, now %s)", ErrOtherJob, j.cfg.Topic, j.plan.TopicID, now)
	}
	return err
}

// sinkKind says what the results go to.
func (c Config) sinkKind() string {
	switch c.Outlet.(type) {
	case nil:
		return KindTable
	case *TopicOutlet:
		return KindTopic
	case *CommandOutlet:
		return KindCommand
	}
	return "other"
}

// checkSink refuses a sink that is not the one of the plan. A plan's table lies where it lies: what the positions in it are
// of is not in any other sink, and a table that holds nothing but positions has no rows to swap in.
func (j *Job) checkSink(id string) error {
	if kind := j.cfg.sinkKind(); j.plan.Kind != "" && j.plan.Kind != kind {
		return fmt.Errorf("%w (its sink was a %s, and is now a %s)", ErrChanged, j.plan.Kind, kind)
	}
	if j.plan.Sink != id {
		return fmt.Errorf("%w: the topic that it fills was deleted and made again, or is another one (id %s, now %s)", ErrOtherJob, j.plan.Sink, id)
	}
	return nil
}

// checkColumns refuses a schema that is not that of the new table any more.
func (j *Job) checkColumns() error {
	if j.cfg.Schema == nil || !j.isTable() {
		return nil
	}
	have, err := j.sink.PayloadSchema()
	if err != nil {
		return err
	}
	is, was := columnsOf(j.cfg.Schema), columnsOf(have)
	slices.Sort(is)
	slices.Sort(was)
	if !slices.Equal(is, was) {
		return fmt.Errorf("%w (it began with the columns %s, and its schema has %s)", ErrChanged, strings.Join(was, ", "), strings.Join(is, ", "))
	}
	return nil
}

func (j *Job) startTransforms() error {
	start := j.cfg.Transform
	if start == nil {
		var err error
		if start, err = j.cfg.Spec.Transform(); err != nil || start == nil {
			return err
		}
	}
	j.pool = make(chan Transform, j.cfg.Workers)
	for range j.cfg.Workers {
		t, err := start()
		if err != nil {
			return err
		}
		j.pool <- t
	}
	return nil
}

// create makes the new table with its plan in one commit, so that of several processes that begin together one
// decides.
func (j *Job) create(ctx context.Context, sinkID string) error {
	plan, err := j.makePlan(ctx)
	if err != nil {
		return err
	}
	plan.Kind, plan.Sink, plan.Changes, plan.Filled = j.cfg.sinkKind(), sinkID, j.cfg.Spec.Changes() || j.cfg.Transform != nil, j.filledNow()
	if plan.Begun, _, err = j.cfg.Spec.asBegun(j.cfg.Transform != nil); err != nil {
		return err
	}
	raw, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	payload, err := j.payload(ctx, plan)
	if err != nil {
		return err
	}
	if err := j.fill.fits(payload); err != nil {
		return err
	}
	j.sink, err = table.OpenOrCreate(ctx, j.cfg.Sink, payload, table.Config{Topic: j.cfg.Topic, Logger: j.cfg.Logger,
		Properties: map[string]string{planProperty: string(raw), committer.FilledByProperty: plan.Job}})
	return err
}

func (j *Job) makePlan(ctx context.Context) (*Plan, error) {
	splitBytes := j.cfg.Spec.SplitBytes
	if !j.isTable() {
		splitBytes = 0 // the records of a partition stay in order
	}
	return makePlan(ctx, j.stream, j.cfg.Spec.Name, j.cfg.Spec.From, j.cfg.Spec.Until, splitBytes)
}

// prepareOutlet makes the job's sink ready when that is no table, and gives what identifies it.
func (j *Job) prepareOutlet(ctx context.Context) (id string, err error) {
	if j.cfg.Outlet == nil {
		return "", nil
	}
	parts, err := j.stream.Partitions(ctx, j.cfg.Topic)
	if err != nil {
		return "", err
	}
	from := SourceTopic{Topic: j.cfg.Topic, Planned: j.plan != nil}
	for _, p := range parts {
		from.Partitions = max(from.Partitions, p+1)
	}
	if from.ID, err = j.stream.TopicID(ctx, j.cfg.Topic); err != nil {
		return "", err
	}
	if id, err = j.cfg.Outlet.Prepare(ctx, from); err != nil {
		return "", fmt.Errorf("make the sink ready: %w", err)
	}
	return id, nil
}

// payload gives the columns of the new table.
func (j *Job) payload(ctx context.Context, plan *Plan) (*arrow.Schema, error) {
	if j.cfg.Outlet != nil {
		return arrow.NewSchema(nil, nil), nil
	}
	if j.cfg.Schema != nil {
		return j.cfg.Schema, nil
	}
	if j.pool == nil && j.cfg.Table != nil {
		return j.cfg.Table.PayloadSchema()
	}
	const enough = 1000
	var samples [][]byte
	for _, s := range plan.Splits {
		a := j.source(s.Partition, span{s.From, s.To})
		got, err := a.Fetch(ctx, []broker.FetchRange{{TP: record.TopicPartition{Topic: j.cfg.Topic, Partition: s.Partition}, From: s.From}},
			broker.FetchOptions{Isolation: broker.ReadCommitted})
		if err == nil {
			err = got[0].Err
		}
		if err != nil {
			return nil, fmt.Errorf("take a sample for the columns: %w", err)
		}
		in, _, err := recordsOf(&got[0], s.From, s.To)
		if err != nil {
			return nil, fmt.Errorf("take a sample for the columns: %w", err)
		}
		for _, r := range in {
			samples = append(samples, r.Value)
		}
		if len(samples) >= enough {
			break
		}
	}
	schema, err := decode.InferJSON(samples[:min(len(samples), enough)])
	if errors.Is(err, decode.ErrNoSamples) {
		return nil, fmt.Errorf("no column can be inferred from %d records: give a schema", len(samples))
	}
	return schema, err
}

// source gives the transformed stream of one partition, cut to a span.
func (j *Job) source(partition int32, s span) *applied {
	return &applied{stream: j.stream, pool: j.pool, seen: &j.seen, filter: j.filter, only: map[int32]span{partition: s}, split: true}
}

// Plan gives how the job is cut up.
func (j *Job) Plan() Plan { return *j.plan }

// Sink gives the new table.
func (j *Job) Sink() *table.Table { return j.sink }

// Close ends transforms and gives back what the Job has opened.
func (j *Job) Close() error {
	var err error
	if j.pool != nil {
		close(j.pool)
		for t := range j.pool {
			err = errors.Join(err, t.Close())
		}
	}
	if j.sink != nil {
		err = errors.Join(err, j.sink.Close())
	}
	if j.stream != nil {
		err = errors.Join(err, j.stream.Close())
	}
	return errors.Join(err, j.fill.close())
}

// RunOptions say which part of the job to do.
type RunOptions struct {
	// Index and Count choose splits: those whose number is Index modulo Count, as a Kubernetes Indexed Job numbers
	// its pods. Zero: all.
	Index, Count int
	// Follow goes on with the log behind the plan, until ctx ends. It begins when all splits are done, by whoever.
	Follow bool
}

// ErrUnfinished means that splits of others are not done, so that the job cannot follow yet.
var ErrUnfinished = errors.New("splits of the job are not done yet")

// Run does what is left of the chosen splits. It may be stopped and made again at any time, and run by several
// processes at once: a split that two work on is committed by one of them.
func (j *Job) Run(ctx context.Context, opts RunOptions) error {
	if opts.Count == 0 {
		opts.Count = 1
	}
	if opts.Count < 1 || opts.Index < 0 || opts.Index >= opts.Count {
		return fmt.Errorf("split index %d of %d: want 0 to %d", opts.Index, opts.Count, opts.Count-1)
	}
	stop, err := j.obey(ctx)
	if err != nil {
		return err
	}
	defer stop()
	finished, err := j.finished(ctx)
	if err != nil {
		return err
	}
	if !finished {
		if err := j.runSplits(ctx, opts); err != nil || ctx.Err() != nil {
			return err // nil when it was stopped: what is done is committed
		}
	}
	done, err := j.finish(ctx)
	switch {
	case err != nil || !opts.Follow:
		return err
	case !done:
		return ErrUnfinished
	}
	return j.follow(ctx)
}

func (j *Job) runSplits(ctx context.Context, opts RunOptions) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(j.cfg.Workers)
	for i := range j.plan.Splits {
		if i%opts.Count == opts.Index {
			g.Go(func() error { return j.runSplit(gctx, i) })
		}
	}
	return g.Wait()
}

// finished says whether the job has positions of its own: its splits are done then. After a swap the positions of
// the splits are not in the table any more.
func (j *Job) finished(ctx context.Context) (bool, error) {
	if j.plan.Swapped {
		return true, nil
	}
	snap, err := j.sink.Log.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	for _, r := range j.plan.Ranges {
		if _, known := table.LakeEnd(snap, j.plan.Job, r.Partition); !known && r.To > r.From {
			return false, nil
		}
	}
	return true, nil
}

func (j *Job) runSplit(ctx context.Context, i int) error {
	s := j.plan.Splits[i]
	snap, err := j.sink.Log.Snapshot(ctx)
	if err != nil {
		return err
	}
	if end, ok := table.LakeEnd(snap, j.plan.app(i), s.Partition); ok && end >= s.To {
		return nil
	}
	start := time.Now()
	source, app := j.source(s.Partition, span{s.From, s.To}), j.plan.app(i)
	if j.cfg.Outlet != nil {
		d := delivering{j: j, from: source, app: app, ends: map[int32]record.Offset{s.Partition: s.To}, begin: map[int32]record.Offset{s.Partition: s.From}}
		err = d.run(ctx)
	} else {
		cfg := j.tiering(source, app)
		cfg.UntilEnd, cfg.Partitions, cfg.Workers = true, []int32{s.Partition}, 1
		err = j.tier(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("split %d, partition %d offsets [%d, %d): %w", i, s.Partition, s.From, s.To, err)
	}
	if ctx.Err() != nil {
		return nil // stopped; what is done is committed
	}
	j.cfg.Logger.Info("split is done", "job", j.plan.Job, "split", i, "of", len(j.plan.Splits), "partition", s.Partition, "from", s.From, "to", s.To, "took", time.Since(start))
	return nil
}

func (j *Job) tiering(source broker.Source, app string) tiering.Config {
	cfg := j.cfg.Tiering
	cfg.Source, cfg.Topic, cfg.App, cfg.Table = source, j.cfg.Topic, app, j.sink
	cfg.Committer = committer.NewDirect(j.sink.Log)
	cfg.DeadLetterStore, cfg.Refuse, cfg.Logger = j.cfg.DeadLetterStore, refused, j.cfg.Logger
	cfg.Format = tiering.FormatRaw
	if payload, err := j.sink.PayloadSchema(); err == nil && payload.NumFields() > 0 {
		cfg.Format = tiering.FormatJSON
	}
	if !j.fill.plain() {
		cfg.NewDecoder = j.fill.newDecoder
	}
	if app == j.plan.Job { // a split's rows have no tail
		cfg.Properties = j.fill.properties(app)
	}
	return cfg
}

func (j *Job) tier(ctx context.Context, cfg tiering.Config) error {
	tr, err := tiering.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(tr.Run(ctx), tr.Close())
}

// finish sets the job's own positions when every split is done.
func (j *Job) finish(ctx context.Context) (done bool, err error) {
	if done, err := j.finished(ctx); done || err != nil {
		return done, err
	}
	status, err := j.Status(ctx)
	if err != nil || status.Done < len(j.plan.Splits) {
		return false, err
	}
	req := committer.Request{App: j.plan.Job, Parameters: map[string]string{"job": j.plan.Job}}
	snap, err := j.sink.Log.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	for _, r := range j.plan.Ranges {
		if _, known := table.LakeEnd(snap, j.plan.Job, r.Partition); !known && r.To > r.From {
			req.Ranges = append(req.Ranges, committer.Range{Partition: r.Partition, From: r.From, To: r.To})
		}
	}
	if len(req.Ranges) == 0 {
		return true, nil
	}
	_, err = committer.NewDirect(j.sink.Log).Commit(ctx, req)
	var fenced *committer.FencedError
	if errors.As(err, &fenced) {
		err = nil // somebody else was faster
	}
	return err == nil, err
}

// follow goes on behind the plan.
func (j *Job) follow(ctx context.Context) error {
	a := &applied{stream: j.stream, pool: j.pool, seen: &j.seen, filter: j.filter, only: map[int32]span{}}
	for _, r := range j.plan.Ranges {
		a.only[r.Partition] = span{r.To, -1}
	}
	if j.cfg.Outlet != nil {
		return j.followOutlet(ctx, a)
	}
	cfg := j.tiering(a, j.plan.Job)
	if j.plan.Named {
		for _, r := range j.plan.Ranges {
			cfg.Partitions = append(cfg.Partitions, r.Partition)
		}
	}
	return j.tier(ctx, cfg)
}
