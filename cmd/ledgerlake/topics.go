package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/pulsarschema"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// topicPlan says how one topic becomes a table: the same for serve, ingest and demo.
type topicPlan struct {
	source    broker.Source
	topic     string
	app       string
	openStore func(ctx context.Context, url string) (objstore.Store, error)
	tableURL  string
	deadURL   string         // table of dead letters; empty: beside the table
	format    string         // auto, or the name of a format
	decode    formatFlags    // what the format needs
	values    *format.Format // nil: json or raw
	schema    *arrow.Schema  // payload columns of a new table; nil: inferred from records
	shape     tableFlags
	tiering   tiering.Config
	group     *rpc.Client // that commits; nil: the store alone
	together  bool        // other topics fill the table too, as it is: a new one has no system columns
	shared    bool        // other topics fill the table too, or have their dead letters where this one has
	names     table.Names // system columns of a new table; zero: the usual ones
	noFiles   bool        // the table is only written to, so that nothing asks for its list of files
	log       *slog.Logger
	waits     func(what string) // hears what the making of the table waits for; may be nil
}

// registryPatience is how long one partition may keep a worker, and with it others, for a schema that the registry does not give: it waits
// alone then, and asks again.
const registryPatience = 2 * time.Second

// openTable opens the table of a topic, or makes it when it is not there yet. It waits for a first record
// when the columns are to be inferred, and says so; a bounded run gives tiering.ErrNoRecords instead.
func (p *topicPlan) openTable(ctx context.Context) (*table.Table, string, error) {
	store, err := p.openStore(ctx, p.tableURL)
	if err != nil {
		return nil, "", err
	}
	cfg := table.Config{Topic: p.topic, Logger: p.log, Log: deltalog.Config{NoFiles: p.noFiles}}
	t, err := table.Open(ctx, store, cfg)
	if err == nil {
		format, err := p.formatOf(t)
		if err != nil {
			return nil, "", errors.Join(err, t.Close())
		}
		return t, format, nil
	}
	if !errors.Is(err, deltalog.ErrNotTable) {
		return nil, "", fmt.Errorf("open table %s: %w", p.tableURL, err)
	}
	payload := p.schema
	if err := p.bySchema(ctx); err != nil {
		return nil, "", err
	}
	format := p.format
	switch {
	case p.auto() && p.decode.set():
		return nil, "", fmt.Errorf("%s is a new table: say with --format how the values are encoded", p.tableURL)
	case p.values != nil && payload == nil:
		if payload, err = p.columns(ctx); err != nil {
			return nil, "", err
		}
	case p.values != nil:
	case payload != nil:
		format = tiering.FormatJSON
	case format == tiering.FormatRaw:
		payload = arrow.NewSchema(nil, nil)
	default:
		inferred, s, err := tiering.Infer(ctx, p.source, p.topic, p.sample())
		if err != nil {
			return nil, "", err
		}
		if format == tiering.FormatJSON && inferred != format {
			return nil, "", fmt.Errorf("topic %s: the sampled values are not JSON objects; give --schema FILE or use --format raw", p.topic)
		}
		format, payload = inferred, s
	}
	if payload, err = p.shape.columns(payload, p.tiering.Transform); err != nil {
		return nil, "", fmt.Errorf("columns of table %s: %w", p.tableURL, err)
	}
	cfg.PartitionColumns = p.shape.partitionBy
	cfg.Properties = p.properties()
	cfg.Properties[transform.Property(p.app)] = p.tiering.Transform.String()
	maps.DeleteFunc(cfg.Properties, func(_, value string) bool { return value == "" })
	cfg.Names = p.newNames()
	if p.together {
		t, err = openOrCreateBare(ctx, store, payload, cfg)
	} else {
		t, err = table.OpenOrCreate(ctx, store, payload, cfg)
	}
	if err != nil {
		return nil, "", fmt.Errorf("create table %s: %w", p.tableURL, err)
	}
	p.log.Info("table is ready", "topic", p.topic, "table", p.tableURL, "format", format, "columns", payload.NumFields())
	return t, format, nil
}

// newNames are the system columns of a new table; zero: the usual ones.
func (p *topicPlan) newNames() table.Names {
	n := p.names
	if p.together || !p.shared && !p.shape.topicColumn {
		return n
	}
	if n == (table.Names{}) {
		n = table.DefaultNames()
	}
	n.Topic = table.TopicColumn
	return n
}

// bySchema takes the schemas of a topic of Pulsar for the format when nothing else is said and the topic has one that tells
// columns. Text may be anything: it is looked at.
func (p *topicPlan) bySchema(ctx context.Context) error {
	if !p.auto() || p.decode.topic == nil || p.schema != nil {
		return nil
	}
	s, err := p.decode.topic.Schema(ctx, nil)
	switch {
	case errors.Is(err, registry.ErrUnknown):
		return nil
	case err != nil:
		return fmt.Errorf("schema of topic %s: %w", p.topic, err)
	case s.Type == pulsarschema.None || s.Type == pulsarschema.String || s.Type == pulsarschema.Bytes:
		return nil
	}
	p.format = format.Pulsar
	return p.openFormat()
}

// openOrCreateBare makes a table of the payload columns alone, unless somebody is faster: one that several topics fill as it is,
// since system columns of two topics would be the same.
func openOrCreateBare(ctx context.Context, store objstore.Store, payload *arrow.Schema, cfg table.Config) (*table.Table, error) {
	if payload.NumFields() == 0 {
		return nil, errors.New("it would have no columns: a table that several topics fill has those of their values alone")
	}
	schema, err := deltalog.FromArrow(payload)
	if err != nil {
		return nil, err
	}
	log, err := deltalog.Create(ctx, store, deltalog.CreateOptions{Schema: schema, PartitionColumns: cfg.PartitionColumns, Configuration: cfg.Properties}, cfg.Log)
	if err == nil {
		err = log.Close()
	}
	if err != nil && !errors.Is(err, deltalog.ErrTableExists) {
		return nil, err
	}
	return table.Open(ctx, store, cfg)
}

// openFormat makes the format that is neither json nor raw.
func (p *topicPlan) openFormat() (err error) {
	p.values, err = p.decode.open(p.format)
	return err
}

func (p *topicPlan) auto() bool { return p.format == "" || p.format == "auto" }

// properties are what the table is to record about its filling.
func (p *topicPlan) properties() map[string]string {
	if p.values == nil {
		return map[string]string{format.Property(p.app): ""}
	}
	return map[string]string{format.Property(p.app): p.values.String()}
}

// columns are those of a new table: the format knows them, or tells them by the first records.
func (p *topicPlan) columns(ctx context.Context) (*arrow.Schema, error) {
	s, err := p.values.Columns(ctx, nil)
	if !errors.Is(err, decode.ErrNoSamples) {
		return s, err
	}
	samples, err := tiering.Sample(ctx, p.source, p.topic, p.sample())
	if err != nil {
		return nil, err
	}
	if s, err = p.values.Columns(ctx, samples); err != nil {
		return nil, fmt.Errorf("topic %s: columns of a new table: %w", p.topic, err)
	}
	return s, nil
}

// sample says how the first records are looked at that tell a new table its columns.
func (p *topicPlan) sample() tiering.SampleConfig {
	return tiering.SampleConfig{UntilEnd: p.tiering.UntilEnd, Waits: func() {
		const what = "a first record of the topic, which tells the new table its columns; --schema FILE or --format raw makes it without one"
		p.log.Warn("waiting", "topic", p.topic, "table", p.tableURL, "for", what)
		if p.waits != nil {
			p.waits(what)
		}
	}}
}

// formatOf gives the format of the values of a table that is there: what the user says, what the table records, or what
// its columns tell.
func (p *topicPlan) formatOf(t *table.Table) (_ string, err error) {
	if !p.auto() {
		return p.format, nil
	}
	if p.values, err = p.decode.recorded(t.Properties(), p.app); err != nil {
		return "", err
	}
	if p.values != nil {
		return p.values.Name, nil
	}
	s, err := t.PayloadSchema()
	if err != nil {
		return "", err
	}
	if s.NumFields() > 0 {
		return tiering.FormatJSON, nil
	}
	return tiering.FormatRaw, nil
}

// open makes the tierer of the topic, with its table.
func (p *topicPlan) open(ctx context.Context) (*tiering.Tierer, *table.Table, error) {
	t, format, err := p.openTable(ctx)
	if err != nil {
		return nil, nil, err
	}
	tr, err := p.tierer(ctx, t, format)
	if err != nil {
		return nil, nil, errors.Join(err, t.Close())
	}
	return tr, t, nil
}

// tierer makes the tierer of the topic on an open table.
func (p *topicPlan) tierer(ctx context.Context, t *table.Table, format string) (*tiering.Tierer, error) {
	cfg := p.tiering
	cfg.Source, cfg.Topic, cfg.App = p.source, p.topic, p.app
	cfg.Table, cfg.Format, cfg.Logger = t, format, p.log
	if p.values != nil {
		cfg.NewDecoder = p.values.NewDecoder
		p.values.SetPatience(registryPatience)
	}
	cfg.Properties, cfg.SharedLetters = p.properties(), p.shared
	cfg.Committer, cfg.Change = committerOf(p.group, t), changeThrough(p.group)
	cfg.DeadLetterStore = func(ctx context.Context) (objstore.Store, error) {
		return p.openStore(ctx, p.deadLetters())
	}
	return tiering.Open(ctx, cfg)
}

// deadLetters is where the dead letters go.
func (p *topicPlan) deadLetters() string {
	if p.deadURL != "" {
		return p.deadURL
	}
	return strings.TrimSuffix(p.tableURL, "/") + "_dead_letters"
}

// tables gives the table and that of its dead letters.
func (p *topicPlan) tables() []string { return []string{p.tableURL, p.deadLetters()} }

// tierers runs a tierer for each topic of a served log, also for topics made later. A topic that fails is
// tried again with a growing delay and never holds up the others (I7). Its table stays open meanwhile: history is
// read from it (I4).
type tierers struct {
	plan func(topic string) *topicPlan
	log  *slog.Logger
	wg   sync.WaitGroup
	mu   sync.Mutex
	live map[string]*tierer
}

// tierer is what a topic has from its first run to its last; guarded by tierers.mu.
type tierer struct {
	table       *table.Table // nil until it is opened or made
	incarnation string       // of the table when it was opened
	tr          *tiering.Tierer
	partitions  int32                   // that it reads
	stop        context.CancelCauseFunc // ends this run
}

// errMorePartitions ends the run of a tierer, which reads the partitions that it began with.
var errMorePartitions = errors.New("the topic has got more partitions")

func newTierers(plan func(topic string) *topicPlan, log *slog.Logger) *tierers {
	return &tierers{plan: plan, log: log, live: map[string]*tierer{}}
}

// table gives the open table of a topic, for the history server.
func (t *tierers) table(topic string) (*table.Table, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.live[topic]; x != nil && x.table != nil {
		return x.table, true
	}
	return nil, false
}

// opening says whether a topic is to have a table that is not open yet, as after a start of the program.
func (t *tierers) opening(topic string) bool {
	if broker.Internal(topic) {
		return false
	}
	_, open := t.table(topic)
	return !open
}

// watch starts tierers for new topics until ctx ends, then waits for all of them.
func (t *tierers) watch(ctx context.Context, log broker.Log, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	defer t.wg.Wait()
	for {
		infos, err := log.Topics(ctx)
		if err != nil && ctx.Err() == nil {
			t.log.Error("list topics", "error", err)
		}
		for _, info := range infos {
			if broker.Internal(info.Name) {
				continue
			}
			t.start(ctx, info.Name, info.Config.Partitions)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (t *tierers) start(ctx context.Context, topic string, partitions int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.live[topic]; x != nil {
		if x.stop != nil && partitions > x.partitions {
			x.stop(errMorePartitions)
		}
		return
	}
	x := &tierer{}
	t.live[topic] = x
	t.wg.Go(func() { t.run(ctx, topic, x) })
}

func (t *tierers) run(ctx context.Context, topic string, x *tierer) {
	defer t.closeTable(topic, x)
	delay := time.Second
	for ctx.Err() == nil {
		err := t.runOnce(ctx, topic, x)
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.log.Error("tiering ended with an error", "topic", topic, "error", err)
			}
			return
		}
		if err != nil && errors.Is(err, broker.ErrUnknownTopic) {
			t.mu.Lock()
			delete(t.live, topic)
			t.mu.Unlock()
			return // deleted; watch starts it again if it is made again
		}
		if errors.Is(err, errMorePartitions) || errors.Is(err, errFillerLeft) {
			t.log.Info("tiering begins again", "topic", topic, "because", err)
			continue
		}
		t.log.Error("tiering stopped, will be tried again", "topic", topic, "error", err, "delay", delay)
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		delay = min(2*delay, time.Minute)
	}
}

func (t *tierers) runOnce(ctx context.Context, topic string, x *tierer) error {
	plan := t.plan(topic)
	parts, err := plan.source.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	tab, format, err := t.openTable(ctx, plan, x)
	if err != nil {
		return err
	}
	if err := t.besideFiller(ctx, plan, tab); err != nil || ctx.Err() != nil {
		return err
	}
	tr, err := plan.tierer(ctx, tab, format)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t.mu.Lock()
	x.tr, x.partitions, x.stop = tr, int32(len(parts)), stop
	t.mu.Unlock()
	err = tr.Run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errMorePartitions) && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	return errors.Join(err, tr.Close())
}

// openTable gives the table of a topic: the one that is open, as long as it is there. One that was dropped, or made
// again with perhaps other columns, is opened anew.
func (t *tierers) openTable(ctx context.Context, plan *topicPlan, x *tierer) (*table.Table, string, error) {
	t.mu.Lock()
	old, incarnation := x.table, x.incarnation
	t.mu.Unlock()
	if old != nil {
		snap, err := old.Refresh(ctx)
		if err == nil && snap.Metadata().ID == incarnation {
			format, err := plan.formatOf(old)
			return old, format, err
		}
		if err != nil && !errors.Is(err, deltalog.ErrNotTable) {
			return nil, "", fmt.Errorf("read table %s: %w", plan.tableURL, err)
		}
	}
	tab, format, err := plan.openTable(ctx)
	if err != nil {
		return nil, "", err
	}
	snap, err := tab.Refresh(ctx)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("read table %s: %w", plan.tableURL, err), tab.Close())
	}
	t.mu.Lock()
	x.table, x.incarnation = tab, snap.Metadata().ID
	t.mu.Unlock()
	if old != nil {
		err = old.Close()
	}
	return tab, format, err
}

// closeTable closes the table after the last run. At the end of the engine it is still the topic's: who reads on
// is told that it is closed, and not that there is no history.
func (t *tierers) closeTable(topic string, x *tierer) {
	t.mu.Lock()
	tab := x.table
	t.mu.Unlock()
	if tab == nil {
		return
	}
	if err := tab.Close(); err != nil {
		t.log.Error("close table", "topic", topic, "error", err)
	}
}

// stats gives the counters of every topic that runs.
func (t *tierers) stats() map[string]tiering.Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]tiering.Stats{}
	for name, x := range t.live {
		if x.tr != nil {
			out[name] = x.tr.Stats()
		}
	}
	return out
}
