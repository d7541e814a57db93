package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/ingest"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// ingestProcess is what the streams of a process share.
type ingestProcess struct {
	kafka      kafka.Config
	source     *kafka.Source
	openStore  func(ctx context.Context, url string) (objstore.Store, error)
	committers *rpc.Client // nil: the store alone orders versions
	registry   *prometheus.Registry
	statsd     *ingest.OldMetrics // nil: none
	traces     *ingest.Traces     // nil: none
	log        *slog.Logger

	mu      sync.Mutex
	streams map[string]*ingestStream // those that run, by name
	done    tiering.Stats            // of those that have ended
}

func (f *ingestFlags) open(cmd *cobra.Command) (_ *ingestProcess, err error) {
	p := &ingestProcess{openStore: f.store.open, registry: newRegistry(), statsd: f.statsd, streams: map[string]*ingestStream{}}
	if p.log, err = newLogger(cmd); err != nil {
		return nil, err
	}
	if p.kafka, err = f.conn.config("ledgerlake-ingest", p.log); err != nil {
		return nil, err
	}
	if err := f.client.Apply(&p.kafka); err != nil {
		return nil, err
	}
	if p.committers, err = f.committers.open(); err != nil {
		return nil, err
	}
	if f.otel != "" {
		if p.traces, err = ingest.OpenTraces(cmd.Context(), f.otel, p.log); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	if p.source, err = kafka.Open(cmd.Context(), p.kafka); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *ingestProcess) close() (err error) {
	if p.source != nil {
		err = p.source.Close()
	}
	if p.committers != nil {
		err = errors.Join(err, p.committers.Close())
	}
	if p.traces != nil {
		err = errors.Join(err, p.traces.Close())
	}
	return err
}

// ingestStream is one topic on its way into one table.
type ingestStream struct {
	plan  topicPlan
	group groupFlags
	start ingest.Start

	shared bool                     // other topics fill the same table
	opened func(*table.Table) error // hears of the table before it is filled; may be nil
}

// job makes a stream one that a supervisor runs.
func (p *ingestProcess) job(name, key string, s *ingestStream) ingest.Job {
	return ingest.Job{Name: name, Key: key, Run: func(ctx context.Context, tell ingest.Teller) error {
		p.mu.Lock()
		p.streams[name] = s
		p.mu.Unlock()
		s.plan.waits = tell.Waits
		stats, err := s.run(ctx, p, tell.Ready)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, name)
		p.done.Records += stats.Records
		p.done.Rows += stats.Rows
		p.done.DeadLetters += stats.DeadLetters
		p.done.Filtered += stats.Filtered
		p.done.Commits += stats.Commits
		return err
	}}
}

// total sums what the streams that have ended did.
func (p *ingestProcess) total() tiering.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// tables gives the tables of the streams that run.
func (p *ingestProcess) tables(context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var urls []string
	for _, s := range p.streams {
		urls = append(urls, s.plan.tables()...)
	}
	slices.Sort(urls)
	return slices.Compact(urls), nil
}

// run works until ctx ends, or the ends of a bounded run are reached.
func (s *ingestStream) run(ctx context.Context, proc *ingestProcess, ready func()) (_ tiering.Stats, err error) {
	tab, format, err := s.plan.openTable(ctx)
	if errors.Is(err, tiering.ErrNoRecords) { // a bounded run has nothing to do
		proc.log.Info("no table is made", "topic", s.plan.topic, "table", s.plan.tableURL, "because", err)
		return tiering.Stats{}, nil
	}
	if err != nil {
		return tiering.Stats{}, err
	}
	defer func() { err = errors.Join(err, tab.Close()) }()
	if s.opened != nil {
		if err := s.opened(tab); err != nil {
			return tiering.Stats{}, fmt.Errorf("table %s: %w", s.plan.tableURL, err)
		}
	}
	if s.shared && tab.Names.Ordered() && tab.Names.Topic == "" {
		return tiering.Stats{}, fmt.Errorf("several topics fill %s, whose rows are told apart by %s and %s alone: name another table, which gets the column %s too, or give each topic a table",
			s.plan.tableURL, tab.Names.Partition, tab.Names.Offset, table.TopicColumn)
	}
	if err := s.start.Apply(ctx, tab.Log, changesOf(s.plan.group, tab), s.plan.source, s.plan.topic, s.plan.app); err != nil {
		return tiering.Stats{}, err
	}
	if s.plan.deadURL != "" || !s.plan.tiering.LetterTransform.Empty() { // one that cannot take them is told of before the first bad record
		if err := s.checkDeadLetters(ctx); err != nil {
			return tiering.Stats{}, err
		}
	}
	tr, err := s.plan.tierer(ctx, tab, format)
	if err != nil {
		return tiering.Stats{}, err
	}
	defer func() { err = errors.Join(err, tr.Close()) }()
	beside := []func(context.Context){}
	if s.group.name != "" {
		g, err := s.join(ctx, proc.kafka, tr)
		if err != nil {
			return tiering.Stats{}, err
		}
		defer s.leave(ctx, g)
		beside = append(beside, func(ctx context.Context) { s.tell(ctx, g, tr) })
	}
	if proc.statsd != nil {
		beside = append(beside, func(ctx context.Context) {
			o := *proc.statsd
			o.Logger = proc.log
			if err := o.Run(ctx, s.plan.topic, s.plan.app, s.plan.tableURL, tr.Stats); err != nil {
				proc.log.Warn("no metrics go to statsd", "error", err)
			}
		})
	}
	ready()
	err = runBeside(ctx, tr.Run, beside...)
	return tr.Stats(), err
}

// join lets a consumer group say which partitions this process tiers.
func (s *ingestStream) join(ctx context.Context, cfg kafka.Config, tr *tiering.Tierer) (*kafka.Group, error) {
	return kafka.JoinGroup(ctx, kafka.GroupConfig{
		Config: cfg, Group: s.group.name, InstanceID: s.group.instance, SessionTimeout: s.group.session, Topics: []string{s.plan.topic},
		OnAssigned: func(ctx context.Context, _ string, parts []int32) { tr.Assign(ctx, parts) },
		OnRevoked:  func(ctx context.Context, _ string, parts []int32) { tr.Revoke(ctx, parts) },
		OnLost:     func(ctx context.Context, _ string, parts []int32) { tr.Lose(ctx, parts) },
	})
}

func (s *ingestStream) checkDeadLetters(ctx context.Context) error {
	store, err := s.plan.openStore(ctx, s.plan.deadLetters())
	if err != nil {
		return err
	}
	tab, err := tiering.OpenDeadLetters(ctx, store, tiering.LetterConfig{Topic: s.plan.topic, Shared: s.shared || s.plan.shape.topicColumn, Transform: s.plan.tiering.LetterTransform})
	if err != nil {
		return err
	}
	return tab.Close()
}

// leaveTimeout bounds the good-bye to the group: without it the others wait for the session timeout.
const leaveTimeout = 10 * time.Second

func (s *ingestStream) leave(ctx context.Context, g *kafka.Group) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := g.Close(ctx); err != nil { // the table is right all the same
		s.plan.log.Warn("could not leave the group; others get the partitions after its session timeout", "group", s.group.name, "error", err)
	}
}

// tellEvery is how often the positions are written to Kafka.
const tellEvery = 5 * time.Second

// tell writes the positions of our partitions to Kafka, for those who watch a group's lag there. Nothing reads them back,
// so a failure is no harm.
func (s *ingestStream) tell(ctx context.Context, g *kafka.Group, tr *tiering.Tierer) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	told := map[record.TopicPartition]record.Offset{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		fresh := map[record.TopicPartition]record.Offset{}
		for p, end := range tr.Stats().LakeEnd {
			if tp := (record.TopicPartition{Topic: s.plan.topic, Partition: p}); told[tp] != end {
				fresh[tp] = end
			}
		}
		if err := g.Commit(ctx, fresh); err != nil {
			s.plan.log.Debug("positions are not shown in Kafka", "group", s.group.name, "error", err)
			continue
		}
		maps.Copy(told, fresh)
	}
}
