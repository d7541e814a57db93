package reprocess_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// A job that changes no values makes its rows as the source's table is filled: of any format, with its transforms and
// filter. One that reads JSON refuses values that are none.
func TestJobsKeepToTheFormat(t *testing.T) {
	values, err := format.Parse(format.CSV, format.Options{CSV: format.CSVOptions{Fields: []string{"n", "word"}, Comma: ';'}})
	if err != nil {
		t.Fatal(err)
	}
	var spec transform.Spec
	spec.Set = []transform.Field{{Property: "at", Source: "kafka.offset"}}
	r := newRig(t)
	r.dir += "-csv"
	r.replaced = r.dir
	long := arrow.PrimitiveTypes.Int64
	r.live, err = table.Create(t.Context(), r.store(r.dir), arrow.NewSchema([]arrow.Field{{Name: "n", Type: long, Nullable: true}, {Name: "at", Type: long, Nullable: true}}, nil),
		table.Config{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	tier := func() {
		t.Helper()
		tr, err := tiering.Open(t.Context(), tiering.Config{Source: r.log, Topic: topic, Table: r.live, NewDecoder: values.NewDecoder, Transform: spec, UntilEnd: true,
			Properties: map[string]string{format.Property(topic): values.String()}, RetryBase: time.Microsecond, RetryMax: time.Millisecond,
			DeadLetterStore: func(context.Context) (objstore.Store, error) { return r.store(r.dir + "_dead_letters"), nil }})
		if err == nil {
			err = errors.Join(tr.Run(t.Context()), tr.Close())
		}
		if err == nil {
			_, err = r.live.Refresh(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	send := func() {
		t.Helper()
		b := record.NewBuilder(record.Snappy)
		for range 50 {
			b.Append(1_700_000_000_000, nil, fmt.Appendf(nil, "%d;w", n), nil)
			n++
		}
		raw, err := b.Build(0)
		if err == nil {
			_, err = r.log.Append(t.Context(), record.TopicPartition{Topic: topic}, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	send()
	tier()
	send() // the job takes these from the log
	j := r.open(r.config(reprocess.Spec{SplitBytes: 1 << 10}))
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"n", "at"} {
		got := r.values(j.Sink(), column)
		for i := range int64(100) {
			if v, ok := got[place{0, i}]; !ok || v != i || len(got) != 100 {
				t.Fatalf("%s at offset %d is %d (%v), of %d rows", column, i, v, ok, len(got))
			}
		}
	}
	if _, err := reprocess.Open(t.Context(), r.config(reprocess.Spec{Name: "other", Where: "n > 1"})); !errors.Is(err, reprocess.ErrSpec) || !strings.Contains(err.Error(), "the values of events are csv") {
		t.Errorf("expressions over CSV: %v", err)
	}

	// A swap takes the format along: who reads the table and the log behind it before the new job follows has rows, and no
	// gaps of undecodable values (I4).
	cfg := r.config(reprocess.Spec{Name: "first"})
	r.replaced = filepath.Join(filepath.Dir(r.dir), "classified")
	cfg.Sink = r.store(r.replaced)
	first := r.open(cfg)
	second := r.open(r.config(reprocess.Spec{Name: "second"}))
	for _, j := range []*reprocess.Job{first, second} {
		if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := second.Swap(t.Context(), first.Sink(), false); err != nil {
		t.Fatal(err)
	}
	send()
	cur, err := reader.Open(t.Context(), reader.Config{Table: first.Sink(), Source: r.log, Topic: topic, App: "second", Columns: []string{"_offset", "n", "at"},
		OnGap: func(g reader.Gap) { t.Errorf("a gap behind the swap: %+v", g) }})
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	if seam := cur.Seam()[0]; seam != 100 {
		t.Errorf("the swapped table ends at %d, want 100", seam)
	}
	at := int64(0)
	for rb, err := range cur.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rb.NumRows()) {
			for c := range 3 {
				if v := rb.Column(c).(*array.Int64).Value(i); v != at {
					t.Fatalf("%s at offset %d is %d", rb.ColumnName(c), at, v)
				}
			}
			at++
		}
	}
	if at != 150 {
		t.Errorf("%d rows, want 150", at)
	}
}

// A table that is filled by transforms and a filter: a job that changes values gets the records that are rows of it, from
// the log as from the table; what no job can do over is refused by name before there is a new table (I3, I4).
func TestJobsKeepToTheFilter(t *testing.T) {
	long := arrow.PrimitiveTypes.Int64
	fields := []arrow.Field{{Name: "n", Type: long, Nullable: true}, {Name: "at", Type: long, Nullable: true}}
	filled := func(spec transform.Spec) *rig {
		r := newRig(t)
		r.dir += "-filtered"
		r.replaced = r.dir
		var err error
		r.live, err = table.Create(t.Context(), r.store(r.dir), arrow.NewSchema(fields, nil), table.Config{Topic: topic,
			Properties: map[string]string{transform.Property(topic): spec.String()}})
		if err != nil {
			t.Fatal(err)
		}
		r.send(0, 150)
		tr, err := tiering.Open(t.Context(), tiering.Config{Source: r.log, Topic: topic, Table: r.live, Format: tiering.FormatJSON, Transform: spec, UntilEnd: true,
			DeadLetterStore: func(context.Context) (objstore.Store, error) { return r.store(r.dir + "_dead_letters"), nil }})
		if err == nil {
			err = errors.Join(tr.Run(t.Context()), tr.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		r.send(150, 300) // the job takes these from the log
		return r
	}
	at := []transform.Field{{Property: "at", Source: "kafka.offset"}}
	r := filled(transform.Spec{Set: at, Where: "word == 'w3'"})
	j := r.open(r.config(reprocess.Spec{Columns: []reprocess.Column{{Name: "n", Value: "n * 2"}}}))
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "filtered", r.values(j.Sink(), "n"), r.want(func(n int) (int64, bool) { return int64(2 * n), n%5 == 3 }))

	// The source's transforms become others: a job that has begun keeps to its own, also when it is opened again.
	r = filled(transform.Spec{Set: at, Where: "word == 'w3'"})
	kept := r.config(reprocess.Spec{Name: "kept"})
	r.open(kept)
	snap, err := r.live.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	change, err := snap.Alter(deltalog.Change{Set: map[string]string{transform.Property(topic): transform.Spec{Set: at}.String()}})
	if err == nil {
		_, err = r.live.Log.Commit(t.Context(), change)
	}
	if err == nil {
		_, err = r.live.Refresh(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	j = r.open(kept)
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "with the transforms that it began with", r.values(j.Sink(), "n"), r.want(func(n int) (int64, bool) { return int64(n), n%5 == 3 }))

	cfg := r.config(reprocess.Spec{Name: "narrow"})
	cfg.Schema = arrow.NewSchema(fields[:1], nil)
	for name, c := range map[string]struct {
		cfg  reprocess.Config
		want string
	}{
		"a column of a transform": {cfg, "at"},
		"a source of the batch":   {filled(transform.Spec{Set: []transform.Field{{Property: "at", Source: "kafka.leader_epoch"}}}).config(reprocess.Spec{Name: "batch"}), "kafka.leader_epoch"},
		"a filter of the batch":   {filled(transform.Spec{Where: "kafka.timestamp_type == `0`"}).config(reprocess.Spec{Name: "where", Where: "n > 1"}), "kafka.timestamp_type"},
	} {
		if _, err := reprocess.Open(t.Context(), c.cfg); !errors.Is(err, reprocess.ErrSpec) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := table.Open(t.Context(), c.cfg.Sink, table.Config{Topic: topic}); err == nil {
			t.Errorf("%s: there is a new table", name)
		}
	}
}
