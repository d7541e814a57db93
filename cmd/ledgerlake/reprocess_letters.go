package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// letterFlags are those of `reprocess --dead-letters`.
type letterFlags struct {
	on     bool
	where  string
	set    []string
	dryRun bool
}

func (l *letterFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&l.on, "dead-letters", false, "the argument is a table, or DIR/TOPIC: make rows of its dead letters that fit now, and take these letters out")
	fs.StringVar(&l.where, "where", "", "with --dead-letters: an expression; letters for which it is false are dropped for good")
	fs.StringArrayVar(&l.set, "set", nil, "with --dead-letters: FIELD=EXPRESSION, changes a field of the value before it is decoded, such as --set 'n=int(n)'; may be repeated")
	fs.BoolVar(&l.dryRun, "dry-run", false, "write nothing: say what the job would read and make, or what would become of the dead letters")
}

// change makes what the flags do to a record; nil for nothing.
func (l *letterFlags) change() (func(context.Context, int32, *record.Record) (bool, error), error) {
	if l.where == "" && len(l.set) == 0 {
		return nil, nil
	}
	var columns []reprocess.Column
	for _, s := range l.set {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("--set %q: want FIELD=EXPRESSION", s)
		}
		columns = append(columns, reprocess.Column{Name: name, Value: value})
	}
	e, err := reprocess.CompileExpressions(l.where, nil, columns)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, partition int32, rec *record.Record) (bool, error) {
		out, err := e.Apply(ctx, []reprocess.Record{{Partition: partition, Record: *rec}})
		if err == nil {
			err = out[0].Err
		}
		if err != nil || out[0].Drop {
			return true, err
		}
		rec.Value = out[0].Value
		return false, nil
	}, nil
}

// replayLetters is `reprocess --dead-letters SOURCE`.
func (f *jobFlags) replayLetters(ctx context.Context, l *letterFlags, source string, out io.Writer) (err error) {
	s, err := f.open(ctx, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.table == nil {
		return fmt.Errorf("%s has no table yet, so it has no dead letters", source)
	}
	if err := ofOneTopic(s, source); err != nil {
		return err
	}
	cfg := tiering.ReplayConfig{Table: s.table, App: s.app, DryRun: l.dryRun, Logger: f.log}
	if cfg.Topic, err = topicOf(ctx, s); err != nil {
		return err
	}
	group, err := f.group.open()
	if err != nil {
		return err
	}
	if group != nil {
		defer group.Close()
	}
	cfg.CommitTo = changeThrough(group)
	if cfg.Change, err = l.change(); err != nil {
		return err
	}
	values, err := format.Of(s.table.Properties(), cmp.Or(s.app, cfg.Topic), format.Access{Pulsar: s.schemas()})
	if err != nil {
		return err
	}
	if values != nil {
		defer values.Close()
		cfg.NewDecoder = values.NewDecoder
	}
	at := strings.TrimSuffix(s.table.Store.URL(), "/") + "_dead_letters"
	store, err := f.store.open(ctx, at)
	if err == nil {
		cfg.Letters, err = table.Open(ctx, store, table.Config{Topic: cfg.Topic, Logger: f.log})
	}
	if err != nil {
		return fmt.Errorf("open dead letters %s: %w", at, err)
	}
	defer func() { err = errors.Join(err, cfg.Letters.Close()) }()
	report, err := tiering.ReplayLetters(ctx, cfg)
	if err != nil {
		return err
	}
	return f.print(out, report, report.String())
}
