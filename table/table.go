package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// Config are the settings of a Table. The zero value is ready for use.
type Config struct {
	// Topic names a new table. Of a table with rows of several topics (Names.Topic) it is the one whose rows are read and
	// written; empty: all of them, without an order.
	Topic string
	// Names of the system columns. Zero: for a new table the default ones, for an existing table what it
	// records, else those of the default ones that it has.
	Names Names
	// DropValue leaves the raw values out of a new table: it cannot give back the records as they were.
	DropValue bool
	// PartitionColumns and Properties are for a new table.
	PartitionColumns []string
	Properties       map[string]string
	// Log are the settings of the transaction log.
	Log deltalog.Config
	// Clock gives modification times of files. Default time.Now.
	Clock func() time.Time
	// Outside opens folders that hold files of the table and are not its own: the log names files by absolute paths or
	// URIs, as that of a shallow clone does. nil refuses them, since a log that somebody else wrote would make a server read
	// what its users may not. It is asked for folders on the kind of store that the table is on, once each.
	Outside func(ctx context.Context, folder string) (objstore.Store, error)
	// LeasePoll is the pause between two looks of a new lease at deletes under way. Default 200 ms.
	LeasePoll time.Duration
	// Logger gets what happens in the background. Default: discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.LeasePoll <= 0 {
		c.LeasePoll = 200 * time.Millisecond
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Log.Logger == nil {
		c.Log.Logger = c.Logger
	}
	if c.Log.Clock == nil {
		c.Log.Clock = c.Clock
	}
	return c
}

// createNames are the system columns of a new table.
func (c Config) createNames() Names {
	n := c.Names
	if n == (Names{}) {
		n = DefaultNames()
	}
	if c.DropValue {
		n.Value = ""
	}
	return n
}

// Table is an open Delta table.
type Table struct {
	Log   *deltalog.Log
	Store objstore.Store
	Names Names // the system columns that the table has

	cfg    Config
	mapped bool         // Names are what the caller of Open says
	spoilt *SpoiltError // nil: the system columns are as they should be
	inner  []string     // of Names: those that are fields of structs
	pool   parquet.Pool // of the file writers
	mu     sync.Mutex
	newest *deltalog.Snapshot // of Open or the last Refresh

	outside outside
}

// Open opens an existing table; deltalog.ErrNotTable when there is none.
func Open(ctx context.Context, store objstore.Store, cfg Config) (*Table, error) {
	cfg = cfg.withDefaults()
	log, err := deltalog.Open(ctx, store, cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("open table %s: %w", store.URL(), err)
	}
	t, err := newTable(ctx, log, store, cfg)
	if err == nil {
		t.mapped = cfg.Names != Names{}
	}
	return t, err
}

// Spoilt gives a *SpoiltError when columns that the log fills have other types than it fills them with: such a table is not
// to be filled, and may not be read as a stream.
func (t *Table) Spoilt() error {
	if t.spoilt == nil {
		return nil
	}
	return t.spoilt
}

// Mapped says whether Names are what the caller of Open says, of a table that somebody else may have made.
func (t *Table) Mapped() bool { return t.mapped }

func newTable(ctx context.Context, log *deltalog.Log, store objstore.Store, cfg Config) (*Table, error) {
	t := &Table{Log: log, Store: store, cfg: cfg}
	snap, err := t.Refresh(ctx)
	if err == nil {
		var schema *arrow.Schema
		if schema, err = t.Schema(snap); err == nil {
			t.Names, t.spoilt, err = namesOf(schema, snap.Metadata(), cfg.Names)
			for _, f := range t.Names.innerFields(schema.Fields()) {
				t.inner = append(t.inner, f.Name)
			}
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open table %s: %w", store.URL(), err), log.Close())
	}
	return t, nil
}

// Create makes a table with the system columns and the payload columns after them; deltalog.ErrTableExists
// when there is one already.
func Create(ctx context.Context, store objstore.Store, payload *arrow.Schema, cfg Config) (*Table, error) {
	cfg = cfg.withDefaults()
	opts, err := createOptions(payload, cfg)
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", store.URL(), err)
	}
	log, err := deltalog.Create(ctx, store, opts, cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", store.URL(), err)
	}
	cfg.Names = cfg.createNames()
	return newTable(ctx, log, store, cfg)
}

func createOptions(payload *arrow.Schema, cfg Config) (deltalog.CreateOptions, error) {
	names := cfg.createNames()
	if err := names.validate(); err != nil {
		return deltalog.CreateOptions{}, err
	}
	fields := SystemFields(names)
	if payload != nil {
		for _, f := range payload.Fields() {
			if names.Has(f.Name) {
				return deltalog.CreateOptions{}, fmt.Errorf("payload column %q has the name of a system column; map the system columns to other names", f.Name)
			}
			fields = append(fields, f)
		}
	}
	by := cfg.PartitionColumns
	if names.Topic != "" && !slices.Contains(by, names.Topic) {
		by = append([]string{names.Topic}, by...)
	}
	for _, p := range by {
		if names.Has(p) && p != names.Topic {
			return deltalog.CreateOptions{}, fmt.Errorf("system column %q cannot be a partition column: each of its values would need files of its own", p)
		}
	}
	schema, err := deltalog.FromArrow(arrow.NewSchema(fields, nil))
	if err != nil {
		return deltalog.CreateOptions{}, err
	}
	props := make(map[string]string, len(cfg.Properties)+1)
	for k, v := range cfg.Properties {
		props[k] = v
	}
	if n := names; n != DefaultNames() {
		raw, err := json.Marshal(n)
		if err != nil {
			return deltalog.CreateOptions{}, err
		}
		props[namesProperty] = string(raw)
	}
	return deltalog.CreateOptions{Schema: schema, PartitionColumns: by, Configuration: props, Name: cfg.Topic}, nil
}

// OpenOrCreate opens the table, or makes it when there is none. Of many concurrent calls one makes it and the
// others open that one.
func OpenOrCreate(ctx context.Context, store objstore.Store, payload *arrow.Schema, cfg Config) (*Table, error) {
	t, err := Open(ctx, store, cfg)
	if !errors.Is(err, deltalog.ErrNotTable) {
		return t, err
	}
	t, err = Create(ctx, store, payload, cfg)
	if errors.Is(err, deltalog.ErrTableExists) {
		return Open(ctx, store, cfg)
	}
	return t, err
}

// Refresh gives the newest snapshot, and makes it the one that PayloadSchema and new FileWriters go by.
func (t *Table) Refresh(ctx context.Context) (*deltalog.Snapshot, error) {
	snap, err := t.Log.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest == nil || snap.Version() > t.newest.Version() || snap.Metadata().ID != t.newest.Metadata().ID {
		t.newest = snap
	}
	return t.newest, nil
}

func (t *Table) current() *deltalog.Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest
}

// Schema gives the columns of a snapshot, partition columns included, and the inner ones last.
func (t *Table) Schema(snap *deltalog.Snapshot) (*arrow.Schema, error) {
	columns, err := deltalog.ToArrow(snap.Schema())
	if err != nil || len(t.inner) == 0 {
		return columns, err
	}
	fields := columns.Fields()
	return arrow.NewSchema(append(fields, t.Names.innerFields(fields)...), nil), nil
}

// Properties are the table's settings, of the snapshot of Open or the last Refresh. They are not to be changed.
func (t *Table) Properties() map[string]string { return t.current().Metadata().Configuration }

// PayloadSchema gives the columns that are no system columns, of the snapshot of Open or the last Refresh.
func (t *Table) PayloadSchema() (*arrow.Schema, error) {
	full, err := t.Schema(t.current())
	if err != nil {
		return nil, err
	}
	fields := slices.DeleteFunc(slices.Clone(full.Fields()), func(f arrow.Field) bool { return t.Names.Has(f.Name) })
	return arrow.NewSchema(fields, nil), nil
}

// Close closes the transaction log.
func (t *Table) Close() error { return t.Log.Close() }
