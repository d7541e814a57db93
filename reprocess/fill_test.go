package reprocess_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/objstore"
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
}
