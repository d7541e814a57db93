package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// jobFlags are the flags of `reprocess` and of its subcommands.
type jobFlags struct {
	sourceFlags
	workers int
	maxRate string // instead of the job's
	json    bool
	http    string // address of metrics; empty: none
	tiering tiering.Config
	group   groupClient            // of swap and of dead letters
	changed func(flag string) bool // on the command line
}

func (f *jobFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.changed = fs.Changed
	fs.StringVar(&f.ofTopic, "topic", "", "of a source table with rows of several topics, the one that is meant")
	fs.StringVar(&f.app, "app", "", "name under which the source's table keeps its positions (default: the topic, or the only one)")
	fs.BoolVar(&f.json, "json", false, "print the outcome as one JSON object")
	f.store.register(fs)
	f.secure.register(fs)
}

// openedJob is a job with what it reads from and the table that it is to replace.
type openedJob struct {
	*reprocess.Job
	spec     reprocess.Spec
	source   *stream
	replaced *table.Table   // nil when there is none yet
	group    *rpc.Client    // nil: none
	closes   []func() error // of the sink
}

func (o *openedJob) close() error {
	var err error
	if o.Job != nil {
		err = o.Close()
	}
	for _, c := range o.closes {
		err = errors.Join(err, c())
	}
	err = errors.Join(err, o.source.close())
	if o.replaced != nil && o.replaced != o.source.table {
		err = errors.Join(err, o.replaced.Close())
	}
	if o.group != nil {
		err = errors.Join(err, o.group.Close())
	}
	return err
}

func newReprocess() *cobra.Command {
	var f jobFlags
	var run reprocess.RunOptions
	var letters letterFlags
	cmd := &cobra.Command{
		Use:   "reprocess JOB.yaml",
		Short: "Run a stream again from any offset into a new table, a topic or a program",
		Long: `reprocess reads a topic again, history from the table and the tail from the log, changes its records, and
fills a new table with exactly one row a record; or a topic, or a program. Stop it at any time and start it again: it goes
on where it was, also on other machines and on many at once.

JOB.yaml:
  name: better-model               positions are kept under this name
  source: ./data/events            DIR/TOPIC, a table, or kafka://host:port/topic (then also history: TABLE)
  from: 2026-10-01T00:00:00Z       default earliest
  sink: shadow                     or the path of a new table, kafka://host:port/topic, topic:DIR/TOPIC of a served
                                   directory, or command; docs/reprocess.md has the keys that go with them
  replaces: ./data/lake/classified the table whose place it is to take (default: the source's)
  where: amount > 10               an expression: which records become rows
  keep: [user, amount]             fields that are kept; default all
  columns: [{name: total, value: amount * 2}]
  command: [python3, classify.py]  instead of where, keep and columns: gets a JSON object a line, and answers each
                                   line with the new row as one line, with its _offset, or null for none
  schema: columns.json             columns of the new table; default: inferred
  maxRate: 20MB                    a second, or records: 10000; default as fast as it goes

With --dead-letters it takes no job but a table, or DIR/TOPIC, and makes rows of the dead letters that fit by now.

Then: reprocess verify JOB.yaml, reprocess swap JOB.yaml, reprocess retire JOB.yaml.`,
		Example: `  ledgerlake reprocess job.yaml
  ledgerlake reprocess job.yaml --split-index $JOB_COMPLETION_INDEX --split-count 20
  ledgerlake reprocess job.yaml --follow
  ledgerlake reprocess verify job.yaml
  ledgerlake reprocess swap job.yaml --dry-run
  ledgerlake reprocess --dead-letters ./data/events --set 'amount=float(amount)' --dry-run`,
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if letters.on {
				if f.log, err = newLogger(cmd); err != nil {
					return err
				}
				return f.replayLetters(cmd.Context(), &letters, args[0], cmd.OutOrStdout())
			}
			if letters.where != "" || len(letters.set) > 0 {
				return errors.New("--where and --set go with --dead-letters; a job says them in its file")
			}
			if letters.dryRun {
				return f.dry(cmd, args[0])
			}
			if len(f.group.addrs) > 0 {
				return errors.New("--committer goes with --dead-letters and with `reprocess swap`: a job fills a table of its own, which it shares with nobody")
			}
			return f.with(cmd, args[0], func(ctx context.Context, o *openedJob, out io.Writer) error {
				stopHTTP, err := f.serveJob(o)
				if err != nil {
					return err
				}
				defer stopHTTP()
				stop := f.report(ctx, o)
				err = o.Run(ctx, run)
				stop()
				if errors.Is(err, reprocess.ErrUnfinished) {
					err = fmt.Errorf("%w: start --follow again when the other workers have ended", err)
				}
				if err != nil {
					return err
				}
				st, err := o.Status(context.WithoutCancel(ctx))
				if err != nil {
					return err
				}
				return f.print(out, st, statusText(st))
			})
		},
	}
	f.register(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.maxRate, "max-rate", "", "read no more than this a second: 10000 (records), 20MB, or both with a comma (default: maxRate of the job)")
	fs.IntVar(&f.workers, "workers", 0, "splits at one time; default one a core")
	fs.IntVar(&run.Index, "split-index", 0, "do only splits whose number is this modulo --split-count")
	fs.IntVar(&run.Count, "split-count", 0, "how many processes share the splits; 0: this one does all")
	fs.StringVar(&f.http, "http-listen", "", "address for /metrics and /healthz; empty: none")
	fs.BoolVar(&run.Follow, "follow", false, "go on with new records when the splits are done, until stopped")
	letters.register(fs)
	f.group.register(fs)
	flushFlags(fs, &f.tiering)
	cmd.AddCommand(newReprocessVerify(), newReprocessSwap(), newReprocessRetire(), newReprocessStatus(),
		newReprocessPause(), newReprocessResume(), newReprocessThrottle())
	return cmd
}

func newReprocessVerify() *cobra.Command {
	var f jobFlags
	var ignore []string
	cmd := &cobra.Command{
		Use:   "verify JOB.yaml",
		Short: "Compare the new table with the one that it is to replace, row by row",
		Long: `verify compares every row of the new table with that of the old one at the same offset, in the columns that both
have. It changes nothing, and ends with status 1 when something differs.`,
		Example: "  ledgerlake reprocess verify job.yaml",
		Args:    named,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, args[0], func(ctx context.Context, o *openedJob, out io.Writer) error {
				old, err := o.old()
				if err != nil {
					return err
				}
				c, err := o.Verify(ctx, old, ignore)
				if err != nil {
					return err
				}
				if err := f.print(out, c, c.String()); err != nil {
					return err
				}
				if !c.Same() {
					return errReported
				}
				return nil
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringSliceVar(&ignore, "ignore", nil, "columns that are meant to differ")
	return cmd
}

func newReprocessSwap() *cobra.Command {
	var f jobFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "swap JOB.yaml",
		Short: "Put the new rows in the place of the old ones, in one commit",
		Long: `swap makes the new table's content that of the old one, at exactly the offset where the old one stands: a reader
of any make sees all old rows or all new ones. The old content stays in the table's history: 'ledgerlake restore'
brings it back until its files are vacuumed.`,
		Example: "  ledgerlake reprocess swap job.yaml",
		Args:    named,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, args[0], func(ctx context.Context, o *openedJob, out io.Writer) error {
				old, err := o.old()
				if err != nil {
					return err
				}
				r, err := o.Swap(ctx, old, dryRun)
				if err != nil {
					return err
				}
				return f.print(out, r, r.String())
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "catch up and say what would be done")
	f.group.register(cmd.Flags())
	flushFlags(cmd.Flags(), &f.tiering)
	return cmd
}

func newReprocessRetire() *cobra.Command {
	var f jobFlags
	var discard bool
	cmd := &cobra.Command{
		Use:     "retire JOB.yaml",
		Short:   "Delete the new table's own log after a swap; or the whole new table, with --discard",
		Example: "  ledgerlake reprocess retire job.yaml",
		Args:    named,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.read(cmd, args[0])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			o, err := f.openSource(ctx, spec)
			if err != nil {
				return err
			}
			return errors.Join(f.retire(ctx, o, cmd.OutOrStdout(), discard), o.close())
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&discard, "discard", false, "delete a new table that was not swapped in, with all its rows")
	return cmd
}

func (f *jobFlags) retire(ctx context.Context, o *openedJob, out io.Writer, discard bool) error {
	old, err := o.old()
	if err != nil {
		return err
	}
	shadow, err := f.store.open(ctx, reprocess.ShadowPath(old.Store.URL(), o.spec.Name))
	if err != nil {
		return err
	}
	n, err := reprocess.Retire(ctx, old, shadow, o.spec.Name, discard)
	if err != nil {
		return err
	}
	return f.print(out, map[string]int{"deleted": n}, fmt.Sprintf("%d files are deleted", n))
}

func newReprocessStatus() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:     "status JOB.yaml",
		Short:   "Say how far a job is",
		Example: "  ledgerlake reprocess status job.yaml",
		Args:    named,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, args[0], func(ctx context.Context, o *openedJob, out io.Writer) error {
				st, err := o.Status(ctx)
				if err != nil {
					return err
				}
				return f.print(out, st, statusText(st))
			})
		},
	}
	f.register(cmd)
	return cmd
}

func statusText(st reprocess.Status) string {
	text := fmt.Sprintf("job %s: %d of %d splits, %d of %d offsets, table version %d", st.Job, st.Done, st.Splits, st.Decided, st.Offsets, st.Version)
	behind := int64(0)
	for _, n := range st.Behind {
		behind += int64(n)
	}
	if st.Control.Paused {
		text += "; paused"
	}
	if st.Control.MaxRate != "" {
		text += "; at most " + st.Control.MaxRate + " a second in each process"
	}
	if len(st.Behind) > 0 {
		text += fmt.Sprintf("; %d offsets behind the log", behind)
	}
	return text
}

// with opens the job of a file, does something with it, and closes it.
func (f *jobFlags) with(cmd *cobra.Command, file string, do func(ctx context.Context, o *openedJob, out io.Writer) error) error {
	return f.withSource(cmd, file, func(ctx context.Context, o *openedJob, _ reprocess.Spec) error {
		if err := f.openJob(ctx, o); err != nil {
			return err
		}
		return do(ctx, o, cmd.OutOrStdout())
	})
}

// withSource opens what the job of a file reads, not yet the job, does something with it, and closes it.
func (f *jobFlags) withSource(cmd *cobra.Command, file string, do func(context.Context, *openedJob, reprocess.Spec) error) error {
	spec, err := f.read(cmd, file)
	if err != nil {
		return err
	}
	o, err := f.openSource(cmd.Context(), spec)
	if err != nil {
		return err
	}
	return errors.Join(do(cmd.Context(), o, spec), o.close())
}

func (f *jobFlags) read(cmd *cobra.Command, file string) (spec reprocess.Spec, err error) {
	if f.log, err = newLogger(cmd); err != nil {
		return spec, err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return spec, fmt.Errorf("read the job: %w", err)
	}
	if spec, err = reprocess.ParseSpec(raw); err != nil {
		return spec, fmt.Errorf("%s: %w", file, err)
	}
	if f.maxRate != "" {
		spec.MaxRate = f.maxRate
	}
	return spec, nil
}

// openSource opens what a job reads, and the table that it is to replace.
func (f *jobFlags) openSource(ctx context.Context, spec reprocess.Spec) (*openedJob, error) {
	f.tableURL = spec.History
	s, err := f.open(ctx, spec.Source)
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	if err := ofOneTopic(s, spec.Source); err != nil {
		return nil, errors.Join(fmt.Errorf("open source: %w", err), s.close())
	}
	o := &openedJob{spec: spec, source: s, replaced: s.table}
	if spec.Replaces == "" {
		return o, nil
	}
	store, err := f.store.open(ctx, spec.Replaces)
	if err == nil {
		o.replaced, err = table.Open(ctx, store, table.Config{Logger: f.log})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the table to replace, %s: %w", spec.Replaces, err), s.close())
	}
	return o, nil
}

// ofOneTopic refuses a table with rows of several topics where none is named.
func ofOneTopic(s *stream, source string) error {
	if s.table == nil || s.table.Names.Topic == "" || s.table.Topic() != "" {
		return nil
	}
	return fmt.Errorf("%s has rows of several topics, and this is about one: name it with --topic, or by a kafka:// source with this table as its history", source)
}

func (f *jobFlags) openJob(ctx context.Context, o *openedJob) (err error) {
	cfg, err := f.jobConfig(ctx, o)
	if err != nil {
		return err
	}
	if err = f.openSink(ctx, o, &cfg); err != nil {
		return err
	}
	if o.group, err = f.group.open(); err != nil {
		return err
	}
	cfg.Change = changeThrough(o.group)
	o.Job, err = reprocess.Open(ctx, cfg)
	return err
}

// jobConfig is all of a job but its sink.
func (f *jobFlags) jobConfig(ctx context.Context, o *openedJob) (cfg reprocess.Config, err error) {
	s := o.source
	cfg = reprocess.Config{Spec: o.spec, Table: s.table, Log: s.source, Workers: f.workers, Tiering: f.tiering, Logger: f.log}
	if cfg.Topic, err = topicOf(ctx, s); err != nil {
		return cfg, err
	}
	if o.spec.Schema != "" {
		cfg.Schema, err = readSchema(o.spec.Schema)
	}
	return cfg, err
}

// sinkPath gives the place of the job's new table. After a swap that is the replaced table itself, if the job fills
// it from then on.
func (o *openedJob) sinkPath(ctx context.Context) (string, error) {
	if o.spec.Sink != reprocess.ShadowSink {
		return o.spec.Sink, nil
	}
	if o.replaced == nil {
		return "", errors.New(`sink "shadow" needs a table that is replaced, and the source has none yet: name one by "replaces", or give the sink a path`)
	}
	snap, err := o.replaced.Log.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	if snap.Metadata().Configuration[committer.FilledByProperty] == o.spec.Name {
		return o.replaced.Store.URL(), nil
	}
	return reprocess.ShadowPath(o.replaced.Store.URL(), o.spec.Name), nil
}

func (o *openedJob) old() (*table.Table, error) {
	if o.replaced == nil {
		return nil, errors.New(`there is no old table: name it by "replaces"`)
	}
	return o.replaced, nil
}

// topicOf gives the topic of a source; of a table alone it is the only name under which it keeps positions.
func topicOf(ctx context.Context, s *stream) (string, error) {
	switch {
	case s.source != nil && s.app != "" && s.app != s.topic:
		return "", fmt.Errorf("the table keeps positions of %s, the log is topic %s: a job needs both under one name so far", s.app, s.topic)
	case s.source != nil:
		return s.topic, nil
	case s.topic != "": // of a table with rows of several
		return s.topic, nil
	case s.app != "":
		return s.app, nil
	}
	snap, err := s.table.Log.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	return onlyApp(snap)
}

func onlyApp(snap *deltalog.Snapshot) (string, error) {
	found := committer.PositionsOf(snap, "")
	if found != "" {
		return found, nil // the splits of this job are other names
	}
	for id := range snap.Txns() {
		i := strings.LastIndexByte(id, '-')
		if i < 1 {
			continue
		}
		if found != "" && found != id[:i] {
			return "", fmt.Errorf("the table keeps positions of %s and %s: choose one by --app", found, id[:i])
		}
		found = id[:i]
	}
	if found == "" {
		return "", errors.New("the table keeps no positions, so nothing says which log its rows are of")
	}
	return found, nil
}

// report logs how far the job is, every few seconds, with the time that is left at this rate.
func (f *jobFlags) report(ctx context.Context, o *openedJob) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			st, err := o.Status(ctx)
			if err != nil {
				continue // the run says it better
			}
			args := []any{"job", st.Job, "offsets", st.Decided, "of", st.Offsets, "splits", fmt.Sprintf("%d/%d", st.Done, st.Splits)}
			if st.Control.Paused {
				args = append(args, "paused", true)
			} else if st.PerSecond > 1 && st.Decided < st.Offsets {
				args = append(args, "per_second", int64(st.PerSecond), "left", st.Left.Round(time.Second))
			}
			f.log.Info("progress", args...)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (f *jobFlags) print(out io.Writer, v any, text string) error {
	if f.json {
		return json.NewEncoder(out).Encode(v)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
